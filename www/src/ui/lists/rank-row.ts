/** A row of the largest packages: the rank, the package, and a bar that compares its size with the largest of all. */

import { h, setText, show } from "../../dom";
import { bytes, count } from "../../format";
import { icon } from "../../icons";
import type { Package } from "../../schema";

/** The values that a row shows next to the package. */
export interface Ranked {
  /** The place in the order; the largest has 1. */
  rank: number;
  /** In bytes. */
  size: number;
  /** The part of the largest size of all, from 0 to 1. */
  share: number;
  /** A write on the package waits for the server. */
  pending: boolean;
}

/** The row. It may show another package at each change. */
export class RankRow {
  readonly element: HTMLLIElement;
  private readonly button: HTMLButtonElement;
  private readonly rank = h("span", { class: "rank" });
  private readonly name = h("span", { class: "row-name" });
  private readonly waits = h("span", { class: "row-pending", title: "Waits for the server", hidden: true }, icon("pending"));
  private readonly version = h("span");
  private readonly size = h("span", { class: "row-size" });
  private readonly summary = h("span", { class: "row-summary" });
  private readonly section = h("span", { class: "row-section" });
  private readonly bar = h("span", { class: "rank-bar-fill" });
  private doc: Package | undefined;

  constructor(chosen: (doc: Package) => void) {
    this.button = h(
      "button",
      { class: "rank-row", type: "button", testid: "largest-row" },
      this.rank,
      this.name,
      h("span", { class: "row-version" }, this.waits, this.version),
      this.size,
      this.summary,
      this.section,
      h("span", { class: "rank-bar" }, this.bar),
    );
    this.button.addEventListener("click", () => {
      if (this.doc) chosen(this.doc);
    });
    this.button.addEventListener("animationend", () => this.button.classList.remove("flash"));
    this.element = h("li", {}, this.button);
  }

  /** Shows a package. */
  bind(doc: Package, { rank, size, share, pending }: Ranked): void {
    if (this.doc?.name !== doc.name) this.button.classList.remove("flash");
    this.doc = doc;
    this.button.dataset.name = doc.name;
    setText(this.rank, count(rank));
    setText(this.name, doc.name);
    show(this.waits, pending);
    setText(this.version, doc.version);
    setText(this.size, bytes(size));
    setText(this.summary, doc.summary);
    setText(this.section, doc.section);
    this.bar.style.setProperty("transform", `scaleX(${share})`);
  }

  /** Marks the row if it shows this package. */
  select(name: string | undefined): void {
    if (name !== undefined && this.doc?.name === name) this.button.setAttribute("aria-current", "true");
    else this.button.removeAttribute("aria-current");
  }

  /** Shows for a moment that the package changed. */
  flash(): void {
    this.button.classList.remove("flash");
    void this.button.offsetWidth; // so that the same animation starts again
    this.button.classList.add("flash");
  }
}
