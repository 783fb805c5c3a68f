/** The inspector's tab of the memory: the collections with their defs and versions, and the latest changes. */

import { fill, h } from "../dom";
import { bytes, count, date, plural, time } from "../format";
import { icon } from "../icons";
import type { Activity } from "../library";
import { topicLabel } from "../topics";
import type { InspectorContext } from "./inspector";

/** Fills the tab. */
export async function collectionsTab(panel: HTMLElement, { session, library }: InspectorContext): Promise<void> {
  const { store, memory } = await session.inspect({ limit: 0 });
  const records = Object.values(store.counts).reduce((sum, n) => sum + n, 0);
  const collections = [...memory.collections].sort((a, b) => (a.def < b.def ? -1 : 1));
  const stop = (def: string): void => {
    const topic = library.topicOf(def);
    if (topic) library.unfollow(topic);
    else session.unsubscribe(def);
    void collectionsTab(panel, { session, library, sample: () => undefined });
  };
  fill(
    panel,
    h(
      "div",
      { class: "figures" },
      figure(count(memory.documents), memory.documents === 1 ? "document in memory" : "documents in memory", "inspector-documents"),
      figure(count(collections.length), collections.length === 1 ? "collection" : "collections", "inspector-collections-count"),
      figure(count(records), records === 1 ? "record at rest" : "records at rest", "inspector-records"),
      figure(bytes(store.bytes), "on this device", "inspector-bytes"),
    ),
    collections.length === 0
      ? h("p", { class: "hint" }, "You follow nothing yet.")
      : h(
          "div",
          { class: "cards" },
          collections.map(({ def, v, size, ready }) => {
            const topic = library.topicOf(def);
            const label = topic ? topicLabel(topic) : "A value without a name on this page";
            return h(
              "article",
              { class: "card", testid: "collection", "data-def": def, "data-v": v, "data-size": size },
              h(
                "header",
                {},
                h("h3", {}, label),
                h("span", { class: ready ? "tag good" : "tag" }, ready ? "ready" : "loading"),
                h(
                  "button",
                  { class: "icon-button", type: "button", "aria-label": `Stop following ${label}`, on: { click: () => stop(def) } },
                  icon("close"),
                ),
              ),
              h(
                "dl",
                { class: "facts mono-facts" },
                fact("def", def),
                fact("v", v === 0 ? "0 - never loaded whole" : `${v} - ${date(v)}`),
                fact("size", plural(size, "document")),
              ),
            );
          }),
        ),
    h("h3", { class: "drawer-title" }, "Changes since this page opened"),
    library.activity.length === 0
      ? h("p", { class: "hint" }, "None yet. Change a line on the server, and watch the list.")
      : h("ol", { class: "activity" }, library.activity.map(activity)),
    h("p", { class: "hint" }, "Developers: the console has ", h("code", {}, "window.session"), ", the same object that this page uses."),
  );
}

function activity({ at, topic, changed, left }: Activity): HTMLElement {
  const what = [changed > 0 ? `${count(changed)} changed or new` : "", left > 0 ? `${count(left)} left` : ""];
  return h(
    "li",
    {},
    h("time", { datetime: new Date(at).toISOString() }, time(at)),
    h("strong", {}, topicLabel(topic)),
    h("span", {}, what.filter(Boolean).join(", ")),
  );
}

function figure(value: string, label: string, testid: string): HTMLElement {
  return h("div", { class: "figure" }, h("strong", { testid }, value), h("span", {}, label));
}

function fact(term: string, value: string): HTMLElement {
  return h("div", {}, h("dt", {}, term), h("dd", {}, value));
}
