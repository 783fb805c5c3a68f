/** The devices of an account: when each was used, and a button to sign it out. */

import type { AccountDevice } from "escale/accounts";
import { fill, h } from "../dom";
import { moment } from "../format";
import { icon } from "../icons";

/** Signs out one device by its id, or `others`: all but this one. */
export type SignOut = (device: string, button: HTMLButtonElement) => void;

/** Draws the list into an element. `again` is a button that asks for it again. */
export function drawDevices(place: Element, devices: readonly AccountDevice[], signOut: SignOut, again: Node): void {
  const byUse = [...devices].sort((a, b) => Number(b.here) - Number(a.here) || b.last - a.last);
  const others = devices.filter(({ here }) => !here).length;
  fill(
    place,
    h("ul", { class: "devices", testid: "devices", "data-count": devices.length }, byUse.map((device) => row(device, signOut))),
    others === 0 ? h("p", { class: "hint" }, "No other device is signed in.") : null,
    h("div", { class: "panel-actions" }, others === 0 ? null : button("Sign out all others", "sign-out-others", "others", signOut), again),
  );
}

function row(device: AccountDevice, signOut: SignOut): HTMLElement {
  const name = device.label === "" ? "Device without a name" : device.label;
  const out = button("Sign out", "sign-out", device.id, signOut);
  out.setAttribute("aria-label", `Sign out ${name}`);
  return h(
    "li",
    { class: "device", testid: "device", "data-here": String(device.here) },
    h("span", { class: "device-mark" }, icon("device")),
    h(
      "div",
      { class: "device-text" },
      h("p", { class: "device-name" }, name),
      device.here ? h("p", { class: "device-here" }, "This device") : null,
      h("p", { class: "hint" }, `First sign-in ${moment(device.first)}`),
      h("p", { class: "hint" }, `Last used ${moment(device.last)}`),
    ),
    device.here ? null : out,
  );
}

function button(label: string, testid: string, device: string, signOut: SignOut): HTMLButtonElement {
  const made = h("button", { class: "button small", type: "button", testid }, label);
  made.addEventListener("click", () => signOut(device, made));
  return made;
}
