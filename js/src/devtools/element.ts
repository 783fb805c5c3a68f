/** The element `<escale-devtools>`: its tabs, its keyboard, and when it draws. */

import type { EscaleError } from "../base/errors.js";
import { documents, storage } from "./contents.js";
import { fill, h, none } from "./dom.js";
import { recorderOf, type AnySession } from "./recorder.js";
import { STYLE } from "./style.js";
import { network, operations, overview, report, subscriptions, type Tab } from "./tabs.js";

/** Options of the panel. */
export interface DevtoolsOptions {
  /** `true`: the caller puts the element into its page. Otherwise it is docked at the bottom of the page. */
  inline?: boolean | undefined;
  /** `true`: the docked panel begins open. Otherwise it begins as a button. */
  open?: boolean | undefined;
}

const TABS: readonly Tab[] = [overview, subscriptions, documents, operations, network, storage, report];
const NAME = "escale-devtools";
/** How often a live tab looks at figures that have no event of their own. */
const REDRAW_MS = 1_000;

// A server that renders pages imports this module too, and has no elements.
const Base = globalThis.HTMLElement ?? Object;

/**
 * The panel of one session. Its children with an attribute `data-tab` are more tabs, under that title. They stay in the
 * page's own tree, and keep the page's styles.
 *
 * Event `tab`: a tab is shown; `detail` names it. Event `unsubscribe`: the user ends the subscription to the def in
 * `detail`; `preventDefault()` leaves that to the page.
 *
 * @example
 * ```js
 * import { devtools } from "escale/devtools";
 *
 * const tools = devtools(session, { inline: true });
 * const own = document.createElement("section");
 * own.dataset.tab = "My tab";
 * tools.append(own);
 * document.body.append(tools);
 * await tools.show("My tab");
 * ```
 */
export class EscaleDevtools extends Base {
  #session: AnySession | undefined;
  #stop: (() => void) | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  #current = "overview";
  /** Only the newest drawing is shown. */
  #drawing = 0;
  readonly #bar = h("div", { class: "tabs", role: "tablist", "aria-label": "Escale devtools", onkeydown: (event: KeyboardEvent) => this.#move(event) });
  readonly #panel = h("div", { class: "panel", role: "tabpanel", id: "panel", tabindex: 0 });
  readonly #said = h("p", { class: "none", role: "status", part: "said" });
  readonly #close = h("button", { class: "close", type: "button", "aria-label": "Close the devtools", onclick: () => this.#toggle(false) }, "\u00d7");
  readonly #box = h("section", { class: "box", "aria-label": "Escale devtools" }, h("div", { class: "head" }, this.#bar, this.#close), this.#panel);
  readonly #button = h("button", { class: "toggle main", type: "button", "aria-expanded": "false", onclick: () => this.#toggle(true) }, "Escale");

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    root.adoptedStyleSheets = [sheet];
    root.append(this.#button, this.#box);
  }

  /** The session to show. */
  get session(): AnySession | undefined {
    return this.#session;
  }
  set session(session: AnySession | undefined) {
    this.#end();
    this.#session = session;
    if (this.isConnected) this.connectedCallback();
  }

  /** @internal */
  connectedCallback(): void {
    this.#end();
    const isDocked = this.hasAttribute("docked");
    this.#close.hidden = !isDocked;
    this.#box.hidden = isDocked && !this.hasAttribute("open");
    this.#button.hidden = !this.#box.hidden;
    this.#drawTabs();
    if (this.#session) {
      this.#stop = recorderOf(this.#session).use(() => this.#redrawLive());
      this.#timer = setInterval(() => this.#redrawLive(), REDRAW_MS);
    }
    void this.refresh();
  }

  /** @internal */
  disconnectedCallback(): void {
    this.#end();
  }

  /** Shows a tab: `overview`, `subscriptions`, `documents`, `operations`, `network`, `storage`, `report`, or a title of its own tabs. */
  async show(tab: string): Promise<void> {
    this.#current = tab;
    this.#said.textContent = "";
    this.#drawTabs();
    this.dispatchEvent(new CustomEvent("tab", { detail: tab }));
    await this.refresh();
  }

