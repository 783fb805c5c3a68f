/**
 * The inspector's search: looks for texts of the screen in every byte stored on the device. A control shows that the
 * search works.
 */

import { fill, h } from "../dom";
import { bytes, count, plural } from "../format";
import { icon } from "../icons";
import { byteString, ENCODINGS, fromHex, needle, NEEDLE_BYTES_MIN, occurrences, type Needle } from "../plaintext";
import type { Package } from "../schema";
import type { Session } from "../session";
import type { InspectorContext } from "./inspector";

/** More records than any visitor's store holds. */
const ALL_RECORDS = 1_000_000;
/** Milliseconds of searching after which the page may draw. */
const SLICE_MS = 30;

const TOO_SHORT = `fewer than ${NEEDLE_BYTES_MIN} bytes occur in random data by chance.`;

interface Outcome {
  records: number;
  bytes: number;
  hits: Map<Needle, number>;
}

/** Fills the tab. */
export function searchTab(panel: HTMLElement, { session, sample }: InspectorContext): void {
  if (session.status.mode === "incognito") return fill(panel, nothing());
  const doc = sample();
  const text = h("input", { id: "needle", type: "text", value: doc?.name ?? "", autocomplete: "off", spellcheck: "false", testid: "plaintext-input" });
  const run = h("button", { class: "button primary", type: "submit", testid: "plaintext-search" }, "Search every record");
  const result = h("div", { class: "search-result", role: "status", testid: "plaintext-result" });
  const search = async (): Promise<void> => {
    const typed = text.value.trim();
    const needles = needlesOf(doc, typed);
    if (needles.length === 0) {
      fill(result, h("p", { class: "field-error" }, `Type a longer text: ${TOO_SHORT}`));
      return;
    }
    run.disabled = true;
    fill(result, h("p", { class: "hint" }, h("span", { class: "spinner" }), " Reading every record..."));
    try {
      draw(result, needles, await searchStore(session, needles), doc);
      if (!needle(typed)) result.append(h("p", { class: "hint" }, `"${typed}" itself is too short to tell: ${TOO_SHORT}`));
    } catch (error) {
      fill(result, h("p", { class: "field-error" }, error instanceof Error ? error.message : "It cannot be read."));
    } finally {
      run.disabled = false;
    }
  };
  fill(
    panel,
    h("p", { class: "lead" }, "If someone takes this device and reads its disk, do they find the text on your screen?"),
    h(
      "form",
      {
        class: "search-form",
        novalidate: true,
        on: {
          submit: (event) => {
            event.preventDefault();
            void search();
          },
        },
      },
      h("div", { class: "field" }, h("label", { for: "needle" }, doc ? "This text, and all other texts of the package shown" : "This text"), text),
      run,
    ),
    result,
    h(
      "section",
      { class: "pane" },
      h("header", {}, icon("eye"), h("h3", {}, "In memory, in clear")),
      doc
        ? h("pre", { class: "clear-text", tabindex: 0, "aria-label": "The document in clear", testid: "clear-text" }, inClear(doc))
        : h("p", { class: "hint" }, "Follow something: one of its documents is then shown here."),
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

/** The typed text. If it is the name of the package shown, the package's other texts as well. */
function needlesOf(doc: Package | undefined, typed: string): Needle[] {
  const texts = [typed];
  if (typed === doc?.name) texts.push(doc.summary, doc.maintainer, doc.homepage, doc.sha256, ...doc.tags);
  return [...new Set(texts)].map(needle).filter((n) => n !== undefined);
}

async function searchStore(session: Session, needles: Needle[]): Promise<Outcome> {
  const { store } = await session.inspect({ limit: ALL_RECORDS });
  const outcome: Outcome = { records: 0, bytes: 0, hits: new Map(needles.map((n) => [n, 0])) };
  let pause = performance.now() + SLICE_MS;
  for (const { key, bytes: content } of store.records) {
    for (const part of [fromHex(key), content]) {
      const haystack = byteString(part);
      for (const n of needles) outcome.hits.set(n, (outcome.hits.get(n) ?? 0) + occurrences(n, haystack));
      outcome.bytes += part.length;
    }
    outcome.records += 1;
    if (performance.now() < pause) continue;
    await new Promise((resolve) => setTimeout(resolve));
    pause = performance.now() + SLICE_MS;
  }
  return outcome;
}

function draw(result: HTMLElement, needles: Needle[], outcome: Outcome, doc: Package | undefined): void {
  const total = [...outcome.hits.values()].reduce((sum, n) => sum + n, 0);
  const memory = byteString(new TextEncoder().encode(doc ? JSON.stringify(doc) : ""));
  result.dataset.hits = String(total);
  result.dataset.records = String(outcome.records);
  result.dataset.bytes = String(outcome.bytes);
  fill(
    result,
    h(
      "div",
      { class: total === 0 ? "verdict good" : "verdict bad" },
      icon(total === 0 ? "check" : "alert"),
      h(
        "div",
        {},
        h("strong", {}, total === 1 ? "1 hit" : `${count(total)} hits`),
        h("p", {}, `${plural(outcome.records, "record")}, ${count(outcome.bytes)} bytes (${bytes(outcome.bytes)}) scanned, keys included, for each text as ${ENCODINGS}.`),
      ),
    ),
    h(
      "table",
      { class: "hits" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Text"), h("th", { scope: "col" }, "On the device"), h("th", { scope: "col" }, "In memory"))),
      h(
        "tbody",
        {},
        needles.map((n) =>
          h(
            "tr",
            {},
            h("td", {}, n.text),
            h("td", {}, count(outcome.hits.get(n) ?? 0)),
            h("td", {}, occurrences(n, memory) > 0 ? "found" : "not in the package shown"),
          ),
        ),
      ),
    ),
    doc ? h("p", { class: "hint" }, "The last column is the control: the same search, over the document that the page holds in memory.") : null,
  );
}
