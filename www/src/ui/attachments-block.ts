/** The attachments of a package: files of any size, added by a button, by a drop, from the clipboard or the camera. */

import type { Keep } from "escale/files";
import { leaveItems } from "../defs";
import { fill, h, setText } from "../dom";
import { bytes } from "../format";
import { icon } from "../icons";
import { problemOf } from "../problems";
import type { Attachment } from "../schema";
import type { Files, Session } from "../session";
import type { Writes } from "../writes";
import { addingRow, AttachmentRow } from "./attachment-row";

/** A list of attachments with the ways to add some. `end` stops it. */
export class AttachmentsBlock {
  readonly element: HTMLElement;
  private readonly list = h("ul", { class: "notes", testid: "attachments" });
  private readonly adding = h("ul", { class: "notes" });
  private readonly state = h("p", { class: "hint", testid: "attachments-state" }, "Looking for attachments...");
  private readonly error = h("p", { class: "field-error", role: "alert", hidden: true, testid: "attachments-error" });
  private readonly usage = h("p", { class: "hint", testid: "attachments-usage", hidden: true });
  private readonly keeps = h("input", { type: "checkbox", disabled: true, testid: "attachments-keep", on: { change: () => this.toggle() } });
  private readonly rows = new Map<string, AttachmentRow>();
  private readonly stops: (() => void)[] = [];
  private files: Files | undefined;
  private attachments: readonly Attachment[] = [];
  private keep: Keep | undefined;
  private isReady = false;
  private isOver = false;

  constructor(
    private readonly session: Session,
    private readonly writes: Writes,
    private readonly name: string,
  ) {
    const pick = this.input("attach-file", { multiple: true });
    const camera = this.input("attach-camera", { accept: "image/*", capture: "environment" });
    this.element = h(
      "section",
      { class: "detail-block attachments", testid: "attachments-block", tabindex: -1 },
      h("h3", {}, "Attachments"),
      this.state,
      this.list,
      this.adding,
      h(
        "div",
        { class: "attach" },
        h("label", { class: "button small" }, icon("plus"), "Attach files", pick),
        h("label", { class: "button small camera" }, icon("eye"), "Take a picture", camera),
        h("p", { class: "hint drop-hint" }, "Or drop files here, or paste a picture."),
      ),
      h("label", { class: "keep" }, this.keeps, "Keep them on this device, for when there is no network"),
      this.usage,
      this.error,
    );
    this.takesDrops();
    const tree = session.document("Package", [name], { items: ["Attachment"] });
    this.stops.push(
      tree.subscribe(({ items }, { ready }) => {
        this.attachments = items.Attachment;
        this.isReady = ready;
        this.draw();
      }),
      session.status.subscribe(() => this.draw()),
    );
    void this.connect();
  }

  /** A write was answered. */
  written(): void {
    this.draw();
  }

  /** The package is shown no more. Its attachments stay on the device if there are any. */
  async end(): Promise<void> {
    this.isOver = true;
    for (const stop of this.stops) stop();
    for (const row of this.rows.values()) row.end();
    if (this.attachments.length > 0 || this.keep) return;
    await leaveItems(this.session, "Attachment", this.name);
  }

  private async connect(): Promise<void> {
    try {
      const files = await this.session.files();
      if (this.isOver) return;
      this.files = files;
      this.keep = files.keeps().find(({ what }) => "class" in what && what.class === "Attachment" && what.match.package === this.name);
      this.keeps.checked = this.keep !== undefined;
      this.keeps.disabled = false;
      this.draw();
    } catch (error) {
      this.fail(error);
    }
  }

