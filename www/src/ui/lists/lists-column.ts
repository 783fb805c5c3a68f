/** The column of the lists: the choice of the list, the followed topics, and below them all packages or the largest. */

import { h, show } from "../../dom";
import { Largest } from "../../largest";
import type { Library, Rows } from "../../library";
import type { Package } from "../../schema";
import type { Session, StatusValue } from "../../session";
import { topicId } from "../../topics";
import { LargestPanel } from "./largest-panel";
import { PackagesPanel } from "./packages-panel";
import { TopicStrip } from "./topic-strip";

/** The lists to choose from. */
export type ListName = "packages" | "largest";

/** The label of each list. */
export const LIST_LABEL: Readonly<Record<ListName, string>> = { packages: "Packages", largest: "Largest" };

/** The column's needs from the screen. */
export interface ListsColumnOptions {
  /** A package was chosen. `open` is true for a click or Enter, and false for moving over it. */
  chosen(doc: Package, open: boolean): void;
  openFollow(): void;
  isPending(doc: Package): boolean;
  /** The visitor chose another list. */
  listChosen(): void;
}

/** The column. */
export class ListsColumn {
  readonly element: HTMLElement;
  private readonly strip: TopicStrip;
  /** The progress a second time, near the list. Assistive technology gets it from the status bar. */
  private readonly line = h("div", { hidden: true });
  private readonly packages: PackagesPanel;
  private readonly largest: LargestPanel;
  private readonly order: Largest;
  private readonly tabs = new Map<ListName, HTMLButtonElement>();
  private name: ListName = "packages";

  constructor(
    session: Session,
    library: Library,
    private readonly options: ListsColumnOptions,
  ) {
    this.order = new Largest(session);
    this.packages = new PackagesPanel(library, options);
    this.largest = new LargestPanel(this.order, library, options);
    this.strip = new TopicStrip(library, () => this.packages.toTop());
    library.onLeaving((topic) => {
      const asked = this.order.topic;
      if (asked && topicId(asked) === topicId(topic)) this.order.ask({ topic: undefined });
    });
    this.element = h(
      "div",
      { class: "lists" },
      h("nav", { class: "tabs lists-tabs", "aria-label": "Lists" }, this.tab("packages"), this.tab("largest")),
      h("div", { class: "load-line", "aria-hidden": "true" }, this.line),
      this.strip.element,
      this.packages.element,
      this.largest.element,
    );
    this.mark();
  }

  /** The list that is shown. */
  get shown(): ListName {
    return this.name;
  }

  /** Shows one of the lists. */
  show(name: ListName): void {
    if (name === this.name) return;
    this.name = name;
    this.mark();
    show(this.packages.element, name === "packages");
    this.largest.show(name === "largest");
    this.options.listChosen();
  }

  /** Shows a new list. */
  setRows(rows: Rows): void {
    this.packages.setRows(rows);
  }

  /** Shows the followed topics. */
  setTopics(): void {
    this.strip.update();
    this.packages.setTopics();
    this.largest.setTopics();
  }

  /** Takes the session's status: it has the progress, and decides about the text of an empty list. */
  setStatus(status: StatusValue): void {
    const { progress } = status;
    show(this.line, progress !== null);
    this.line.style.setProperty("transform", `scaleX(${progress?.total ? progress.received / progress.total : 0})`);
    this.packages.setStatus(status);
    this.largest.setStatus(status);
  }

  /** Marks the package that the detail panel shows. */
  select(name: string | undefined): void {
    this.packages.select(name);
    this.largest.select(name);
  }

  /** Marks a package, and scrolls to it in the list of all. */
  reveal(name: string): void {
    if (this.name === "packages") this.packages.reveal(name);
    this.select(name);
  }

  /** Puts the focus on the list. */
  focus(): void {
    if (this.name === "packages") this.packages.focus();
    else this.largest.focus();
  }

  /** Ends the live queries. */
  stop(): void {
    this.order.close();
  }

  private tab(name: ListName): HTMLButtonElement {
    const button = h(
      "button",
      { class: "tab", type: "button", testid: `list-${name}`, on: { click: () => this.show(name) } },
      LIST_LABEL[name],
    );
    this.tabs.set(name, button);
    return button;
  }

  private mark(): void {
    for (const [name, button] of this.tabs) {
      if (name === this.name) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
  }
}
