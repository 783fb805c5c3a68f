/** The inspector: the devtools of the package in a drawer, with two tabs of the demonstration's own. */

import { devtools, type EscaleDevtools } from "escale/devtools";

import { fill, h } from "../dom";
import { icon } from "../icons";
import type { Library } from "../library";
import type { Package } from "../schema";
import type { Session } from "../session";
import { searchTab } from "./inspector-search";
import { topicsTab } from "./inspector-topics";

/** The context of the tabs. */
export interface InspectorContext {
  session: Session;
  library: Library;
  /** The package that is shown, or the first one listed. */
  sample: () => Package | undefined;
}

/** The tabs of the demonstration, by title: each fills its panel whenever it is shown. */
const OWN: Readonly<Record<string, (panel: HTMLElement, context: InspectorContext) => void>> = {
  Topics: topicsTab,
  "Search for plaintext": searchTab,
};

/** The drawer. */
export class Inspector {
  private readonly dialog = h("dialog", { class: "drawer", "aria-labelledby": "inspector-title", testid: "inspector-drawer" });
  private readonly tools: EscaleDevtools;
  private readonly panels = new Map(Object.keys(OWN).map((title) => [title, h("div", { class: "drawer-content", "data-tab": title })]));

  constructor(private readonly context: InspectorContext) {
    const { session, library } = context;
    this.tools = devtools(session, { inline: true });
    this.tools.append(...this.panels.values());
    this.tools.addEventListener("tab", (event) => this.draw(String((event as CustomEvent).detail)));
    this.tools.addEventListener("unsubscribe", (event) => {
      const topic = library.topicOf(String((event as CustomEvent).detail));
      if (!topic) return;
      event.preventDefault();
      library.unfollow(topic);
    });
    const close = h("button", { class: "icon-button", type: "button", "aria-label": "Close the inspector", testid: "inspector-close" }, icon("close"));
    close.addEventListener("click", () => this.dialog.close());
    fill(this.dialog, h("header", { class: "drawer-head" }, h("h2", { id: "inspector-title" }, "Inspector"), close));
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
    // The devtools record only while they are in the page: requests and writes before the drawer opens count too.
    this.dialog.append(this.tools);
    document.body.append(this.dialog);
  }

  /** Opens the drawer on its last tab. */
  open(): void {
    if (!this.dialog.open) this.dialog.showModal();
    for (const title of this.panels.keys()) this.draw(title);
    void this.tools.refresh();
  }

  /** Removes the drawer. */
  remove(): void {
    this.dialog.remove();
  }

  private draw(title: string): void {
    const panel = this.panels.get(title);
    if (panel) OWN[title]?.(panel, this.context);
  }
}
