/** The screen of an open account: the board, the owner's list, and the account; a phone shows one of them at a time. */

import { newId } from "escale";
import { accounts } from "escale/accounts";
import { h } from "../dom";
import { icon, logo, type IconName } from "../icons";
import { AccountPanel, type Contact } from "./account-panel";
import { Banners } from "./banners";
import { NoteList } from "./note-list";
import type { BoardNote, PrivateNote } from "./schema";
import type { Session, StatusValue } from "./session";
import { StatusLine } from "./status-line";

/** The way in which the session ended. */
export type Ending = "locked" | "elsewhere" | "revoked" | "closed" | "erased";

/** The needs of the screen from the page. */
export interface HomeScreenOptions {
  session: Session;
  login: string;
  ended(how: Ending): void;
  /** Deletes the account's data from this device. */
  erase(): Promise<void>;
}

type Part = "board" | "own" | "account";

const PARTS: readonly { part: Part; icon: IconName; label: string }[] = [
  { part: "board", icon: "list", label: "Board" },
  { part: "own", icon: "lock", label: "Only yours" },
  { part: "account", icon: "key", label: "Account" },
];

/** The screen. */
export class HomeScreen {
  readonly element: HTMLElement;
  private readonly board: NoteList<BoardNote>;
  private readonly own: NoteList<PrivateNote>;
  private readonly panel: AccountPanel;
  private readonly banners: Banners;
  private readonly status = new StatusLine();
  private readonly tabs = new Map<Part, HTMLButtonElement>();
  private readonly stops: (() => void)[] = [];
  /** How this tab knows the server. */
  private knows: Contact = "away";
  /** Whether this tab locks the session. */
  private isLocking = false;
  /** Whether the account is being closed here: the session then locks by itself, before the rest is done. */
  private isClosing = false;
  private isOver = false;

  constructor(private readonly options: HomeScreenOptions) {
    const { session, login } = options;
    const isOpen = session.status.mode !== "avion";
    this.board = this.makeBoard(isOpen);
    this.own = this.makeOwn(isOpen);
    this.panel = new AccountPanel({ session, login, isOpen, close: (passphrase, erase) => this.close(passphrase, erase), lockedOut: () => this.banners.ask() });
    this.banners = new Banners(session);
    this.element = h(
      "div",
      { class: "app accounts-app", "data-part": "board" },
      this.topBar(login),
      h("main", { class: "accounts-main" }, this.banners.element, h("div", { class: "parts" }, this.board.element, this.own.element, this.panel.element)),
      this.status.element,
      this.bottomBar(),
    );
    this.show("board");
  }

  /** Begins to follow the session. */
  start(): void {
    const { session } = this.options;
    const me = session.identity?.account ?? "";
    this.stops.push(
      session.live("Note", {}, (notes, { ready }) => this.board.show(notes, ready)),
      session.live("PrivateNote", { owner: me }, (notes, { ready }) => this.own.show(notes, ready)),
      session.refused.subscribe((refused) => this.banners.updateRefused(refused)),
      session.status.subscribe((status) => this.update(status)),
      () => this.panel.stop(),
    );
    this.panel.start();
  }

  private update(status: StatusValue): void {
    const { phase, leads } = status;
    if (phase === "closed") return this.isClosing ? undefined : this.end(this.ending());
    this.banners.update(status);
    this.status.update(status, this.banners.isLockedOut);
    const isAway = phase !== "live" && phase !== "loading";
    this.board.changed(isAway);
    this.own.changed(isAway);
    const knows = phase === "live" ? (leads ? "leads" : "follows") : phase === "loading" ? this.knows : "away";
    if (knows !== this.knows) this.panel.meet(knows);
    this.knows = knows;
  }

  private makeBoard(isOpen: boolean): NoteList<BoardNote> {
    const { session, login } = this.options;
    const me = session.identity?.account ?? "";
    return new NoteList<BoardNote>({
      id: "board",
      icon: "list",
      title: "Board",
      readers: "Every member of the org reads these notes. Their author alone deletes them.",
      empty: "Nobody has written yet. The first note reaches every member.",
      placeholder: "What should everybody know?",
      isOpen,
      add: (text) => session.put("Note", { id: newId(), text, by: login, author: me, at: Date.now() }),
      remove: (note) => session.delete("Note", [note.id]),
      writerOf: ({ author, by }) => (author === me ? "You" : by),
      mayRemove: ({ author }) => author === me,
      isPending: (note) => isPending(session, note),
    });
  }

  private makeOwn(isOpen: boolean): NoteList<PrivateNote> {
    const { session } = this.options;
    const me = session.identity?.account ?? "";
    return new NoteList<PrivateNote>({
      id: "own",
      icon: "lock",
      title: "Only yours",
      readers: "The server gives these notes to your devices, and to no other member.",
      empty: "Nothing yet. A note here reaches your own devices only.",
      placeholder: "A note to yourself",
      isOpen,
      add: (text) => session.put("PrivateNote", { owner: me, id: newId(), text, at: Date.now() }),
      remove: ({ owner, id }) => session.delete("PrivateNote", [owner, id]),
      mayRemove: () => true,
      isPending: (note) => isPending(session, note),
    });
  }

  private topBar(login: string): HTMLElement {
    const lock = h("button", { class: "action", type: "button", title: "Lock", testid: "lock" }, icon("lock"), h("span", {}, "Lock"));
    lock.addEventListener("click", () => void this.lock());
    return h(
      "header",
      { class: "top-bar" },
      h("h1", { class: "brand" }, logo(), h("span", {}, "Escale"), h("span", { class: "brand-page" }, "Accounts")),
      h("p", { class: "who", testid: "who" }, login),
      lock,
    );
  }

  private bottomBar(): HTMLElement {
    return h(
      "nav",
      { class: "bottom-bar parts-bar", "aria-label": "Parts" },
      PARTS.map(({ part, icon: name, label }) => {
        const tab = h("button", { class: "bottom-tab", type: "button", testid: `part-${part}` }, icon(name), label);
        tab.addEventListener("click", () => this.show(part));
        this.tabs.set(part, tab);
        return tab;
      }),
    );
  }

  private show(shown: Part): void {
    this.element.dataset.part = shown;
    for (const [part, tab] of this.tabs) {
      if (part === shown) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    }
  }

  private async lock(): Promise<void> {
    this.isLocking = true;
    await this.options.session.lock();
    this.end("locked");
  }

  /** The way in which the session has ended. */
  private ending(): Ending {
    const { reason } = this.options.session.status;
    if (reason === "revoked") return "revoked";
    if (reason === "barred") return "closed";
    return this.isLocking ? "locked" : "elsewhere";
  }

  private async close(passphrase: string, erase: boolean): Promise<void> {
    const { session } = this.options;
    this.isClosing = true;
    try {
      await accounts.close(session, passphrase);
      await session.lock();
      if (erase) await this.options.erase();
      this.end(erase ? "erased" : "closed");
    } finally {
      this.isClosing = false;
      if (session.status.phase === "closed") this.end(this.ending());
    }
  }

  private end(how: Ending): void {
    if (this.isOver) return;
    this.isOver = true;
    for (const stop of this.stops) stop();
    this.status.stop();
    for (const dialog of document.querySelectorAll("dialog")) dialog.close("");
    this.options.ended(how);
  }
}

/** Whether a write on a note waits. A session that ends tells its last statuses when it answers nothing any more. */
function isPending(session: Session, note: object): boolean {
  try {
    return session.meta(note)?.pending ?? false;
  } catch {
    return false;
  }
}
