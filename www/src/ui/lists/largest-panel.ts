/** The largest packages: a filter by size and name, one page of the order with bars, and the way to the other pages. */

import { fill, h, setText, show } from "../../dom";
import { count, plural } from "../../format";
import { icon, type IconName } from "../../icons";
import { bytesOf, hasNext, type Largest, type Listed, type Measure, type Page } from "../../largest";
import type { Library } from "../../library";
import { problemOf } from "../../problems";
import type { Package } from "../../schema";
import type { StatusValue } from "../../session";
import { EmptyList } from "./empty-list";
import { RankRow } from "./rank-row";

const MEASURES: [Measure, string][] = [
  ["installedSize", "Installed size"],
  ["size", "Download size"],
];

const MIB = 1024 * 1024;
const MINIMUMS: [number, string][] = [
  [0, "Any size"],
  [MIB, "1 MiB or more"],
  [10 * MIB, "10 MiB or more"],
  [50 * MIB, "50 MiB or more"],
  [200 * MIB, "200 MiB or more"],
];

/** The panel. */
export class LargestPanel {
  readonly element: HTMLElement;
  private readonly prefix: HTMLInputElement;
  private readonly minimum: HTMLSelectElement;
  private readonly toolbar: HTMLElement;
  private readonly tally = h("p", { class: "tally", testid: "largest-count", role: "status" });
  private readonly ranking = h("ol", { class: "ranking", tabindex: -1, "aria-label": "Largest packages", testid: "largest-list" });
  private readonly rows: RankRow[] = [];
  private readonly range = h("p", { class: "pager-range", testid: "largest-range", role: "status" });
  private readonly back: HTMLButtonElement;
  private readonly onward: HTMLButtonElement;
  private readonly pager: HTMLElement;
  private readonly failure = h("div", { class: "empty", testid: "largest-error", hidden: true });
  private readonly empty: EmptyList;
  private listed: Listed = { page: undefined, waits: true, error: undefined };
  private status: StatusValue | undefined;
  private selected: string | undefined;
  /** A page was turned: its first package comes into view, once it is there. */
  private turned = false;

  constructor(
    private readonly largest: Largest,
    private readonly library: Library,
    private readonly options: {
      chosen: (doc: Package, open: boolean) => void;
      openFollow: () => void;
      isPending: (doc: Package) => boolean;
    },
  ) {
    this.prefix = h("input", {
      type: "search",
      class: "search-input",
      placeholder: "Name begins with",
      "aria-label": "Name begins with",
      autocomplete: "off",
      autocapitalize: "none",
      spellcheck: "false",
      testid: "largest-prefix",
      // Debian's names are in lower case, and the index compares exactly.
      on: { input: () => largest.ask({ prefix: this.prefix.value.trim().toLowerCase() }) },
    });
    const measure = choice("Order by", "largest-measure", MEASURES, (value) => largest.ask({ measure: value as Measure }));
    this.minimum = choice("Smallest size", "largest-minimum", MINIMUMS, (value) => largest.ask({ minimum: Number(value) }));
    this.toolbar = h(
      "div",
      { class: "toolbar" },
      h("div", { class: "search-box" }, icon("search"), this.prefix),
      h("div", { class: "choices" }, measure, this.minimum),
      this.tally,
    );
    this.back = this.turn("Previous", "previous", () => largest.previous());
    this.onward = this.turn("Next", "next", () => largest.next());
    this.pager = h("nav", { class: "pager", "aria-label": "Pages of the list" }, this.back, this.range, this.onward);
    this.empty = new EmptyList(library, {
      testid: "largest-empty",
      noMatch: "No package here is that large and has a name that begins so.",
      clearFilter: () => this.clearFilter(),
      openFollow: options.openFollow,
    });
    this.element = h(
      "section",
      { class: "packages largest", "aria-label": "Largest packages", hidden: true },
      this.toolbar,
      this.ranking,
      this.pager,
      this.failure,
      this.empty.element,
    );
    largest.onList((listed) => this.set(listed));
  }

  /** Shows or hides the panel. While it is hidden, it asks nothing of the session. */
  show(visible: boolean): void {
    show(this.element, visible);
    if (visible) return this.largest.open();
    this.largest.close();
    this.listed = { page: undefined, waits: true, error: undefined };
    this.draw();
  }

  /** Other topics are followed, or the lists are narrowed to another one. */
  setTopics(): void {
    this.largest.ask({ topic: this.library.narrowedTo });
    this.draw();
  }