  /** Draws the tab that is shown. */
  async refresh(): Promise<void> {
    if (this.#box.hidden) return;
    const turn = ++this.#drawing;
    const own = this.#slottedTabs().find((child) => child.dataset["tab"] === this.#current);
    if (own) {
      this.#swap(h("div", {}, h("slot", { name: slotOf(own) })));
      return;
    }
    const tab = TABS.find(({ id }) => id === this.#current) ?? overview;
    const fresh = h("div");
    const session = this.#session;
    if (!session) fill(fresh, none("No session is shown: set the property `session`."));
    else {
      const say = (text: string): void => void (this.#said.textContent = text);
      const unsubscribe = (def: string): void => {
        const asked = new CustomEvent("unsubscribe", { detail: def, cancelable: true });
        if (this.dispatchEvent(asked)) session.unsubscribe(def);
      };
      const context = { session, recorder: recorderOf(session), say, unsubscribe, redraw: () => void this.refresh() };
      try {
        await tab.draw(fresh, context);
      } catch (error) {
        const { code = "internal", message = "", cure = "" } = error as Partial<EscaleError>;
        const text = code === "closed" ? "The session is closed." : `${message} ${cure}`;
        fill(fresh, h("p", { role: "alert" }, h("code", { class: "bad" }, code), ` ${text}`));
      }
    }
    // A later drawing has begun meanwhile.
    if (turn === this.#drawing) this.#swap(fresh);
  }

  /** Puts the new content in, unless nothing differs: selected text and the focus stay. */
  #swap(fresh: HTMLElement): void {
    const shown = this.#panel.firstElementChild;
    if (shown?.innerHTML === fresh.innerHTML && shown.nextElementSibling === this.#said && !fresh.querySelector("select")) return;
    const active = this.shadowRoot?.activeElement;
    const focus = active && this.#panel.contains(active) ? active.getAttribute("data-focus") : null;
    this.#panel.replaceChildren(fresh, this.#said);
    if (focus !== null) (fresh.querySelector<HTMLElement>(`[data-focus="${CSS.escape(focus)}"]`) ?? this.#panel).focus();
  }

  /** Draws a live tab again, if somebody can see it. */
  #redrawLive(): void {
    const tab = TABS.find(({ id }) => id === this.#current);
    if (tab?.isLive && !document.hidden && this.checkVisibility()) void this.refresh();
  }

  #slottedTabs(): HTMLElement[] {
    return [...this.querySelectorAll<HTMLElement>(":scope > [data-tab]")];
  }

  #drawTabs(): void {
    const own = this.#slottedTabs();
    for (const child of own) child.slot = slotOf(child);
    const tabs = [...TABS, ...own.map((child) => ({ id: child.dataset["tab"] ?? "", title: child.dataset["tab"] ?? "" }))];
    if (!tabs.some(({ id }) => id === this.#current)) this.#current = "overview";
    const had = this.shadowRoot?.activeElement?.getAttribute("role") === "tab";
    fill(
      this.#bar,
      tabs.map(({ id, title }, place) =>
        h(
          "button",
          {
            type: "button",
            role: "tab",
            id: `tab-${place}`,
            part: `tab tab-${id.replace(/\W+/g, "-").toLowerCase()}`,
            "aria-controls": "panel",
            "aria-selected": id === this.#current ? "true" : "false",
            tabindex: id === this.#current ? 0 : -1,
            onclick: () => void this.show(id),
          },
          title,
        ),
      ),
    );
    const chosen = this.#bar.querySelector<HTMLElement>('[aria-selected="true"]');
    if (chosen) {
      this.#panel.setAttribute("aria-labelledby", chosen.id);
      if (had) chosen.focus();
      chosen.scrollIntoView?.({ block: "nearest", inline: "nearest" });
    }
  }

  #move(event: KeyboardEvent): void {
    const tabs = [...this.#bar.querySelectorAll<HTMLElement>("[role=tab]")];
    const at = tabs.findIndex((tab) => tab.getAttribute("aria-selected") === "true");
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    tabs.at(to % tabs.length)?.click();
  }

  #toggle(isOpen: boolean): void {
    this.toggleAttribute("open", isOpen);
    this.#box.hidden = !isOpen;
    this.#button.hidden = isOpen;
    if (isOpen) {
      void this.refresh();
      this.#bar.querySelector<HTMLElement>('[aria-selected="true"]')?.focus();
    } else this.#button.focus();
  }

  #end(): void {
    this.#stop?.();
    clearInterval(this.#timer);
    this.#stop = this.#timer = undefined;
  }
}

function slotOf(child: HTMLElement): string {
  return `tab ${child.dataset["tab"]}`;
}

/**
 * Defines `<escale-devtools>`, for pages that write it as markup. The property `session` then gives it its session.
 *
 * @example
 * ```js
 * import { defineDevtools } from "escale/devtools";
 *
 * defineDevtools();
 * const tools = document.createElement("escale-devtools");
 * tools.session = session;
 * document.body.append(tools);
 * ```
 */
export function defineDevtools(): void {
  if (!customElements.get(NAME)) customElements.define(NAME, EscaleDevtools);
}

/**
 * Shows the devtools of a session. Without `inline` they are docked at the bottom of the page. `remove()` takes them away
 * and ends their recording.
 *
 * @example
 * ```js
 * import { devtools } from "escale/devtools";
 *
 * const tools = devtools(session, { open: true });
 * await tools.show("operations");
 * tools.remove();
 * ```
 */
export function devtools(session: AnySession, { inline = false, open = false }: DevtoolsOptions = {}): EscaleDevtools {
  defineDevtools();
  const element = new EscaleDevtools();
  element.session = session;
  if (!inline) {
    element.toggleAttribute("docked", true);
    element.toggleAttribute("open", open);
    document.body.append(element);
  }
  return element;
}
