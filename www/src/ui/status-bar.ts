/** The status bar: the phase by word, colour and icon; progress, waiting writes, storage, problems. */

import { fill, h, setText, show } from "../dom";
import { count, moment, plural } from "../format";
import { icon } from "../icons";
import { phaseText } from "../phases";
import { problemOf } from "../problems";
import type { Session, StatusValue } from "../session";
import { problemsDialog } from "./dialogs";

const STORAGE: Readonly<Record<string, string>> = {
  ok: "Sealed on this device",
  memory: "In memory only",
  full: "Device full",
  lost: "Store lost",
  none: "Nothing stored",
};

const UNREACHED: ReadonlySet<string> = new Set(["offline", "timeout"]);

/** The phases in which the server is out of reach, by accident or by choice. */
const AWAY: ReadonlySet<string> = new Set(["offline", "paused", "avion"]);

/** Milliseconds without a change after which the time of the last sync is looked up. */
const SETTLE_MS = 400;
/** Milliseconds between two updates while nothing changes. */
const REFRESH_MS = 60_000;

/** The bar. */
export class StatusBar {
  readonly element: HTMLElement;
  private readonly phase = h("span", { class: "phase", testid: "status-phase" });
  private readonly sentence = h("span", { class: "status-sentence" });
  private readonly bar = h("div", { class: "bar-fill" });
  private readonly progressText = h("span", { class: "progress-text" });
  private readonly progress: HTMLElement;
  private readonly pending = h("button", { class: "status-writes", type: "button", testid: "pending", hidden: true });
  private readonly storage = h("span", { class: "status-item", testid: "storage" });
  private readonly synced = h("span", { class: "status-item status-synced", testid: "last-sync" });
  private readonly faults = h("button", { class: "status-faults", type: "button", testid: "faults", hidden: true });
  private status: StatusValue | undefined;
  private following = true;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly every = setInterval(() => void this.updateSynced(), REFRESH_MS);

  constructor(
    private readonly session: Session,
    openWrites: () => void,
  ) {
    this.pending.addEventListener("click", openWrites);
    this.progress = h(
      "div",
      { class: "progress", role: "progressbar", "aria-label": "Loading", testid: "progress", hidden: true },
      h("div", { class: "bar" }, this.bar),
      this.progressText,
    );
    this.faults.addEventListener("click", () => void problemsDialog(this.problems()));
    this.element = h(
      "footer",
      { class: "status-bar", "aria-label": "Status" },
      h("div", { class: "status-phase", role: "status" }, this.phase, this.sentence),
      this.progress,
      h("div", { class: "status-items" }, this.faults, this.pending, this.storage, this.synced),
    );
  }

  /** Shows a status. */
  update(status: StatusValue): void {
    this.status = status;
    this.updatePhase(status.phase);
    this.updateProgress(status.progress);
    this.updateWrites(status.pending, this.session.refused.value.length);
    fill(this.storage, icon(status.mode === "incognito" ? "incognito" : "device"), STORAGE[status.storage] ?? status.storage);
    this.storage.dataset.storage = status.storage;
    const problems = this.problems();
    show(this.faults, problems.length > 0);
    if (problems.length > 0) fill(this.faults, icon("alert"), plural(problems.length, "problem"));
    if (status.phase !== "loading") this.scheduleSynced();
  }

  /** Shows how many writes wait for the server, and how many it refused. */
  updateWrites(waiting: number, refused: number): void {
    show(this.pending, waiting + refused > 0);
    this.pending.toggleAttribute("data-refused", refused > 0);
    const parts = [refused > 0 ? `${count(refused)} refused` : "", waiting > 0 ? `${plural(waiting, "write")} waiting` : ""];
    const text = parts.filter((part) => part !== "").join(", ");
    if (this.pending.textContent !== text) fill(this.pending, icon(refused > 0 ? "alert" : "pending"), text);
  }

  /** Whether any topic is followed: the meaning of `live` depends on it. */
  setFollowing(following: boolean): void {
    this.following = following;
    if (this.status) this.updatePhase(this.status.phase);
  }

  /** Stops the timers. */
  stop(): void {
    clearTimeout(this.timer);
    clearInterval(this.every);
  }

  private updatePhase(phase: string): void {
    const { word, sentence, icon: name } = phaseText(phase, this.following);
    document.documentElement.dataset.phase = phase;
    this.phase.dataset.phase = phase;
    if (this.phase.textContent !== word) fill(this.phase, icon(name), h("span", {}, word));
    setText(this.sentence, sentence);
  }

  private updateProgress(progress: StatusValue["progress"]): void {
    show(this.progress, progress !== null);
    if (!progress) return;
    const { received, total } = progress;
    const share = total ? Math.min(1, received / total) : 0;
    this.progress.classList.toggle("unknown", !total);
    this.progress.dataset.received = String(received);
    this.progress.dataset.total = total === null ? "" : String(total);
    this.progress.setAttribute("aria-valuetext", total ? `${received} of ${total}` : `${received} received`);
    this.progress.setAttribute("aria-valuenow", String(Math.round(share * 100)));
    this.bar.style.setProperty("transform", `scaleX(${total ? share : 1})`);
    setText(this.progressText, total ? `${count(received)} of ${count(total)}` : count(received));
  }

  /** Counting the stored records reads all of them, so it is done once after a burst of changes. */
  private scheduleSynced(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.updateSynced(), SETTLE_MS);
  }

  /**
   * The time of the last pull is the collections' highest version. It is known even after a reload without a network.
   */
  private async updateSynced(): Promise<void> {
    if (document.hidden) return;
    try {
      const { memory } = await this.session.inspect({ limit: 0 });
      const last = memory.collections.reduce((latest, { v }) => Math.max(latest, v), 0);
      // In the other phases, and without collections, the phase already says everything.
      const never = AWAY.has(this.status?.phase ?? "") && memory.collections.length > 0 ? "Never synced" : "";
      setText(this.synced, last > 0 ? `Last sync ${moment(last)}` : never);
    } catch {
      // The session closed meanwhile, and this bar with it.
    }
  }

  private problems(): { title: string; text: string; code: string }[] {
    const status = this.status;
    if (!status) return [];
    const { documents, collections } = status.damaged;
    const damaged = documents + collections;
    const list = damaged
      ? [
          {
            code: "record_damaged",
            title: `${plural(damaged, "record")} on this device ${damaged === 1 ? "was" : "were"} altered`,
            text: "Set aside, and fetched again from the server in synced mode.",
          },
        ]
      : [];
    // The phase already says that the server does not answer.
    const isNews = status.error && !(status.phase === "offline" && UNREACHED.has(status.error.code));
    const errors = [...Object.values(status.faults), ...(status.error && isNews ? [status.error] : [])];
    return [...list, ...errors.map((error) => problemOf(error))];
  }
}
