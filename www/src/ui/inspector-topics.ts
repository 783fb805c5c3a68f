/** The inspector's tab of topics: the followed topics by their names, and the latest changes. */

import { fill, h } from "../dom";
import { count, plural, time } from "../format";
import { icon } from "../icons";
import type { Activity } from "../library";
import { topicLabel } from "../topics";
import type { InspectorContext } from "./inspector";

/** Fills the tab. */
export function topicsTab(panel: HTMLElement, context: InspectorContext): void {
  const { session, library } = context;
  const stop = (def: string): void => {
    const topic = library.topicOf(def);
    if (topic) library.unfollow(topic);
    else session.unsubscribe(def);
    topicsTab(panel, context);
  };
  const defs = session.status.phase === "closed" ? [] : session.subscriptions().sort();
  fill(
    panel,
    h("p", { class: "lead" }, `This page follows ${plural(defs.length, "topic")}. A def is the name that the server sees: a hash hides the value.`),
    defs.length === 0
      ? h("p", { class: "hint" }, "You follow nothing yet.")
      : h(
          "div",
          { class: "cards" },
          defs.map((def) => {
            const topic = library.topicOf(def);
            const label = topic ? topicLabel(topic) : unnamed(def);
            return h(
              "article",
              { class: "card", testid: "topic" },
              h(
                "header",
                {},
                h("h3", {}, label),
                h(
                  "button",
                  { class: "icon-button", type: "button", "aria-label": `Stop following ${label}`, on: { click: () => stop(def) } },
                  icon("close"),
                ),
              ),
              h("p", { class: "card-def" }, def),
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

/** The label of a def that is no topic. */
function unnamed(def: string): string {
  if (def.startsWith("Note/in@")) return "The notes on a package";
  return def.startsWith("Package@") ? "A package with its notes" : "A value without a name on this page";
}
