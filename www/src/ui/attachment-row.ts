/** One attachment: its name, its state on this device, its picture, and its actions. */

import { advice } from "escale/advice";
import type { FileState } from "escale/files";
import { fill, h, setText } from "../dom";
import { bytes, moment } from "../format";
import { icon } from "../icons";
import { problemOf } from "../problems";
import type { Attachment } from "../schema";
import type { Files } from "../session";

/** Larger pictures are shown on request only. */
const SHOWN_BYTES_MAX = 2 << 20;
/** The longest side of a picture in the list, in CSS pixels. */
const SIDE = 320;

/** The actions of a row's list. */
export interface RowActions {
  remove(attachment: Attachment): void;
  fail(error: unknown): void;
}

/** A row. `end` stops it. */
export class AttachmentRow {
  readonly element: HTMLElement;
  private readonly words = h("p", { class: "hint attachment-state", testid: "attachment-state" });
  private readonly bar = h("progress", { class: "bar", max: 1, hidden: true, testid: "attachment-progress" });
  private readonly picture = h("canvas", { class: "attachment-picture", hidden: true, testid: "attachment-picture" });
  private readonly load = this.button("Load", "attachment-load", () => void this.loads());
  private readonly save = this.button("Save", "attachment-save", () => void this.saves());
  private readonly stop: () => void;
  private state: FileState | undefined;
  private isDrawn = false;

  constructor(
    private readonly files: Files,
    readonly attachment: Attachment,
    private isPending: boolean,
    private readonly isLive: () => boolean,
    private readonly actions: RowActions,
  ) {
    const { file, at } = attachment;
    const remove = h("button", { class: "icon-button", type: "button", "aria-label": "Remove this attachment", testid: "attachment-remove" }, icon("trash"));
    remove.addEventListener("click", () => this.actions.remove(attachment));
    this.element = h(
      "li",
      { class: "note attachment", testid: "attachment" },
      h("p", { class: "attachment-name" }, file.name ?? "Unnamed"),
      h("p", { class: "hint" }, `${bytes(file.size)}, ${moment(at)}`),
      this.picture,
      this.bar,
      this.words,
      h("div", { class: "attachment-actions" }, this.load, this.save),
      remove,
    );
    this.stop = files.subscribe(file, (state) => this.show(state));
  }

  /** The document's write was answered, or the session's phase changed. */
  update(isPending: boolean): void {
    this.isPending = isPending;
    if (this.state) this.show(this.state);
  }

  end(): void {
    this.stop();
  }

  private show(state: FileState): void {
    this.state = state;
    const { phase, here, of, sent = 0, error } = state;
    this.element.dataset.state = this.isPending ? "waiting" : "accepted";
    this.element.dataset.phase = phase;
    const done = phase === "sending" ? sent : here;
    setText(this.words, this.wordsOf(phase, error));
    const isMoving = phase === "sending" || phase === "loading" || (phase === "full" && here > 0);
    this.bar.hidden = !isMoving;
    this.bar.value = of === 0 ? 1 : done / of;
    this.bar.setAttribute("aria-label", `${bytes(done)} of ${bytes(of)}`);
    this.load.hidden = !["none", "failed", "full"].includes(phase);
    this.save.hidden = here < of;
    void this.draws();
  }

  private wordsOf(phase: FileState["phase"], error: FileState["error"]): string {
    if (phase === "sending") return "On its way to the server";
    if (phase === "loading") return "Loading";
    if (phase === "failed") return error ? advice(error) : "It did not work.";
    if (phase === "full") return "This device has no room for it. Free some room, and it goes on by itself.";
    if (this.isPending) return "Safe on this device. It waits for the server.";
    if (phase === "waiting") return "It comes once the server is reached";
    return phase === "here" ? "On this device" : "At the server, not on this device";
  }

  /** Draws a picture whose bytes are here. A small one is loaded for it. */
  private async draws(): Promise<void> {
    const { file } = this.attachment;
    const isHere = this.state !== undefined && this.state.here >= file.size;
    const isSmall = file.size <= SHOWN_BYTES_MAX && file.type?.startsWith("image/") === true;
    if (this.isDrawn || !isSmall || !(isHere || (this.state?.phase === "none" && this.isLive()))) return;
    this.isDrawn = true;
    try {
      const found = await this.files.bytes(file);
      const image = await createImageBitmap(new Blob([found], { type: file.type ?? "" }));
      const longest = Math.max(image.width, image.height);
      const scale = Math.min(1, (SIDE * devicePixelRatio) / longest);
      this.picture.width = Math.max(1, Math.round(image.width * scale));
      this.picture.height = Math.max(1, Math.round(image.height * scale));
      this.picture.getContext("2d")?.drawImage(image, 0, 0, this.picture.width, this.picture.height);
      this.picture.style.width = `${Math.round((image.width * Math.min(longest, SIDE)) / longest)}px`;
      image.close();
      this.picture.setAttribute("role", "img");
      this.picture.setAttribute("aria-label", file.name ?? "A picture");
      this.picture.hidden = false;
    } catch {
      // No picture, or no way to it now: the row says so.
      this.isDrawn = this.state?.phase === "here";
    }
  }

  private async loads(): Promise<void> {
    try {
      // The bytes stay as a cache: nothing is kept in memory.
      await this.files.read(this.attachment.file).pipeTo(new WritableStream());
    } catch (error) {
      this.actions.fail(error);
    }
  }

  /** Hands the bytes to the visitor's own folder, where they are in clear. */
  private async saves(): Promise<void> {
    const { file } = this.attachment;
    try {
      const blob = await new Response(this.files.read(file) as BodyInit).blob();
      const url = URL.createObjectURL(blob);
      h("a", { href: url, download: file.name ?? "attachment" }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
    } catch (error) {
      this.actions.fail(error);
    }
  }

  private button(label: string, testid: string, run: () => void): HTMLButtonElement {
    return h("button", { class: "button small", type: "button", testid, hidden: true, on: { click: run } }, label);
  }
}

/** A file on its way into the device: its name, and how much of it is sealed. */
export function addingRow(name: string, size: number): { element: HTMLElement; at: (done: number) => void; fail: (error: unknown) => void } {
  const bar = h("progress", { class: "bar", max: 1, value: 0, "aria-label": "Sealing on this device" });
  const words = h("p", { class: "hint" }, `Sealing ${bytes(size)} on this device`);
  const element = h("li", { class: "note attachment", testid: "attachment-adding", "data-state": "waiting" }, h("p", { class: "attachment-name" }, name), bar, words);
  return {
    element,
    at: (done) => (bar.value = size === 0 ? 1 : done / size),
    fail: (error) => {
      const { title, text } = problemOf(error);
      fill(element, h("p", { class: "attachment-name" }, name), h("p", { class: "field-error", role: "alert" }, `${title}. ${text}`));
    },
  };
}
