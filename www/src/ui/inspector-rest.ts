/**
 * The inspector's tab of IndexedDB: stored records byte for byte, next to the same data in clear as the session holds
 * it.
 */

import { fill, h } from "../dom";
import { bytes, count, plural } from "../format";
import { icon } from "../icons";
import type { Package } from "../schema";
import type { InspectorContext } from "./inspector";
import { hexView, showHex } from "./hex-view";

const RECORDS_SHOWN = 200;

/** The contents of the object stores, by their one-letter names. A reader of the disk sees none of this. */
const TABLES: Readonly<Record<string, string>> = {
  s: "state: collections and links",
  p: "pages of documents",
  j: "journal of writes",
};

/** Fills the tab. */
export async function restTab(panel: HTMLElement, { session, sample }: InspectorContext): Promise<void> {
  const { store } = await session.inspect({ limit: RECORDS_SHOWN });
  const counts = Object.entries(store.counts);
  const records = counts.reduce((sum, [, n]) => sum + n, 0);
  if (session.status.mode === "incognito") return fill(panel, nothing());
  const hex = hexView("Bytes of the record");
  const picker = h("select", { "aria-label": "Record", testid: "record" });
  store.records.forEach(({ table, key, bytes: content }, index) => {
    picker.append(h("option", { value: index }, `${table} ${shorten(key)} (${bytes(content.length)})`));
  });
  const pick = (): void => {
    const record = store.records[Number(picker.value)];
    if (record) showHex(hex, record.bytes);
  };
  picker.addEventListener("change", pick);
  // A page of documents rather than the state, because it corresponds to the document shown in clear.
  picker.value = String(Math.max(0, store.records.findIndex(({ table }) => table === "p")));
  pick();
  const doc = sample();
  fill(
    panel,
    h(
      "p",
      { class: "lead" },
      "The browser keeps ",
      h("strong", {}, plural(records, "record")),
      ", ",
      h("strong", {}, bytes(store.bytes)),
      ", beside the header with its locked keys, in the database ",
      h("code", {}, store.name),
      ".",
    ),
    h(
      "div",
      { class: "stores" },
      counts.map(([name, n]) => h("div", { class: "store", testid: "object-store" }, h("span", {}, h("code", {}, name), ` ${TABLES[name] ?? ""}`), h("strong", {}, plural(n, "record")))),
    ),
    h(
      "div",
      { class: "side-by-side" },
      h(
        "section",
        { class: "pane" },
        h("header", {}, icon("lock"), h("h3", {}, "On the device"), picker),
        store.records.length > 0 ? hex : h("p", { class: "hint" }, "No record yet."),
      ),
      h(
        "section",
        { class: "pane" },
        h("header", {}, icon("eye"), h("h3", {}, "In memory, in clear")),
        doc
          ? h("pre", { class: "clear-text", tabindex: 0, "aria-label": "The document in clear", testid: "clear-text" }, inClear(doc))
          : h("p", { class: "hint" }, "Follow something: one of its documents is then shown here."),
      ),
    ),
    h(
      "p",
      { class: "hint" },
      `Record keys are made with a secret key, so they do not show which record holds which document. ${records > RECORDS_SHOWN ? `The first ${count(RECORDS_SHOWN)} records are listed.` : ""}`,
    ),
  );
}

function nothing(): HTMLElement {
  return h(
    "div",
    { class: "empty" },
    h("div", { class: "emblem" }, icon("incognito")),
    h("h2", {}, "Nothing rests here"),
    h("p", {}, "In incognito, nothing is written to this browser's storage. If you close the tab, everything is gone."),
  );
}

/** The document as JSON, with its naming properties first. */
function inClear({ name, version, section, summary, ...others }: Package): string {
  return JSON.stringify({ name, version, section, summary, ...others }, null, 2);
}

/** Short enough for a phone's list, long enough to tell records apart. */
function shorten(key: string): string {
  return key.length > 8 ? `${key.slice(0, 8)}..` : key;
}
