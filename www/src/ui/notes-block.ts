/** The notes on a package: documents that belong to it. They show offline, arrive live, and end with their package. */

import { leaveItems } from "../defs";
import { fill, h, setText } from "../dom";
import { moment } from "../format";
import { icon } from "../icons";
import { problemOf } from "../problems";
import type { Note } from "../schema";
import type { Session } from "../session";
import type { Writes } from "../writes";

const CHARS_MAX = 500;

/** A list of notes with a field for another one. `end` stops it. */
export class NotesBlock {
  readonly element: HTMLElement;
  private readonly list = h("ul", { class: "notes", testid: "notes" });
  private readonly state = h("p", { class: "hint", testid: "notes-state" }, "Looking for notes...");
  private readonly error = h("p", { class: "field-error", role: "alert", hidden: true });
  private readonly field = h("textarea", {
    rows: 2,
    maxlength: CHARS_MAX,
    required: true,
    placeholder: "What should others know?",
    "aria-label": "A note on this package",
    testid: "note-text",
  });
  private readonly stop: () => void;
  private notes: readonly Note[] = [];

  constructor(
    private readonly session: Session,
    private readonly writes: Writes,
    private readonly name: string,
  ) {
    const form = h(
      "form",
      { class: "note-form", on: { submit: (event) => this.submit(event) } },
      this.field,
      h("button", { class: "button small", type: "submit", testid: "note-add" }, icon("plus"), "Add note"),
      this.error,
    );
    this.element = h("section", { class: "detail-block", testid: "notes-block" }, h("h3", {}, "Notes"), this.state, this.list, form);
    const tree = session.document("Package", [name], { items: ["Note"] });
    this.stop = tree.subscribe(({ items }, { ready }) => {
      this.notes = items.Note;
      this.draw(ready);
    });
  }

  /** Draws the marks of waiting notes again: a write was answered. */
  written(): void {
    if (this.notes.length > 0) this.drawList();
  }

  /** The package is shown no more. Its notes stay on the device if there are any: they open with no network. */
  async end(): Promise<void> {
    this.stop();
    if (this.notes.length > 0) return;
    await leaveItems(this.session, "Note", this.name);
  }

  private draw(ready: boolean): void {
    const { status } = this.session;
    const isAway = status.phase !== "live" && status.phase !== "loading";
    const state = this.notes.length > 0 ? "" : ready ? "None yet. A note shows to everyone who opens this package." : isAway ? "They come once the server is reached. You can write one now." : "Looking for notes...";
    setText(this.state, state);
    this.state.hidden = state === "";
    this.drawList();
  }

  private drawList(): void {
    const byTime = [...this.notes].sort((a, b) => b.at - a.at || (a.id < b.id ? 1 : -1));
    fill(this.list, byTime.map((note) => this.row(note)));
  }

  private row(note: Note): HTMLElement {
    const pending = this.session.meta(note)?.pending ?? false;
    const remove = h(
      "button",
      { class: "icon-button", type: "button", "aria-label": "Delete this note", testid: "note-delete" },
      icon("trash"),
    );
    remove.addEventListener("click", () => this.attempt(() => this.writes.removeNote(note)));
    return h(
      "li",
      { class: "note", testid: "note", "data-state": pending ? "waiting" : "accepted" },
      h("p", { class: "note-text" }, note.text),
      h(
        "p",
        { class: "hint note-when" },
        pending ? icon("pending") : null,
        pending ? `${moment(note.at)}, waiting for the server` : moment(note.at),
      ),
      remove,
    );
  }

  private submit(event: Event): void {
    event.preventDefault();
    const text = this.field.value.trim();
    // The browser accepts blanks in a required field.
    if (text === "") return;
    this.attempt(() => {
      this.writes.addNote(this.name, text);
      this.field.value = "";
    });
  }

  private attempt(write: () => void): void {
    this.error.hidden = true;
    try {
      write();
    } catch (thrown) {
      const problem = problemOf(thrown);
      setText(this.error, `${problem.title}. ${problem.text}`);
      this.error.hidden = false;
    }
  }
}
