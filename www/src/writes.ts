/** The writes of this page: edits, moves, deletions and restorations of packages, notes on them, and their outcomes. */

import { newId, type FileRef, type Operation, type OperationArgs, type RefusedOperation } from "escale";
import type { Attachment, Note, Package } from "./schema";
import type { Session } from "./session";

/** The changes of an edit. */
export interface Changes {
  summary?: string;
  section?: string;
}

/**
 * A package at the start of its editing: an edit is based on it. `pending`: a write on it waits for the server.
 */
export interface Basis {
  doc: Package;
  v: number | undefined;
  pending: boolean;
}

/** A write in a visitor's words. */
export interface Described {
  package: string;
  verb: string;
  detail: string;
}

/** A write that the server has answered. */
export interface Answered extends Described {
  id: string;
  at: number;
  /** The version that the server gave; `undefined` if the write failed. */
  v: number | undefined;
}

const ANSWERED_MAX = 20;
const DETAIL_CHARS = 90;

/** The writes of a session. */
export class Writes {
  /** The last answers, the newest first. */
  readonly answered: Answered[] = [];
  /** The last write on each package: the next one expects the version that it gives. */
  private readonly last = new Map<string, Operation>();
  /** Packages that a write deleted or moved out of the list, as they were. */
  private readonly taken = new Map<string, { doc: Package; section: string | undefined }>();
  private readonly listeners: (() => void)[] = [];

  constructor(private readonly session: Session) {}

  /** Calls back at every news of a write of this page. */
  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }

  /** The basis of an edit that begins now. */
  basis(doc: Package): Basis {
    const meta = this.session.meta(doc);
    return { doc, v: meta?.v, pending: meta?.pending ?? false };
  }

  /** Sends the changed properties; returns false if there are none. */
  edit(basis: Basis, wanted: Changes): boolean {
    const { doc } = basis;
    const changes: Changes = {};
    // An empty summary counts as none.
    if (wanted.summary && wanted.summary !== doc.summary) changes.summary = wanted.summary;
    if (wanted.section !== undefined && wanted.section !== doc.section) changes.section = wanted.section;
    if (Object.keys(changes).length === 0) return false;
    if (changes.section !== undefined) this.taken.set(doc.name, { doc: { ...doc, ...changes }, section: changes.section });
    this.follow(doc.name, describe("doc.patch", { key: [doc.name], set: { ...changes } }), () =>
      this.session.patch("Package", [doc.name], changes, this.expecting(basis)),
    );
    return true;
  }

  /** Deletes a package. */
  remove(doc: Package): void {
    this.follow(doc.name, describe("doc.delete", { key: [doc.name] }), () =>
      this.session.delete("Package", [doc.name], this.expecting(this.basis(doc))),
    );
    this.taken.set(doc.name, { doc, section: undefined });
  }

  /** Restores a package, deleted or moved, unless somebody else has written to it since. */
  restore(doc: Package): void {
    const basis = this.basis(doc);
    // A package that this page removed is restored on the version that the removal gave.
    const pending = basis.pending || this.taken.has(doc.name);
    this.follow(doc.name, describe("doc.put", { data: { name: doc.name, summary: doc.summary } }), () =>
      this.session.put("Package", doc, this.expecting({ ...basis, pending })),
    );
    this.taken.delete(doc.name);
  }

  /** Adds a note to a package. It waits for no other write: notes are independent of each other. */
  addNote(name: string, text: string): void {
    const note = { package: name, id: newId(), text, at: Date.now() };
    this.track(describe("doc.put", { class: "Note", data: note }), this.session.put("Note", note));
    this.tell();
  }

  /** Deletes a note. */
  removeNote(note: Note): void {
    const key = [note.package, note.id] as const;
    this.track(describe("doc.delete", { class: "Note", key }), this.session.delete("Note", key));
    this.tell();
  }

  /** Attaches a file that is on this device to a package. The write goes once the server has the bytes. */
  addAttachment(name: string, file: FileRef): void {
    const attachment = { package: name, id: newId(), file, at: Date.now() };
    this.track(describe("doc.put", { class: "Attachment", data: { ...attachment, file: { ...file } } }), this.session.put("Attachment", attachment));
    this.tell();
  }

  /** Removes an attachment. */
  removeAttachment(attachment: Attachment): void {
    const key = [attachment.package, attachment.id] as const;
    this.track(describe("doc.delete", { class: "Attachment", key }), this.session.delete("Attachment", key));
    this.tell();
  }

  /**
   * Sends other arguments in place of a refused write. If the write conflicted, it expects the server's current
   * version.
   */
  amend(entry: RefusedOperation, args: OperationArgs): void {
    const others = { ...args };
    delete others.ifVersion;
    const next = entry.theirs ? { ...others, ifVersion: entry.theirs.v } : others;
    this.again(entry, describe(entry.name, next), entry.amend(next));
  }

  /** Sends a refused write again. */
  retry(entry: RefusedOperation): void {
    this.again(entry, describe(entry.name, entry.args), entry.retry());
  }

  /** Drops a refused write. */
  discard(entry: RefusedOperation): void {
    entry.discard();
    this.end(describe(entry.name, entry.args), entry.id, undefined);
  }

  /** The package that a write of this page deleted or moved out of the list; `section` if it was moved to one. */
  takenAway(name: string): { doc: Package; section: string | undefined } | undefined {
    return this.taken.get(name);
  }

  /** Another tab or person may have changed the package meanwhile: the server then refuses the write. */
  private expecting({ doc, v, pending }: Basis): { ifVersion?: number | Operation } {
    const before = this.last.get(doc.name);
    if (pending || v === undefined) return before ? { ifVersion: before } : {};
    return { ifVersion: v };
  }

  private follow(name: string, described: Described, issue: () => Operation): void {
    const operation = issue();
    this.last.set(name, operation);
    this.track(described, operation);
    this.tell();
  }

  /** A refused write goes again, as another operation. */
  private again(entry: RefusedOperation, described: Described, operation: Operation): void {
    const name = described.package;
    if (this.last.get(name)?.id === entry.id) this.last.set(name, operation);
    this.track(described, operation);
    this.tell();
  }

  private track(described: Described, operation: Operation): void {
    const failed = (): void => {
      const { status, refused } = this.session;
      // A refused write has not ended: the visitor decides about it.
      const isOver = status.phase !== "closed" && !refused.value.some(({ id }) => id === operation.id);
      if (isOver) this.end(described, operation.id, undefined);
    };
    operation.saved.then(() => this.tell(), () => undefined);
    operation.accepted.then(({ v }) => this.end(described, operation.id, v), failed);
  }

  private end(described: Described, id: string, v: number | undefined): void {
    const name = described.package;
    if (v === undefined && this.last.get(name)?.id === id) {
      // The write removed nothing, and there is no version of it.
      this.last.delete(name);
      this.taken.delete(name);
    }
    this.answered.unshift({ ...described, id, at: Date.now(), v });
    this.answered.length = Math.min(this.answered.length, ANSWERED_MAX);
    this.tell();
  }

  private tell(): void {
    for (const listener of this.listeners) listener();
  }
}

