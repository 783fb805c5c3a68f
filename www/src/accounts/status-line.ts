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
  paused: { word: "Paused", sentence: "The server lets this device in again once you have signed in.", icon: "paused" },
  avion: { word: "Reading only", sentence: "The data of this device, as it was last stored here.", icon: "avion" },
  closed: { word: "Closed", sentence: "The session is closed.", icon: "closed" },
};

/** The line. */
export class StatusLine {
  readonly element: HTMLElement;
  private readonly phase = h("span", { class: "phase", testid: "status-phase" });
  private readonly sentence = h("span", { class: "status-sentence" });
  private readonly pending = h("span", { class: "status-item", testid: "pending", hidden: true });
  private readonly storage = h("span", { class: "status-item" });

  constructor() {
    fill(this.storage, icon("device"), "Sealed on this device");
    this.element = h(
      "footer",
      { class: "status-bar", "aria-label": "Status" },
      h("div", { class: "status-phase", role: "status" }, this.phase, this.sentence),
      h("div", { class: "status-items" }, this.pending, this.storage),
    );
  }

  /** Shows a status. */
  update({ phase, pending, storage }: StatusValue): void {
    const { word, sentence, icon: name } = PHASES[phase];
    document.documentElement.dataset.phase = phase;
    if (this.phase.textContent !== word) fill(this.phase, icon(name), word);
    setText(this.sentence, sentence);
    show(this.pending, pending > 0);
    fill(this.pending, icon("pending"), `${plural(pending, "change")} waiting`);
    show(this.storage, storage === "ok");
  }
}
