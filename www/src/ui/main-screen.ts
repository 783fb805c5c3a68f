/** The main screen: topics on the left, the list of packages, one package on the right, the status below. */

import { h } from "../dom";
import { icon, type IconName } from "../icons";
import type { Library } from "../library";
import type { Package } from "../schema";
import type { Session, StatusValue } from "../session";
import { problemOf } from "../problems";
import { Writes } from "../writes";
import { DetailPanel } from "./detail-panel";
import { confirmDialog, passphraseDialog } from "./dialogs";
import { FollowPanel } from "./follow-panel";
import { Inspector } from "./inspector";
import { LIST_LABEL, ListsColumn, type ListName } from "./lists/lists-column";
import { SessionBar } from "./session-bar";
import { StatusBar } from "./status-bar";
import { clearToast, toast } from "./toast";
import { WritesDrawer } from "./writes-drawer";

/** Why the session is over. */
export type Ending = NonNullable<StatusValue["reason"]>;

/** The screen's needs from the page. */
export interface MainScreenOptions {
  session: Session;
  library: Library;
  /** The session is over. */
  ended(how: Ending): void;
  /** Deletes the copy of this page that opens without a network. */
  forgetPage(): Promise<void>;
}

/** A panel that a phone shows over the list. */
type Sheet = "follow" | "session";

/** The width below which panels cover the list; the style sheet has the same number. */
const PHONE = matchMedia("(max-width: 760px)");

/** The screen. */
export class MainScreen {
  readonly element: HTMLElement;
  private readonly bar: SessionBar;
  private readonly follow: FollowPanel;
  private readonly lists: ListsColumn;
  private readonly detail: DetailPanel;
  private readonly status: StatusBar;
  private readonly inspector: Inspector;
  private readonly writes: Writes;
  private readonly drawer: WritesDrawer;
  private readonly tabs = new Map<Sheet | ListName, HTMLButtonElement>();
  private first: Package | undefined;
  private open: Sheet | undefined;
  private over = false;

  constructor(private readonly options: MainScreenOptions) {
    const { session, library } = options;
    this.writes = new Writes(session);
    this.drawer = new WritesDrawer(session, this.writes);
    const openWrites = (): void => {
      if (this.open) this.sheet(undefined);
      this.drawer.open();
    };
    this.bar = new SessionBar({
      openWrites,
      setMode: (mode) => this.attempt(() => session.setMode(mode)),
      openInspector: () => {
        this.sheet(undefined);
        this.inspector.open();
      },
      changePassphrase: () => void this.changePassphrase(),
      wipe: () => void this.wipe(),
      lock: () => void this.end(() => session.lock()),
    });
    this.follow = new FollowPanel(library, () => this.sheet(undefined));
    this.lists = new ListsColumn(session, library, {
      isPending: (doc) => session.meta(doc)?.pending ?? false,
      chosen: (doc, open) => this.choose(doc, open),
      openFollow: () => this.sheet("follow"),
      listChosen: () => this.markTab(),
    });
    this.detail = new DetailPanel(session, library, this.writes, {
      close: () => this.closeDetail(),
      show: (name) => this.showNamed(name),
    });
    this.status = new StatusBar(session, openWrites);
    this.inspector = new Inspector({ session, library, sample: () => this.detail.current ?? this.first });
    this.element = h(
      "div",
      { class: "app" },
      this.bar.element,
      h("main", { class: "columns" }, this.follow.element, this.lists.element, this.detail.element),
      this.status.element,
      this.bottomBar(),
    );
    this.connect();
  }