  /** Takes the session's status, which decides about the text of an empty list. */
  setStatus(status: StatusValue): void {
    this.status = status;
    this.draw();
  }

  /** Marks the package that the detail panel shows. */
  select(name: string | undefined): void {
    this.selected = name;
    for (const row of this.rows) row.select(name);
  }

  /** Puts the focus on the list. */
  focus(): void {
    this.ranking.focus({ preventScroll: true });
  }

  private set(listed: Listed): void {
    const isNew = listed.page !== this.listed.page;
    this.listed = listed;
    this.draw();
    if (isNew) this.flash(listed.page);
    if (listed.waits || !this.turned) return;
    this.turned = false;
    this.ranking.scrollTop = 0;
  }

  private clearFilter(): void {
    this.prefix.value = "";
    this.minimum.value = "0";
    this.largest.ask({ prefix: "", minimum: 0 });
    this.prefix.focus();
  }

  private draw(): void {
    const { page, waits, error } = this.listed;
    show(this.toolbar, this.library.topics().length > 0);
    const failed = error !== undefined;
    show(this.failure, failed);
    if (failed) this.drawFailure(error);
    const filtered = page !== undefined && (page.question.prefix !== "" || page.question.minimum > 0);
    const isEmpty = failed ? this.empty.hide() : this.empty.update({ listed: page?.total, filtered, phase: this.status?.phase });
    const hasRows = page !== undefined && !isEmpty && !failed;
    show(this.ranking, hasRows);
    show(this.pager, hasRows);
    this.element.setAttribute("aria-busy", String(waits));
    if (!page) return setText(this.tally, "");
    setText(this.tally, filtered ? plural(page.total, "package matches", "packages match") : plural(page.total, "package"));
    this.drawPage(page);
  }

  private drawPage(page: Page): void {
    const { docs, before, total, greatest, question } = page;
    this.ranking.dataset.count = String(docs.length);
    const last = count(before + docs.length);
    // As wide as the longest rank of the page, so that all names are in one line.
    this.ranking.style.setProperty("--rank-digits", String(Math.max(2, last.length)));
    while (this.rows.length < docs.length) {
      const row = new RankRow((doc) => this.options.chosen(doc, true));
      this.rows.push(row);
      this.ranking.append(row.element);
    }
    for (const [place, row] of this.rows.entries()) {
      const doc: Package | undefined = docs[place];
      show(row.element, doc !== undefined);
      if (!doc) continue;
      const size = bytesOf(doc, question.measure);
      row.bind(doc, { rank: before + place + 1, size, share: size / greatest, pending: this.options.isPending(doc) });
      row.select(this.selected);
    }
    setText(this.range, `${count(before + 1)} to ${last} of ${count(total)}`);
    this.back.setAttribute("aria-disabled", String(before === 0));
    this.onward.setAttribute("aria-disabled", String(!hasNext(page)));
  }

  /** Marks the packages that changed: once for each answer, and not at each drawing. */
  private flash(page: Page | undefined): void {
    for (const [place, doc] of (page?.docs ?? []).entries()) {
      if (page?.changed.has(doc.name)) this.rows[place]?.flash();
    }
  }

  private drawFailure(error: unknown): void {
    const { title, text } = problemOf(error);
    const again = h("button", { class: "button", type: "button", on: { click: () => this.largest.retry() } }, "Try again");
    fill(this.failure, h("h2", {}, title), h("p", {}, text), again);
  }

  /** A button that turns the page. It stays focusable at the ends, so that the focus is not lost there. */
  private turn(label: string, name: IconName, run: () => boolean): HTMLButtonElement {
    const button = h("button", { class: "button small", type: "button", testid: `largest-${name}`, "aria-disabled": "true" });
    fill(button, name === "previous" ? [icon(name), label] : [label, icon(name)]);
    button.addEventListener("click", () => {
      if (button.getAttribute("aria-disabled") === "true") return;
      this.turned = run();
    });
    return button;
  }
}

function choice(label: string, testid: string, options: [string | number, string][], chosen: (value: string) => void): HTMLSelectElement {
  const select = h(
    "select",
    { class: "sort", "aria-label": label, testid },
    options.map(([value, text]) => h("option", { value: String(value) }, text)),
  );
  select.addEventListener("change", () => chosen(select.value));
  return select;
}
