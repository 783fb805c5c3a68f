/** A hex dump: offsets, hexadecimal, and the printable characters. */

import { fill, h } from "../dom";
import { count } from "../format";

const SHOWN_MAX = 768;
const WIDTH = 16;

/** Makes an empty view. */
export function hexView(label: string): HTMLElement {
  return h("pre", { class: "hex", tabindex: 0, "aria-label": label, testid: "hex" });
}

/** Shows the beginning of some bytes. */
export function showHex(view: HTMLElement, bytes: Uint8Array): void {
  const lines: (Node | string)[] = [];
  const end = Math.min(bytes.length, SHOWN_MAX);
  for (let offset = 0; offset < end; offset += WIDTH) {
    const slice = bytes.slice(offset, Math.min(offset + WIDTH, end));
    const hex = Array.from(slice, (byte) => byte.toString(16).padStart(2, "0"));
    const left = hex.slice(0, 8).join(" ").padEnd(23);
    const right = hex.slice(8).join(" ").padEnd(23);
    const ascii = Array.from(slice, (byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(
      h("span", { class: "hex-offset" }, offset.toString(16).padStart(4, "0")),
      `  ${left}  ${right}  `,
      h("span", { class: "hex-ascii" }, ascii),
      "\n",
    );
  }
  if (bytes.length > end) lines.push(`\n... and ${count(bytes.length - end)} bytes more`);
  fill(view, ...lines);
}
