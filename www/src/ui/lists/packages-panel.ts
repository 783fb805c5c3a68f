/** The list of packages, with the followed topics above it, and the texts for an empty list. */

import { fill, h, setText, show } from "../../dom";
import { bytes, count, plural } from "../../format";
import { icon } from "../../icons";
import type { Followed, Library, Rows, Sort } from "../../library";
import { phaseText } from "../../phases";
import type { Package } from "../../schema";
import type { StatusValue } from "../../session";
import { ALL, expectedSize, SUGGESTIONS, topicId, topicLabel, TOTAL, type Topic } from "../../topics";
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
  private readonly strip = h("div", { class: "strip", role: "group", "aria-label": "Followed" });
  private readonly tally = h("p", { class: "tally", testid: "count", role: "status" });
  private readonly empty = h("div", { class: "empty", testid: "empty" });
  /** The progress a second time, near the list. Assistive technology gets it from the status bar. */
  private readonly line = h("div", { hidden: true });
  private readonly filter: HTMLInputElement;
  private readonly toolbar: HTMLElement;
  private status: StatusValue | undefined;
  private listed = 0;
  private emptyState = "";

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
    this.toolbar = h("div", { class: "toolbar" }, h("div", { class: "search-box" }, icon("search"), this.filter), sort, this.tally);
    this.element = h(
      "section",
      { class: "packages", "aria-label": "Packages" },
      this.strip,
      this.toolbar,
      h("div", { class: "load-line", "aria-hidden": "true" }, this.line),
      this.list.element,
      this.empty,
    );
    this.openFollow = options.openFollow;
  }

  private readonly openFollow: () => void;

  /** Shows a new list. */
  setRows({ rows, changed }: Rows): void {
    this.listed = rows.length;
    this.list.set(rows, changed);
    this.update();
  }

  /** Shows the followed topics. */
  setTopics(): void {
    const topics = this.library.topics();
    const narrowed = this.library.narrowedTo;
    show(this.strip, topics.length > 0);
    show(this.toolbar, topics.length > 0);
    fill(
      this.strip,
      topics.length > 1 ? this.stripAll(narrowed === undefined) : null,
      topics.map((followed) => this.stripTopic(followed, narrowed)),
    );
    this.update();
  }

  /** Takes the session's status, which decides about the text of an empty list. */
  setStatus(status: StatusValue): void {
    this.status = status;
    const { progress } = status;
    show(this.line, progress !== null);
    this.line.style.setProperty("transform", `scaleX(${progress?.total ? progress.received / progress.total : 0})`);
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

  private stripAll(current: boolean): HTMLElement {
    return h(
      "button",
      {
        class: "strip-topic strip-main",
        type: "button",
        "aria-pressed": String(current),
        on: { click: () => this.narrow(undefined) },
      },
      "All followed",
    );
  }

  private stripTopic(followed: Followed, narrowed: Topic | undefined): HTMLElement {
    const { topic, docs, ready } = followed;
    const current = narrowed !== undefined && topicId(narrowed) === topicId(topic);
    const label = topicLabel(topic);
    return h(
      "div",
      { class: "strip-topic", "data-current": current },
      h(
        "button",
        {
          class: "strip-main",
          type: "button",
          "aria-pressed": String(current),
          testid: `view-${topicId(topic)}`,
          "data-count": docs.length,
          "data-ready": String(ready),
          on: { click: () => this.narrow(current ? undefined : topic) },
        },
        ready ? null : h("span", { class: "spinner" }),
        h("span", {}, label),
        h("span", { class: "strip-count" }, count(docs.length)),
      ),
      h(
        "button",
        {
          class: "strip-remove",
          type: "button",
          "aria-label": `Stop following ${label}`,
          testid: `unfollow-${topicId(topic)}`,
          on: { click: () => this.library.unfollow(topic) },
        },
        icon("close"),
      ),
    );
  }

  private narrow(topic: Topic | undefined): void {
    this.library.narrow(topic);
    this.list.toTop();
  }

  private update(): void {
    const topics = this.library.topics();
    const isAll = this.library.filterText === "";
    const found = isAll ? plural(this.listed, "package") : plural(this.listed, "package matches", "packages match");
    setText(this.tally, topics.length === 0 ? "" : found);
    const state = this.listed > 0 ? "" : this.stateOfEmpty(topics);
    show(this.list.element, state === "");
    show(this.empty, state !== "");
    if (state === this.emptyState) return;
    this.emptyState = state;
    this.empty.dataset.state = state;
    fill(this.empty, ...this.describeEmpty(state));
  }

  private stateOfEmpty(topics: readonly Followed[]): string {
    if (topics.length === 0) return this.status?.phase === "avion" ? "nothing-avion" : "nothing";
    if (topics.some(({ docs }) => docs.length > 0) && this.library.filterText !== "") return "filtered";
    if (topics.every(({ ready }) => ready)) return this.library.filterText === "" ? "none" : "filtered";
    if (topics.some(({ told }) => !told)) return "loading";
    const phase = this.status?.phase ?? "opening";
    return phase === "avion" || phase === "offline" || phase === "paused" ? `waiting-${phase}` : "loading";
  }

  private describeEmpty(state: string): HTMLElement[] {
    if (state === "loading") return [skeleton()];
    if (state === "nothing" || state === "nothing-avion") return this.describeNothing(state === "nothing-avion");
    if (state === "filtered") {
      const clear = h("button", { class: "button", type: "button", testid: "clear-filter" }, "Clear the filter");
      clear.addEventListener("click", () => {
        this.filter.value = "";
        this.refilter();
        this.filter.focus();
      });
      return [emblem("search"), h("h2", {}, "Nothing matches"), h("p", {}, "No package here has all these words in its name or summary."), clear];
    }
    if (state === "none") {
      return [emblem("all"), h("h2", {}, "No package here"), h("p", {}, "The server has no package that you follow. A new one will appear by itself.")];
    }
    const phase = phaseText(state.slice("waiting-".length));
    return [
      emblem(phase.icon),
      h("h2", {}, "Not on this device yet"),
      h("p", {}, `${phase.word}: your packages are loaded as soon as the server answers, and then stay on this device.`),
    ];
  }

  private describeNothing(avion: boolean): HTMLElement[] {
    const suggest = (topic: Topic): HTMLElement =>
      h(
        "button",
        { class: "chip", type: "button", "data-state": "off", on: { click: () => this.library.follow(topic) } },
        h("span", { class: "chip-mark" }, icon("plus")),
        h("span", { class: "chip-name" }, topicLabel(topic)),
        h("span", { class: "chip-size" }, count(expectedSize(topic) ?? 0)),
      );
    const everything = h(
      "button",
      { class: "button primary", type: "button", on: { click: () => this.library.follow(ALL) } },
      `Follow all ${count(TOTAL)} packages`,
    );
    const more = h("button", { class: "button phone-only", type: "button", on: { click: this.openFollow } }, "Choose sections and tags");
    return [
      emblem("follow"),
      h("h2", {}, "Follow something"),
      h(
        "p",
        {},
        avion
          ? "You follow nothing on this device. Packages that you choose now are loaded once you are in synced mode."
          : "Packages that you follow are fetched once, stored encrypted on this device, and kept up to date.",
      ),
      h("div", { class: "chips center" }, SUGGESTIONS.map(suggest)),
      h("div", { class: "empty-actions" }, more, everything),
    ];
  }
}

function emblem(name: Parameters<typeof icon>[0]): HTMLElement {
  return h("div", { class: "emblem" }, icon(name));
}

function skeleton(): HTMLElement {
  const rows = Array.from({ length: 9 }, () =>
    h("div", { class: "skeleton-row" }, h("span", { class: "bone bone-name" }), h("span", { class: "bone bone-text" })),
  );
  return h("div", { class: "skeleton", role: "status", "aria-label": "Loading packages" }, rows);
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
