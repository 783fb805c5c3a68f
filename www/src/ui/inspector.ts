/** The inspector: the contents of memory, the stored records, and a search for the former in the latter. */

import { fill, h, show } from "../dom";
import { icon } from "../icons";
import type { Library } from "../library";
import type { Package } from "../schema";
import type { Session } from "../session";
import { collectionsTab } from "./inspector-collections";
import { restTab } from "./inspector-rest";
import { searchTab } from "./inspector-search";

/** The context of the tabs. */
export interface InspectorContext {
  session: Session;
  library: Library;
  /** The package that is shown, or the first one listed. */
  sample: () => Package | undefined;
}

interface Tab {
  id: string;
  title: string;
  /** Fills the panel; called each time the tab is shown. */
  draw(panel: HTMLElement, context: InspectorContext): Promise<void>;
}

const TABS: Tab[] = [
  { id: "collections", title: "In memory", draw: collectionsTab },
  { id: "rest", title: "At rest", draw: restTab },
  { id: "search", title: "Search for plaintext", draw: searchTab },
];

/** The drawer. */
export class Inspector {
  private readonly dialog = h("dialog", { class: "drawer", "aria-labelledby": "inspector-title", testid: "inspector-drawer" });
  private readonly panel = h("div", { class: "drawer-panel", role: "tabpanel", id: "inspector-panel", tabindex: 0 });
  private readonly tabs = new Map<string, HTMLButtonElement>();
  private current = TABS[0] as Tab;

  constructor(private readonly context: InspectorContext) {
    const bar = h("div", { class: "tabs", role: "tablist", "aria-label": "Inspector" });
    for (const tab of TABS) {
      const button = h(
        "button",
        { class: "tab", type: "button", role: "tab", id: `tab-${tab.id}`, "aria-controls": "inspector-panel", testid: `inspector-${tab.id}` },
        tab.title,
      );
      button.addEventListener("click", () => void this.show(tab));
      this.tabs.set(tab.id, button);
      bar.append(button);
    }
    bar.addEventListener("keydown", (event) => this.moveTab(event));
    const refresh = h("button", { class: "icon-button", type: "button", "aria-label": "Look again", testid: "inspector-refresh" }, icon("sync"));
    refresh.addEventListener("click", () => void this.show(this.current));
    const close = h("button", { class: "icon-button", type: "button", "aria-label": "Close the inspector", testid: "inspector-close" }, icon("close"));
    close.addEventListener("click", () => this.dialog.close());
    fill(
      this.dialog,
      h("header", { class: "drawer-head" }, h("h2", { id: "inspector-title" }, "Inspector"), refresh, close),
      bar,
      this.panel,
    );
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
    document.body.append(this.dialog);
  }

  /** Opens the drawer on its last tab. */
  open(): void {
    if (!this.dialog.open) this.dialog.showModal();
    void this.show(this.current);
  }

  /** Removes the drawer. */
  remove(): void {
    this.dialog.remove();
  }

  private async show(tab: Tab): Promise<void> {
    this.current = tab;
    for (const [id, button] of this.tabs) {
      button.setAttribute("aria-selected", String(id === tab.id));
      button.tabIndex = id === tab.id ? 0 : -1;
    }
    this.panel.setAttribute("aria-labelledby", `tab-${tab.id}`);
    const panel = h("div", { class: "drawer-content" });
    const waiting = h("p", { class: "hint", role: "status" }, "Looking...");
    fill(this.panel, waiting, panel);
    try {
      await tab.draw(panel, this.context);
    } catch (error) {
      fill(panel, h("p", { class: "field-error", role: "alert" }, error instanceof Error ? error.message : "It cannot be read."));
    }
    show(waiting, false);
  }

  private moveTab(event: KeyboardEvent): void {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    const next = TABS[(TABS.indexOf(this.current) + step + TABS.length) % TABS.length] as Tab;
    void this.show(next);
    this.tabs.get(next.id)?.focus();
  }
}
