/** Short messages over the page: one at a time, the newest. */

import { fill, h } from "../dom";
import { icon, type IconName } from "../icons";

const SHOWN_MS = 6_000;

const host = h("div", { class: "toasts", role: "status", "aria-live": "polite" });
let timer: ReturnType<typeof setTimeout> | undefined;

/** Removes a message that has no action. */
export function clearToast(): void {
  if (timer !== undefined) fill(host);
}

/** Shows a message. With an action it stays until it is answered or closed. */
export function toast(text: string, options: { icon?: IconName; action?: { label: string; run: () => void } } = {}): void {
  if (!host.isConnected) document.body.append(host);
  clearTimeout(timer);
  timer = undefined;
  const close = (): void => fill(host);
  const { action } = options;
  fill(
    host,
    h(
      "div",
      { class: "toast", testid: "toast" },
      icon(options.icon ?? "check"),
      h("span", { class: "toast-text" }, text),
      action ? h("button", { class: "button small primary", type: "button", on: { click: action.run } }, action.label) : null,
      h("button", { class: "icon-button", type: "button", "aria-label": "Dismiss", on: { click: close } }, icon("close")),
    ),
  );
  if (!action) timer = setTimeout(close, SHOWN_MS);
}
