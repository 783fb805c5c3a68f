/**
 * A list that keeps only the visible rows in the page: 20,000 rows scroll like twenty.
 *
 * For assistive technology it is one listbox. The focus stays on the list, `aria-activedescendant` names the active
 * row, and each row gives its position among all.
 */

import { h, nextFrame } from "../../dom";

/** The look of rows, and the action when one is chosen. */
export interface ListOptions<T> {
  label: string;
  rowHeight: number;
  id(item: T): string;
  /** Makes an empty row. */
  create(): HTMLElement;
  /** Fills a row, which may have shown another item before. */
  bind(row: HTMLElement, item: T): void;
  /** An item was chosen. `open` is true for a click or Enter, and false for moving over it. */
  chosen(item: T, open: boolean): void;
}

const OVERSCAN = 8;
const FLASH_MS = 2_400;

/** A virtualised listbox. */
export class VirtualList<T> {
  /** The scrolling element; it carries `data-count`, the number of items listed. */
  readonly element: HTMLElement;
  private readonly spacer: HTMLElement;
  private readonly pool: HTMLElement[] = [];
  private readonly shown = new Map<number, HTMLElement>();
  private readonly flashes = new Map<string, number>();
  private items: readonly T[] = [];
  private active: string | undefined;
  private scheduled = false;
  private generation = 0;

  constructor(private readonly options: ListOptions<T>) {
    this.spacer = h("div", { class: "list-spacer", role: "presentation" });
    this.element = h(
      "div",
      { class: "list", role: "listbox", tabindex: 0, "aria-label": options.label, testid: "list", "data-count": 0 },
      this.spacer,
    );
    this.element.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("click", (event) => this.click(event));
    new ResizeObserver(() => this.schedule()).observe(this.element);
  }

  /** Shows other items. Those whose id is in `changed` flash if they are visible. */
  set(items: readonly T[], changed: ReadonlySet<string>): void {
    this.items = items;
    const until = performance.now() + FLASH_MS;
    for (const id of changed) this.flashes.set(id, until);
    this.element.dataset.count = String(items.length);
    this.spacer.style.setProperty("height", `${items.length * this.options.rowHeight}px`);
    this.generation += 1;
    this.render();
  }

  /** Marks an item as the chosen one, without scrolling. */
  select(id: string | undefined): void {
    this.active = id;
    this.generation += 1;
    this.render();
  }

  /** Scrolls to an item and marks it; false if it is not listed. */
  reveal(id: string): boolean {
    const index = this.items.findIndex((item) => this.options.id(item) === id);
    if (index < 0) return false;
    this.scrollTo(index);
    this.select(id);
    return true;
  }

  /** Back to the first row. */
  toTop(): void {
    this.element.scrollTop = 0;
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    nextFrame(() => {
      this.scheduled = false;
      this.render();
    });
  }

  private render(): void {
    const { rowHeight } = this.options;
    const top = this.element.scrollTop;
    const first = Math.max(0, Math.floor(top / rowHeight) - OVERSCAN);
    const last = Math.min(this.items.length, Math.ceil((top + this.element.clientHeight) / rowHeight) + OVERSCAN);
    for (const [index, row] of this.shown) {
      if (index >= first && index < last) continue;
      row.hidden = true;
      row.removeAttribute("id");
      this.pool.push(row);
      this.shown.delete(index);
    }
    const now = performance.now();
    for (let index = first; index < last; index++) this.place(index, now);
    for (const [id, until] of this.flashes) if (until < now) this.flashes.delete(id);
  }

  private place(index: number, now: number): void {
    const item = this.items[index] as T;
    let row = this.shown.get(index);
    if (row?.dataset.generation === String(this.generation)) return;
    if (!row) {
      row = this.pool.pop() ?? this.create();
      this.shown.set(index, row);
      row.hidden = false;
      row.style.setProperty("transform", `translateY(${index * this.options.rowHeight}px)`);
    }
    const id = this.options.id(item);
    const selected = id === this.active;
    row.dataset.generation = String(this.generation);
    row.dataset.index = String(index);
    row.id = `row-${index}`;
    row.setAttribute("aria-posinset", String(index + 1));
    row.setAttribute("aria-setsize", String(this.items.length));
    row.setAttribute("aria-selected", String(selected));
    if (selected) this.element.setAttribute("aria-activedescendant", row.id);
    this.options.bind(row, item);
    this.flash(row, id, now);
  }

  private flash(row: HTMLElement, id: string, now: number): void {
    const until = this.flashes.get(id) ?? 0;
    if (until <= now) row.classList.remove("flash");
    else if (!row.classList.contains("flash") || row.dataset.flash !== `${id} ${until}`) {
      row.classList.remove("flash");
      void row.offsetWidth; // so that the same animation starts again
      row.classList.add("flash");
      row.dataset.flash = `${id} ${until}`;
    }
  }

  private create(): HTMLElement {
    const row = this.options.create();
    row.setAttribute("role", "option");
    row.dataset.testid = "row";
    row.addEventListener("animationend", () => row.classList.remove("flash"));
    this.spacer.append(row);
    return row;
  }

  private click(event: MouseEvent): void {
    const row = (event.target as Element).closest<HTMLElement>("[data-index]");
    const item = row && this.items[Number(row.dataset.index)];
    if (item) this.choose(item, true);
  }

  private choose(item: T, open: boolean): void {
    this.select(this.options.id(item));
    this.options.chosen(item, open);
  }

  private key(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey || this.items.length === 0) return;
    const current = this.items.findIndex((item) => this.options.id(item) === this.active);
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.options.rowHeight) - 1);
    const moves: Record<string, number> = {
      ArrowDown: current + 1,
      ArrowUp: current - 1,
      PageDown: current + page,
      PageUp: current - page,
      Home: 0,
      End: this.items.length - 1,
    };
    const to = event.key === "Enter" || event.key === " " ? current : moves[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const index = Math.min(this.items.length - 1, Math.max(0, to));
    this.scrollTo(index);
    this.choose(this.items[index] as T, event.key === "Enter" || event.key === " ");
  }

  private scrollTo(index: number): void {
    const { rowHeight } = this.options;
    const top = index * rowHeight;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + rowHeight > scrollTop + clientHeight) this.element.scrollTop = top + rowHeight - clientHeight;
  }
}
