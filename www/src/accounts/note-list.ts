/** A list of notes with a field for another one: the shared board, and the list of the owner alone. */

import { fill, h, setText, show } from "../dom";
import { moment } from "../format";
import { icon, type IconName } from "../icons";
import { ProblemBox } from "./fields";
import { problemOf } from "./problems";

const CHARS_MAX = 500;

/** A note, of either class. */
interface AnyNote {
  readonly id: string;
  readonly text: string;
  readonly at: number;
}

/** The texts and actions of a list. */
export interface ListOptions<N extends AnyNote> {
  /** The name for the end-to-end tests. */
  id: string;
  icon: IconName;
  title: string;
  /** Who reads these notes. */
  readers: string;
  empty: string;
  placeholder: string;
  /** False if nothing can be written. */
  isOpen: boolean;
  add(text: string): void;
  remove(note: N): void;
  /** The writer, if the list has several. */
  writerOf?(note: N): string;
  mayRemove(note: N): boolean;
  isPending(note: N): boolean;
}

/** The list. `show` draws it. */
export class NoteList<N extends AnyNote> {
  readonly element: HTMLElement;
  private readonly list = h("ul", { class: "notes" });
  private readonly empty: HTMLElement;
  private readonly emptyText = h("p", {});
  private readonly problem = new ProblemBox();
  private readonly field: HTMLTextAreaElement;
  private notes: readonly N[] = [];
  private isReady = false;
  private isAway = false;

  constructor(private readonly options: ListOptions<N>) {
    const { id, title, readers, placeholder, isOpen } = options;
    this.list.dataset.testid = `${id}-notes`;
    this.field = h("textarea", { id: `${id}-text`, rows: 2, maxlength: CHARS_MAX, placeholder, testid: `${id}-text` });
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.submit();
    });
    this.empty = h(
      "div",
      { class: "empty", testid: `${id}-empty`, hidden: true },
      h("div", { class: "emblem" }, icon(options.icon)),
      this.emptyText,
    );
    const form = h(
      "form",
      { class: "note-form" },
      h("label", { class: "sr-only", for: `${id}-text` }, `A note for: ${title}`),
      this.field,
      h("button", { class: "button small primary", type: "submit", testid: `${id}-add` }, icon("plus"), "Add note"),
      this.problem.element,
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.element = h(
      "section",
      { class: "note-column", "aria-labelledby": `${id}-title`, testid: id },
      h("header", {}, h("h2", { id: `${id}-title` }, title), h("p", { class: "hint" }, readers)),
      isOpen ? form : null,
      this.empty,
      this.list,
    );
  }

  /** Shows these notes, the newest first. */
  show(notes: readonly N[], isReady: boolean): void {
    this.notes = notes;
    this.isReady = isReady;
    this.draw();
  }

  /** The server has come into reach, or gone; or a note was accepted. */
  changed(isAway: boolean): void {
    this.isAway = isAway;
    this.draw();
  }

  private draw(): void {
    show(this.empty, this.notes.length === 0);
    const waiting = this.isAway ? "The notes come once the server is reached. You can write one now." : "Fetching the notes...";
    setText(this.emptyText, this.isReady ? this.options.empty : waiting);
    const byTime = [...this.notes].sort((a, b) => b.at - a.at || (a.id < b.id ? 1 : -1));
    const focused = document.activeElement;
    const place = [...this.list.children].findIndex((row) => row.contains(focused));
    fill(this.list, byTime.map((note) => this.row(note)));
    // The row of a pressed button is drawn again, or is gone: the focus goes to the row that is there now.
    if (place < 0) return;
    const row = this.list.children[Math.min(place, byTime.length - 1)];
    (row?.querySelector("button") ?? this.field).focus();
  }

  private row(note: N): HTMLElement {
    const { options } = this;
    const pending = options.isPending(note);
    const writer = options.writerOf?.(note);
    const when = pending ? `${moment(note.at)}, waiting for the server` : moment(note.at);
    const remove = h(
      "button",
      { class: "icon-button", type: "button", "aria-label": `Delete the note: ${note.text.slice(0, 40)}`, title: "Delete", testid: "note-delete" },
      icon("trash"),
    );
    remove.addEventListener("click", () => this.attempt(() => this.options.remove(note)));
    return h(
      "li",
      { class: "note", testid: "note", "data-state": pending ? "waiting" : "accepted" },
      h("p", { class: "note-text" }, note.text),
      h(
        "p",
        { class: "hint note-when" },
        pending ? icon("pending") : null,
        h("span", {}, writer === undefined ? null : [h("strong", {}, writer), ", "], when),
      ),
      options.isOpen && options.mayRemove(note) ? remove : null,
    );
  }

  private submit(): void {
    const text = this.field.value.trim();
    if (text === "") return this.field.focus();
    this.attempt(() => {
      this.options.add(text);
      this.field.value = "";
    });
  }

  private attempt(write: () => void): void {
    this.problem.clear();
    try {
      write();
    } catch (error) {
      this.problem.show(problemOf(error, "inside"));
    }
  }
}
