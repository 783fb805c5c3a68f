/** The followed topics above the lists: each narrows the lists to its packages, or is left. */

import { fill, h, show } from "../../dom";
import { count } from "../../format";
import { icon } from "../../icons";
import type { Followed, Library } from "../../library";
import { topicId, topicLabel, type Topic } from "../../topics";

/** The strip. */
export class TopicStrip {
  readonly element = h("div", { class: "strip", role: "group", "aria-label": "Followed" });

  /** `narrowed` is called after the visitor narrowed the lists, or shows all again. */
  constructor(
    private readonly library: Library,
    private readonly narrowed: () => void,
  ) {}

  /** Shows the topics that are followed now. */
  update(): void {
    const topics = this.library.topics();
    const current = this.library.narrowedTo;
    show(this.element, topics.length > 0);
    fill(
      this.element,
      topics.length > 1 ? this.all(current === undefined) : null,
      topics.map((followed) => this.topic(followed, current)),
    );
  }

  private narrow(topic: Topic | undefined): void {
    this.library.narrow(topic);
    this.narrowed();
  }

  private all(current: boolean): HTMLElement {
    return h(
      "button",
      {
        class: "strip-topic strip-main",
        type: "button",
        "aria-pressed": String(current),
        on: { click: () => this.narrow(undefined) },
      },
      "All followed",
    );
  }

  private topic(followed: Followed, narrowed: Topic | undefined): HTMLElement {
    const { topic, docs, ready } = followed;
    const current = narrowed !== undefined && topicId(narrowed) === topicId(topic);
    const label = topicLabel(topic);
    return h(
      "div",
      { class: "strip-topic", "data-current": current },
      h(
        "button",
        {
          class: "strip-main",
          type: "button",
          "aria-pressed": String(current),
          testid: `view-${topicId(topic)}`,
          "data-count": docs.length,
          "data-ready": String(ready),
          on: { click: () => this.narrow(current ? undefined : topic) },
        },
        ready ? null : h("span", { class: "spinner" }),
        h("span", {}, label),
        h("span", { class: "strip-count" }, count(docs.length)),
      ),
      h(
        "button",
        {
          class: "strip-remove",
          type: "button",
          "aria-label": `Stop following ${label}`,
          testid: `unfollow-${topicId(topic)}`,
          on: { click: () => this.library.unfollow(topic) },
        },
        icon("close"),
      ),
    );
  }
}