/** Describes a write in a visitor's words, from the arguments that are sent. */
export function describe(name: string, args: OperationArgs): Described {
  const key = args.key as readonly string[] | undefined;
  if (args.class === "Note") {
    const note = args.data as Partial<Note> | undefined;
    const named = note?.package ?? key?.[0] ?? "";
    return name === "doc.delete"
      ? { package: named, verb: "Delete a note on", detail: "" }
      : { package: named, verb: "Add a note to", detail: `"${shorten(note?.text ?? "")}"` };
  }
  if (args.class === "Attachment") {
    const attachment = args.data as Partial<Attachment> | undefined;
    const named = attachment?.package ?? key?.[0] ?? "";
    return name === "doc.delete"
      ? { package: named, verb: "Remove a file from", detail: "" }
      : { package: named, verb: "Attach to", detail: shorten(attachment?.file?.name ?? "") };
  }
  const data = args.data as { name?: string } | undefined;
  const named = key?.[0] ?? data?.name ?? name;
  if (name === "doc.delete") return { package: named, verb: "Delete", detail: "" };
  if (name === "doc.put") return { package: named, verb: "Put back", detail: "the whole package" };
  const { summary, section } = (args.set ?? {}) as Changes;
  const parts = [section === undefined ? "" : `to ${section}`, summary === undefined ? "" : `"${shorten(summary)}"`];
  const verb = summary === undefined && section !== undefined ? "Move" : "Edit";
  return { package: named, verb, detail: parts.filter((part) => part !== "").join(", ") };
}

function shorten(text: string): string {
  return text.length > DETAIL_CHARS ? `${text.slice(0, DETAIL_CHARS)}...` : text;
}