  private draw(): void {
    const { status } = this.session;
    if (this.isOver || status.phase === "closed") return;
    const isAway = status.phase !== "live" && status.phase !== "loading";
    const some = this.attachments.length > 0;
    const state = some ? "" : this.isReady ? "None yet. Everyone who opens this package can load them." : isAway ? "They come once the server is reached. You can attach some now." : "Looking for attachments...";
    setText(this.state, state);
    this.state.hidden = state === "";
    const { files } = this;
    if (!files) return;
    const byTime = [...this.attachments].sort((a, b) => b.at - a.at || (a.id < b.id ? 1 : -1));
    for (const [id, row] of this.rows) {
      if (byTime.some((attachment) => attachment.id === id)) continue;
      row.end();
      this.rows.delete(id);
    }
    const isLive = (): boolean => this.session.status.phase === "live";
    const elements = byTime.map((attachment) => {
      const isPending = this.session.meta(attachment)?.pending ?? false;
      let row = this.rows.get(attachment.id);
      if (row) row.update(isPending);
      else {
        row = new AttachmentRow(files, attachment, isPending, isLive, { remove: (one) => this.attempt(() => this.writes.removeAttachment(one)), fail: (error) => this.fail(error) });
        this.rows.set(attachment.id, row);
      }
      return row.element;
    });
    if (elements.length !== this.list.children.length || elements.some((element, at) => this.list.children[at] !== element)) fill(this.list, elements);
    void this.showUsage(files);
  }

  private async showUsage(files: Files): Promise<void> {
    const { pending, local, kept, cached } = await files.usage().catch(() => ({ pending: 0, local: 0, kept: 0, cached: 0 }));
    const all = pending + local + kept + cached;
    this.usage.hidden = all === 0;
    const spare = cached > 0 ? ` ${bytes(cached)} of them may go if room is needed.` : "";
    setText(this.usage, `Files on this device, sealed: ${bytes(all)}.${spare}`);
  }

  private async add(list: Iterable<File>): Promise<void> {
    const { files } = this;
    if (!files) return this.fail(new Error("The part of the page for files is not loaded yet. Try again once the network is back."));
    for (const file of list) {
      const row = addingRow(file.name, file.size);
      this.adding.append(row.element);
      let done = 0;
      const counted = file.stream().pipeThrough(
        new TransformStream<Uint8Array, Uint8Array>({
          transform: (chunk, out) => {
            done += chunk.length;
            row.at(done);
            out.enqueue(chunk);
          },
        }),
      );
      try {
        const ref = await files.add(counted, { name: file.name, ...(file.type && { type: file.type }) });
        this.attempt(() => this.writes.addAttachment(this.name, ref));
        row.element.remove();
      } catch (error) {
        row.fail(error);
      }
    }
  }

  /** Files come by a drop on the block, or from the clipboard while the package is shown. */
  private takesDrops(): void {
    const { element } = this;
    const over = (event: DragEvent): void => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      element.classList.add("dropping");
    };
    element.addEventListener("dragenter", over);
    element.addEventListener("dragover", over);
    element.addEventListener("dragleave", () => element.classList.remove("dropping"));
    element.addEventListener("drop", (event) => {
      element.classList.remove("dropping");
      if (!event.dataTransfer) return;
      event.preventDefault();
      void this.add(event.dataTransfer.files);
    });
    const paste = (event: ClipboardEvent): void => {
      const files = event.clipboardData?.files;
      if (!files || files.length === 0) return;
      event.preventDefault();
      void this.add(files);
    };
    document.addEventListener("paste", paste);
    this.stops.push(() => document.removeEventListener("paste", paste));
  }

  private toggle(): void {
    this.attempt(() => {
      if (!this.files) return;
      if (this.keeps.checked) {
        this.keep = this.files.keep({ class: "Attachment", match: { package: this.name } });
        // Until then a reload would forget it.
        this.keeps.disabled = true;
        void this.keep.saved.catch((error: unknown) => this.fail(error)).then(() => (this.keeps.disabled = false));
      } else {
        this.keep?.release();
        this.keep = undefined;
      }
      this.draw();
    });
  }

  private input(testid: string, props: { multiple?: boolean; accept?: string; capture?: string }): HTMLInputElement {
    const input = h("input", { type: "file", testid, ...props });
    input.addEventListener("change", () => {
      const files = [...(input.files ?? [])];
      input.value = "";
      void this.add(files);
    });
    return input;
  }

  private attempt(run: () => void): void {
    this.error.hidden = true;
    try {
      run();
    } catch (error) {
      this.fail(error);
    }
  }

  private fail(error: unknown): void {
    const { title, text } = problemOf(error);
    setText(this.error, `${title}. ${text}`);
    this.error.hidden = false;
  }
}
