/** Builds the page's elements without templates or innerHTML, so that no content can become markup. */

type Child = Node | string | number | null | undefined | false | readonly Child[];
type Handlers = { [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void };

/** Attributes of an element. `on` takes listeners; `testid` is the attribute that the end-to-end tests use. */
export interface Props {
  on?: Handlers;
  testid?: string;
  [attribute: string]: string | number | boolean | null | undefined | Handlers;
}

/** Makes an element. `false`, `null` and `undefined` leave an attribute or a child out. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === "object") {
      for (const [event, handler] of Object.entries(value)) {
        element.addEventListener(event, handler as EventListener);
      }
    } else if (name === "testid") element.dataset.testid = String(value);
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

/** Sets the text of an element only if it differs, so that screen readers announce only real changes. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Shows or hides an element. */
export function show(element: HTMLElement, visible: boolean): void {
  element.hidden = !visible;
}

/** Runs `task` before the next frame; or soon, if the page is hidden and frames have stopped. */
export function nextFrame(task: () => void): void {
  if (document.hidden) setTimeout(task, 0);
  else requestAnimationFrame(task);
}
