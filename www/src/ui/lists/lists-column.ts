/** The column of the lists: the followed topics, the progress of their load, and below them the list. */

import { h, show } from "../../dom";
import type { Library, Rows } from "../../library";
import type { Package } from "../../schema";
import type { StatusValue } from "../../session";
import { PackagesPanel } from "./packages-panel";
import { TopicStrip } from "./topic-strip";

/** The column's needs from the screen. */
export interface ListsColumnOptions {
  /** A package was chosen. `open` is true for a click or Enter, and false for moving over it. */
  chosen(doc: Package, open: boolean): void;
  openFollow(): void;
  isPending(doc: Package): boolean;
}

/** The column. */
export class ListsColumn {
  readonly element: HTMLElement;
  private readonly strip: TopicStrip;
  /** The progress a second time, near the list. Assistive technology gets it from the status bar. */
  private readonly line = h("div", { hidden: true });
  private readonly packages: PackagesPanel;

  constructor(library: Library, options: ListsColumnOptions) {
    this.packages = new PackagesPanel(library, options);
    this.strip = new TopicStrip(library, () => this.packages.toTop());
    this.element = h(
      "div",
      { class: "lists" },
      h("div", { class: "load-line", "aria-hidden": "true" }, this.line),
      this.strip.element,
      this.packages.element,
    );
  }

  /** Shows a new list. */
  setRows(rows: Rows): void {
    this.packages.setRows(rows);
  }

  /** Shows the followed topics. */
  setTopics(): void {
    this.strip.update();
    this.packages.setTopics();
  }

  /** Takes the session's status: it has the progress, and decides about the text of an empty list. */
  setStatus(status: StatusValue): void {
    const { progress } = status;
    show(this.line, progress !== null);
    this.line.style.setProperty("transform", `scaleX(${progress?.total ? progress.received / progress.total : 0})`);
    this.packages.setStatus(status);
  }

  /** Marks the package that the detail panel shows. */
  select(name: string | undefined): void {
    this.packages.select(name);
  }

  /** Scrolls to a package. */
  reveal(name: string): void {
    this.packages.reveal(name);
  }

  /** Puts the focus on the list. */
  focus(): void {
    this.packages.focus();
  }
}
