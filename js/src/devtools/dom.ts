/** Builds the panel's elements without markup in strings, so that no content of a document can become markup. */

type Child = Node | string | number | null | undefined | false | readonly Child[];

/** Attributes of an element; `onclick` and its like take listeners. `part` names it for style sheets and tests. */
export type Props = Readonly<Record<string, string | number | boolean | null | undefined | ((event: never) => unknown)>>;

/** Makes an element. `false`, `null` and `undefined` leave an attribute or a child out. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

/** Replaces the children of an element. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  append(element, children);
}

function append(element: Element, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) element.append(child);
    else if (typeof child === "object") append(element, child);
    else element.append(String(child));
  }
}

/** A table with a caption for screen readers. It scrolls inside its own box if the screen is narrow. */
export function table(caption: string, heads: readonly string[], rows: readonly (readonly Child[])[]): HTMLElement {
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "group", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell))))),
    ),
  );
}

/** Terms and their values. */
export function facts(entries: readonly (readonly [term: string, value: Child])[]): HTMLElement {
  return h("dl", {}, entries.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))));
}

/** A sentence for a tab that has nothing to show. */
export function none(text: string): HTMLElement {
  return h("p", { class: "none" }, text);
}

/** A number with separators. */
export function count(n: number): string {
  return n.toLocaleString("en");
}

/** A number of bytes in a unit that people read. */
export function bytes(n: number): string {
  if (n < 1_000) return `${n} B`;
  return n < 1_000_000 ? `${(n / 1_000).toFixed(1)} kB` : `${(n / 1_000_000).toFixed(1)} MB`;
}

/** The time of day of a moment. */
export function time(at: number): string {
  return new Date(at).toLocaleTimeString("en-GB");
}

/** A duration. */
export function duration(ms: number | null): string {
  if (ms === null) return "-";
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}
