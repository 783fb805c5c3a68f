/** The list of packages: all that are followed, or those of one topic, filtered and sorted by the library. */

import { fill, h, setText, show } from "../../dom";
import { bytes, plural } from "../../format";
import { icon } from "../../icons";
import type { Library, Rows, Sort } from "../../library";
import type { Package } from "../../schema";
import type { StatusValue } from "../../session";
import { EmptyList } from "./empty-list";
import { VirtualList } from "./virtual-list";

/** The height of a row; the style sheet has the same number. */
const ROW_HEIGHT = 60;

const SORTS: [Sort, string][] = [
  ["name", "Name"],
  ["installedSize", "Installed size"],
  ["size", "Download size"],
];

/** The panel. */
export class PackagesPanel {
  readonly element: HTMLElement;
  private readonly list: VirtualList<Package>;
  private readonly tally = h("p", { class: "tally", testid: "count", role: "status" });
  private readonly empty: EmptyList;
  private readonly filter: HTMLInputElement;
  private readonly toolbar: HTMLElement;
  private status: StatusValue | undefined;
  private listed = 0;

  constructor(
    private readonly library: Library,
    options: {
      chosen: (doc: Package, open: boolean) => void;
      openFollow: () => void;
      isPending: (doc: Package) => boolean;
    },
  ) {
    this.list = new VirtualList<Package>({
      label: "Packages",
      rowHeight: ROW_HEIGHT,
      id: (doc) => doc.name,
      create: createRow,
      bind: (row, doc) => bindRow(row, doc, library.filterText, options.isPending(doc)),
      chosen: options.chosen,
    });
    this.filter = h("input", {
      type: "search",
      class: "search-input",
      placeholder: "Filter by name or summary",
      "aria-label": "Filter by name or summary",
      autocomplete: "off",
      spellcheck: "false",
      testid: "filter",
      on: { input: () => this.refilter() },
    });
    const sort = h(
      "select",
      { class: "sort", "aria-label": "Sort by", testid: "sort" },
      SORTS.map(([value, label]) => h("option", { value }, label)),
    );
    sort.addEventListener("change", () => {
      library.setSort(sort.value as Sort);
      this.list.toTop();
    });
    this.empty = new EmptyList(library, {
      testid: "empty",
      noMatch: "No package here has all these words in its name or summary.",
      clearFilter: () => {
        this.filter.value = "";
        this.refilter();
        this.filter.focus();
      },
      openFollow: options.openFollow,
    });
    this.toolbar = h("div", { class: "toolbar" }, h("div", { class: "search-box" }, icon("search"), this.filter), sort, this.tally);
    this.element = h(
      "section",
      { class: "packages", "aria-label": "Packages" },
      this.toolbar,
      this.list.element,
      this.empty.element,
    );
  }

  /** Shows a new list. */
  setRows({ rows, changed }: Rows): void {
    this.listed = rows.length;
    this.list.set(rows, changed);
    this.update();
  }

  /** Other topics are followed, or they have more packages. */
  setTopics(): void {
    show(this.toolbar, this.library.topics().length > 0);
    this.update();
  }

  /** Back to the first package. */
  toTop(): void {
    this.list.toTop();
  }

  /** Takes the session's status, which decides about the text of an empty list. */
  setStatus(status: StatusValue): void {
    this.status = status;
    this.update();
  }

  /** Marks the package that the detail panel shows. */
  select(name: string | undefined): void {
    this.list.select(name);
  }

  /** Scrolls to a package. If the filter hides it, the filter is cleared. */
  reveal(name: string): void {
    if (this.list.reveal(name)) return;
    this.filter.value = "";
    this.library.setFilter("");
    this.library.narrow(undefined);
    this.list.select(name);
  }

  /** Puts the focus on the list, in which the keyboard moves between packages. */
  focus(): void {
    this.list.element.focus({ preventScroll: true });
  }

  private refilter(): void {
    this.library.setFilter(this.filter.value);
    this.list.toTop();
  }

  private update(): void {
    const topics = this.library.topics();
    const filtered = this.library.filterText !== "";
    const found = filtered ? plural(this.listed, "package matches", "packages match") : plural(this.listed, "package");
    setText(this.tally, topics.length === 0 ? "" : found);
    const isEmpty = this.empty.update({ listed: this.listed, filtered, phase: this.status?.phase });
    show(this.list.element, !isEmpty);
  }
}

function createRow(): HTMLElement {
  return h(
    "div",
    { class: "row" },
    h("span", { class: "row-name" }),
    h("span", { class: "row-version" }, h("span", { class: "row-pending", title: "Waits for the server", hidden: true }, icon("pending")), h("span")),
    h("span", { class: "row-size" }),
    h("span", { class: "row-summary" }),
    h("span", { class: "row-section" }),
  );
}

function bindRow(row: HTMLElement, doc: Package, filter: string, pending: boolean): void {
  const [name, version, size, summary, section] = row.children as unknown as HTMLElement[];
  if (!name || !version || !size || !summary || !section) return;
  row.dataset.name = doc.name;
  mark(name, doc.name, filter);
  const [waits, text] = version.children as unknown as HTMLElement[];
  if (waits) show(waits, pending);
  if (text) setText(text, doc.version);
  setText(size, bytes(doc.installedSize * 1024));
  mark(summary, doc.summary, filter);
  setText(section, doc.section);
}

/** Writes a text, and highlights the first word of the filter where it occurs. */
function mark(element: HTMLElement, text: string, filter: string): void {
  const word = filter.split(/\s+/, 1)[0] ?? "";
  const at = word === "" ? -1 : text.toLowerCase().indexOf(word);
  if (at < 0) {
    if (element.childElementCount > 0 || element.textContent !== text) element.textContent = text;
    return;
  }
  const end = at + word.length;
  fill(element, text.slice(0, at), h("mark", {}, text.slice(at, end)), text.slice(end));
}
