/** The status of the session: online, pending or offline, by word, sentence and icon. */

import { fill, h, setText, show } from "../dom";
import { plural } from "../format";
import { icon, type IconName } from "../icons";
import type { StatusValue } from "./session";

interface Words {
  word: string;
  sentence: string;
  icon: IconName;
}

const PHASES: Readonly<Record<StatusValue["phase"], Words>> = {
  opening: { word: "Opening", sentence: "Reading the data on this device.", icon: "opening" },
  loading: { word: "Loading", sentence: "Fetching the notes.", icon: "loading" },
  live: { word: "Online", sentence: "Notes of others appear here as they are written.", icon: "live" },
  offline: { word: "Offline", sentence: "The server does not answer. You can read and write: it is sent later.", icon: "offline" },
  paused: { word: "Connecting", sentence: "Signing in at the server. You can read and write meanwhile.", icon: "opening" },
  avion: { word: "Reading only", sentence: "The data of this device, as it was last stored here.", icon: "avion" },
  closed: { word: "Closed", sentence: "The session is closed.", icon: "closed" },
};

/** The passphrase was changed elsewhere, and the session waits for the new one. */
const PAUSED: Words = { word: "Paused", sentence: "Type the new passphrase above to go on.", icon: "paused" };

/** Another tab talks to the server, and has not reached it. */
const FOLLOWING: Words = { ...PHASES.offline, sentence: "Another tab of this page waits for the server, or for the new passphrase." };

const STORAGE: Readonly<Record<StatusValue["storage"], string>> = {
  ok: "Sealed on this device",
  memory: "In memory only",
  full: "Device full",
  lost: "Store lost",
  none: "Nothing stored",
};

/** A sign-in that takes longer has not reached the server. */
const CONNECTING_MS = 1_500;

/** The line. */
export class StatusLine {
  readonly element: HTMLElement;
  private readonly phase = h("span", { class: "phase", testid: "status-phase" });
  private readonly sentence = h("span", { class: "status-sentence" });
  private readonly pending = h("span", { class: "status-item", testid: "pending", hidden: true });
  private readonly storage = h("span", { class: "status-item" });
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    this.element = h(
      "footer",
      { class: "status-bar", "aria-label": "Status" },
      h("div", { class: "status-phase", role: "status" }, this.phase, this.sentence),
      h("div", { class: "status-items" }, this.pending, this.storage),
    );
  }

  /** Shows a status. `isLockedOut`: the session waits for the account's new passphrase. */
  update({ phase, pending, storage, leads }: StatusValue, isLockedOut: boolean): void {
    clearTimeout(this.timer);
    // A session without a token is in these phases, whether the server answers or not.
    if (phase !== "opening" && phase !== "paused") this.say(phase, PHASES[phase]);
    else if (isLockedOut) this.say(phase, PAUSED);
    else if (this.phase.textContent !== PHASES.offline.word) {
      this.say(phase, PHASES[phase]);
      this.timer = setTimeout(() => this.say("offline", leads ? PHASES.offline : FOLLOWING), CONNECTING_MS);
    }
    show(this.pending, pending > 0);
    fill(this.pending, icon("pending"), `${plural(pending, "change")} waiting`);
    this.storage.dataset.storage = storage;
    fill(this.storage, icon("device"), STORAGE[storage]);
  }

  /** Stops the timer. */
  stop(): void {
    clearTimeout(this.timer);
  }

  private say(phase: string, { word, sentence, icon: name }: Words): void {
    document.documentElement.dataset.phase = phase;
    if (this.phase.textContent !== word) fill(this.phase, icon(name), word);
    setText(this.sentence, sentence);
  }
}