  private connect(): void {
    const { session, library } = this.options;
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.defaultPrevented) this.back();
    });
    library.onTopics(() => {
      this.follow.update();
      this.status.setFollowing(library.topics().length > 0);
      this.lists.setTopics();
      this.detail.refresh();
    });
    library.onRows((rows) => {
      this.first = rows.rows[0];
      this.lists.setRows(rows);
      this.detail.refresh();
    });
    session.status.subscribe((status) => {
      if (status.phase === "closed") return void this.end(() => Promise.resolve());
      this.bar.update(status);
      this.lists.setStatus(status);
      this.status.update(status);
      this.drawer.update();
    });
    session.refused.subscribe((refused) => {
      this.status.updateWrites(session.status.pending, refused.length);
      this.drawer.update();
      this.detail.written();
    });
    this.writes.onChange(() => {
      this.drawer.update();
      this.detail.written();
    });
  }

  private bottomBar(): HTMLElement {
    const tab = (id: Sheet | ListName, name: IconName, label: string, run: () => void): HTMLElement => {
      const button = h("button", { class: "bottom-tab", type: "button", testid: `tab-${id}`, on: { click: run } }, icon(name), h("span", {}, label));
      this.tabs.set(id, button);
      return button;
    };
    const bar = h(
      "nav",
      { class: "bottom-bar", "aria-label": "Sections of the page" },
      tab("packages", "list", LIST_LABEL.packages, () => this.list("packages")),
      tab("largest", "largest", LIST_LABEL.largest, () => this.list("largest")),
      tab("follow", "follow", "Follow", () => this.sheet("follow")),
      tab("session", "session", "Session", () => this.sheet("session")),
    );
    this.tabs.get("packages")?.setAttribute("aria-current", "true");
    return bar;
  }

  /** One step back: from the package to the list, from a sheet to the packages. */
  private back(): void {
    if (this.detail.current) this.closeDetail();
    else if (this.open) this.sheet(undefined);
  }

  /** On a phone: shows one panel over the list, or the list alone. */
  private sheet(sheet: Sheet | undefined): void {
    this.closeDetail(false);
    // A message would cover the sheet's buttons.
    clearToast();
    const before = this.open;
    this.open = sheet;
    this.follow.element.classList.toggle("open", sheet === "follow");
    this.bar.actions.classList.toggle("open", sheet === "session");
    this.markTab();
    this.cover();
    if (sheet === "follow") this.follow.focus();
    else if (sheet === "session") this.bar.focus();
    else if (before) this.tabs.get(before)?.focus();
  }

  /** On a phone: shows one of the lists alone. */
  private list(name: ListName): void {
    this.sheet(undefined);
    this.lists.show(name);
  }

  /** On a phone: marks the tab of the sheet or list that is shown. */
  private markTab(): void {
    const current = this.open ?? this.lists.shown;
    for (const [id, button] of this.tabs) {
      if (id === current) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
  }

  /** Elements that a phone covers must not be reachable by keyboard either. */
  private cover(): void {
    const covered = this.open === "follow" || this.detail.current !== undefined;
    this.lists.element.inert = covered && PHONE.matches;
  }

  private choose(doc: Package, open: boolean): void {
    if (!open && !this.detail.current) return;
    this.lists.select(doc.name);
    this.detail.show(doc);
    this.element.classList.add("with-detail");
    this.cover();
    if (open) this.detail.element.focus({ preventScroll: true });
  }

  private showNamed(name: string): void {
    const doc = this.options.library.find(name);
    if (!doc) return;
    this.lists.reveal(name);
    this.choose(doc, true);
  }

  private closeDetail(focus = true): void {
    if (!this.detail.current) return;
    this.detail.show(undefined);
    this.element.classList.remove("with-detail");
    this.cover();
    this.lists.select(undefined);
    if (focus) this.lists.focus();
  }

  private async changePassphrase(): Promise<void> {
    this.sheet(undefined);
    const { session } = this.options;
    const done = await passphraseDialog((old, next) => session.changePassphrase(old, next));
    if (done) toast("The passphrase was changed. The old one no longer works.", { icon: "key" });
  }

  private async wipe(): Promise<void> {
    this.sheet(undefined);
    const { session } = this.options;
    const answer = await confirmDialog({
      title: "Wipe this device?",
      text: `This deletes everything that Escale keeps on this device: documents, subscriptions and the wrapped key. Data on the server stays.${lossOf(session)}`,
      confirm: "Wipe",
      testid: "wipe",
      option: "Also delete the offline copy of this page",
    });
    if (!answer) return;
    await this.end(() => session.wipe({ drafts: "delete" }));
    if (answer.option) await this.options.forgetPage();
  }

  private async end(finish: () => Promise<void>): Promise<void> {
    if (this.over) return;
    this.over = true;
    this.options.library.stop();
    this.lists.stop();
    this.status.stop();
    await this.attempt(finish);
    this.inspector.remove();
    this.drawer.remove();
    this.options.ended(this.options.session.status.reason ?? "closed");
  }

  /** Runs a task, and shows its error if it fails. */
  private async attempt(task: () => Promise<void>): Promise<void> {
    try {
      await task();
    } catch (error) {
      const problem = problemOf(error);
      toast(`${problem.title}. ${problem.text}`, { icon: "alert" });
    }
  }
}

/** The loss by a wipe, as a sentence; empty if the server has everything. */
function lossOf({ status, refused }: Session): string {
  const count = status.pending + refused.value.length;
  if (count === 0) return "";
  return count === 1
    ? " One change was not accepted by the server: it exists here alone, and would be lost."
    : ` ${count} changes were not accepted by the server: they exist here alone, and would be lost.`;
}
