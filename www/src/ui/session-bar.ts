/** The top bar: the current screen, the switch between synced and avion, and the actions on the session. */

import { fill, h, show } from "../dom";
import { icon, logo, type IconName } from "../icons";
import type { Mode, StatusValue } from "../session";

/** The actions of the buttons. */
export interface SessionActions {
  setMode(mode: Mode): Promise<void>;
  openWrites(): void;
  openInspector(): void;
  changePassphrase(): void;
  wipe(): void;
  lock(): void;
}

/** The bar. */
export class SessionBar {
  readonly element: HTMLElement;
  /** The actions; a sheet on a phone. */
  readonly actions: HTMLElement;
  private readonly synced: HTMLButtonElement;
  private readonly avion: HTMLButtonElement;
  private readonly modes: HTMLElement;
  private readonly badge: HTMLElement;
  private readonly passphrase: HTMLButtonElement;
  private readonly wipe: HTMLButtonElement;
  private changing = false;

  constructor(private readonly on: SessionActions) {
    this.synced = this.mode("synced", "sync", "Synced", "Connect to the server again; only changes are fetched");
    this.avion = this.mode("avion", "avion", "Avion", "Make no network requests");
    this.modes = h("div", { class: "segmented", role: "group", "aria-label": "Mode" }, this.synced, this.avion);
    this.badge = h(
      "p",
      { class: "incognito-badge", testid: "incognito-badge", hidden: true },
      icon("incognito"),
      h("strong", {}, "Incognito"),
      h("span", {}, "nothing is written on this device"),
    );
    this.passphrase = action("key", "Change passphrase", "change-passphrase", () => on.changePassphrase());
    this.wipe = action("trash", "Wipe", "wipe", () => on.wipe());
    this.actions = h(
      "div",
      { class: "session-actions", id: "session-actions" },
      action("outbox", "Writes", "writes", () => on.openWrites()),
      action("inspector", "Inspector", "inspector", () => on.openInspector()),
      this.passphrase,
      this.wipe,
      action("lock", "Lock", "lock", () => on.lock()),
    );
    this.element = h(
      "header",
      { class: "top-bar" },
      h("h1", { class: "brand" }, logo(), h("span", {}, "Escale")),
      this.modes,
      this.badge,
      this.actions,
    );
  }

  /** Takes the focus, for a phone that shows the actions as a sheet. */
  focus(): void {
    this.actions.querySelector("button")?.focus();
  }

  /** Shows the session's mode. */
  update({ mode }: StatusValue): void {
    const incognito = mode === "incognito";
    show(this.modes, !incognito);
    show(this.badge, incognito);
    show(this.passphrase, !incognito);
    show(this.wipe, !incognito);
    document.documentElement.dataset.mode = mode;
    this.synced.setAttribute("aria-pressed", String(mode === "synced"));
    this.avion.setAttribute("aria-pressed", String(mode === "avion"));
  }

  private mode(mode: Mode, name: IconName, label: string, title: string): HTMLButtonElement {
    const button = h("button", { class: "segment", type: "button", title, testid: `go-${mode}`, "aria-pressed": "false" }, icon(name), h("span", {}, label));
    button.addEventListener("click", () => void this.change(button, mode));
    return button;
  }

  private async change(button: HTMLButtonElement, mode: Mode): Promise<void> {
    if (this.changing || button.getAttribute("aria-pressed") === "true") return;
    this.changing = true;
    const content = [...button.childNodes];
    fill(button, h("span", { class: "spinner" }), content[1]);
    try {
      await this.on.setMode(mode);
    } finally {
      this.changing = false;
      fill(button, ...content);
    }
  }
}

function action(name: IconName, label: string, testid: string, run: () => void): HTMLButtonElement {
  return h("button", { class: "action", type: "button", title: label, testid, on: { click: run } }, icon(name), h("span", {}, label));
}
