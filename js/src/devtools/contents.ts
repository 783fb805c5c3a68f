/** The tabs of the panel that show contents: documents in clear, and the records at rest. */

import { isBytes } from "../base/bytes.js";
import { bytes, count, facts, fill, h, none } from "./dom.js";
import type { AnySession } from "./recorder.js";
import type { Query } from "../schema/query.js";
import type { ClassDeclaration } from "../schema/schema-types.js";
import type { Tab } from "./tabs.js";

const PAGE = 50;
const RECORDS_MAX = 200;
const BYTES_MAX = 4_096;
const TABLES: Readonly<Record<string, string>> = { s: "state: collections and links", p: "pages of documents", j: "journal of writes" };

type Doc = Readonly<Record<string, unknown>>;

/** The choices of the user, by session: they outlive a change of tab. */
const choices = new WeakMap<AnySession, { className?: string; after: Doc[] }>();

export const documents: Tab = {
  id: "documents",
  title: "Documents",
  isLive: false,
  async draw(panel, { session, redraw, say }) {
    const classes = session.classes as Readonly<Record<string, { readonly key: readonly string[]; readonly sync?: boolean }>>;
    const names = Object.keys(classes).filter((name) => classes[name]?.sync !== false);
    const chosen = choices.get(session) ?? { after: [] };
    choices.set(session, chosen);
    const className = chosen.className ?? names[0] ?? "";
    const key = classes[className]?.key ?? [];
    const after = chosen.after.at(-1);
    const all = session.query(className) as Query<ClassDeclaration>;
    const ordered = all.orderBy("key").limit(PAGE);
    const [total, found] = await Promise.all([all.count(), (after ? ordered.after(after as never) : ordered).docs()]);
    const docs: readonly Doc[] = found;
    const choose = (event: Event): void => {
      choices.set(session, { className: (event.target as HTMLSelectElement).value, after: [] });
      redraw();
    };
    const turn = (change: (pages: Doc[]) => void): void => {
      change(chosen.after);
      say(`Page ${chosen.after.length + 1}`);
      redraw();
    };
    const last = docs.at(-1);
    fill(
      panel,
      h(
        "div",
        { class: "row" },
        h("label", {}, "Class", h("select", { part: "class", "data-focus": "class", onchange: choose }, names.map((name) => h("option", { value: name, selected: name === className }, name)))),
        h("button", { type: "button", "data-focus": "back", disabled: chosen.after.length === 0, onclick: () => turn((pages) => pages.pop()) }, "Back"),
        h("button", { type: "button", "data-focus": "next", disabled: docs.length < PAGE || !last, onclick: () => turn((pages) => last && pages.push(last)) }, "Next"),
        h("button", { type: "button", "data-focus": "again", onclick: redraw }, "Refresh"),
      ),
      h("p", { part: "held", "data-count": total }, `${count(total)} of this class are held.`),
      docs.length === 0 ? none("No document here.") : docs.map((doc) => entry(session, key, doc)),
    );
  },
};

function entry(session: AnySession, key: readonly string[], doc: Doc): HTMLElement {
  const pre = h("pre", { tabindex: 0, class: "wrap", role: "region", "aria-label": "The document" });
  const opened = (): void => {
    const meta = session.meta(doc);
    const first = meta ? `version ${meta.v}${meta.pending ? ", with operations that wait" : ""}` : "replaced since: refresh the list";
    pre.textContent = `${first}\n${JSON.stringify(doc, readable, 2)}`;
  };
  return h("details", { part: "document", ontoggle: opened }, h("summary", { class: "mono" }, key.map((name) => String(doc[name])).join(" / ")), pre);
}

/** Bytes as their length: JSON would list each. */
function readable(_name: string, value: unknown): unknown {
  return isBytes(value) ? `${value.length} bytes` : value;
}

export const storage: Tab = {
  id: "storage",
  title: "Storage",
  isLive: false,
  async draw(panel, { session, redraw }) {
    const [{ store }, usage] = await Promise.all([session.inspect({ limit: RECORDS_MAX }), session.usage()]);
    const records = Object.values(store.counts).reduce((sum, n) => sum + n, 0);
    const hex = h("pre", { tabindex: 0, part: "hex", role: "region", "aria-label": "Bytes of the record" });
    const picker = h("select", { part: "record", "data-focus": "record", onchange: () => pick() });
    const pick = (): void => {
      const record = store.records[Number(picker.value)];
      hex.textContent = record ? dump(record.bytes) : "";
    };
    store.records.forEach(({ table, key, bytes: content }, place) => {
      picker.append(h("option", { value: place }, `${table} ${key.slice(0, 8)} (${bytes(content.length)})`));
    });
    picker.value = String(Math.max(0, store.records.findIndex(({ table }) => table === "p")));
    pick();
    fill(
      panel,
      facts([
        ["At rest", h("span", { part: "records", "data-records": records, "data-bytes": store.bytes }, `${count(records)} records, ${bytes(store.bytes)}`)],
        ["This origin", usage.used === null ? "unknown" : `${bytes(usage.used)} of ${usage.quota === null ? "?" : bytes(usage.quota)}`],
        ["Persistence", usage.persistence],
        ...Object.entries(store.counts).map(([name, n]) => [`Table ${name}`, h("span", { part: "object-store" }, `${count(n)}: ${TABLES[name] ?? "other records"}`)] as const),
      ]),
      store.records.length === 0
        ? none(session.status.mode === "incognito" ? "In incognito nothing rests on the device." : "No record yet.")
        : [
            h(
              "div",
              { class: "row" },
              h("label", {}, "Record", picker),
              h("button", { type: "button", "data-focus": "again", onclick: redraw }, "Refresh"),
            ),
            hex,
            h("p", { class: "none" }, `Keys of records are made with a secret key. ${records > RECORDS_MAX ? `The first ${RECORDS_MAX} records are listed.` : ""}`),
          ],
    );
  },
};

/** Offset, bytes and characters, 16 of them a line. */
function dump(content: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < Math.min(content.length, BYTES_MAX); at += 16) {
    const line = content.subarray(at, at + 16);
    const digits = Array.from(line, (byte) => byte.toString(16).padStart(2, "0"));
    const [left, right] = [digits.slice(0, 8), digits.slice(8)].map((half) => half.join(" ").padEnd(23));
    const text = String.fromCharCode(...line.map((byte) => (byte >= 32 && byte < 127 ? byte : 46)));
    lines.push(`${at.toString(16).padStart(4, "0")}  ${left}  ${right}  ${text}`);
  }
  if (content.length > BYTES_MAX) lines.push(`... ${count(content.length - BYTES_MAX)} more bytes`);
  return lines.join("\n");
}
