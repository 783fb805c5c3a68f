/** The text in place of an empty list: nothing is followed, loaded, or matches; or rows without text while it loads. */

import { fill, h, show } from "../../dom";
import { count } from "../../format";
import { icon } from "../../icons";
import type { Followed, Library } from "../../library";
import { phaseText } from "../../phases";
import { ALL, expectedSize, SUGGESTIONS, topicLabel, TOTAL, type Topic } from "../../topics";

/** The state of a list and its session, which decides about the text. */
export interface ListState {
  /** The number of packages in the list; `undefined` before it is known. */
  listed: number | undefined;
  filtered: boolean;
  /** The session's phase; `undefined` before it is known. */
  phase: string | undefined;
}

/** The words and actions of one list. */
export interface EmptyListOptions {
  testid: string;
  /** The sentence if the filter hides every package. */
  noMatch: string;
  clearFilter(): void;
  openFollow(): void;
}

/** The element that is shown if a list is empty. */
export class EmptyList {
  readonly element: HTMLElement;
  private state = "";

  constructor(
    private readonly library: Library,
    private readonly options: EmptyListOptions,
  ) {
    this.element = h("div", { class: "empty", testid: options.testid, hidden: true });
  }

  /** Shows the text for this state, or nothing if the list has packages. Returns whether there is a text. */
  update(now: ListState): boolean {
    const state = now.listed ? "" : this.stateOf(now, this.library.topics());
    show(this.element, state !== "");
    if (state !== this.state) {
      this.state = state;
      this.element.dataset.state = state;
      fill(this.element, ...this.describe(state));
    }
    return state !== "";
  }

  /** Shows no text, because something else stands in the place of the list. */
  hide(): false {
    show(this.element, false);
    return false;
  }

  private stateOf({ listed, filtered, phase = "opening" }: ListState, topics: readonly Followed[]): string {
    if (topics.length === 0) return phase === "avion" ? "nothing-avion" : "nothing";
    if (listed === undefined) return "loading";
    if (topics.some(({ docs }) => docs.length > 0) && filtered) return "filtered";
    if (topics.every(({ ready }) => ready)) return filtered ? "filtered" : "none";
    if (topics.some(({ told }) => !told)) return "loading";
    return phase === "avion" || phase === "offline" || phase === "paused" ? `waiting-${phase}` : "loading";
  }

  private describe(state: string): HTMLElement[] {
    if (state === "") return [];
    if (state === "loading") return [skeleton()];
    if (state === "nothing" || state === "nothing-avion") return this.describeNothing(state === "nothing-avion");
    if (state === "filtered") {
      const clear = h("button", { class: "button", type: "button", testid: `${this.options.testid}-clear` }, "Clear the filter");
      clear.addEventListener("click", () => this.options.clearFilter());
      return [emblem("search"), h("h2", {}, "Nothing matches"), h("p", {}, this.options.noMatch), clear];
    }
    if (state === "none") {
      return [emblem("all"), h("h2", {}, "No package here"), h("p", {}, "The server has no package that you follow. A new one will appear by itself.")];
    }
    const phase = phaseText(state.slice("waiting-".length));
    return [
      emblem(phase.icon),
      h("h2", {}, "Not on this device yet"),
      h("p", {}, `${phase.word}: your packages are loaded as soon as the server answers, and then stay on this device.`),
    ];
  }

  private describeNothing(avion: boolean): HTMLElement[] {
    const suggest = (topic: Topic): HTMLElement =>
      h(
        "button",
        { class: "chip", type: "button", "data-state": "off", on: { click: () => this.library.follow(topic) } },
        h("span", { class: "chip-mark" }, icon("plus")),
        h("span", { class: "chip-name" }, topicLabel(topic)),
        h("span", { class: "chip-size" }, count(expectedSize(topic) ?? 0)),
      );
    const everything = h(
      "button",
      { class: "button primary", type: "button", on: { click: () => this.library.follow(ALL) } },
      `Follow all ${count(TOTAL)} packages`,
    );
    const more = h("button", { class: "button phone-only", type: "button", on: { click: () => this.options.openFollow() } }, "Choose sections and tags");
    return [
      emblem("follow"),
      h("h2", {}, "Follow something"),
      h(
        "p",
        {},
        avion
          ? "You follow nothing on this device. Packages that you choose now are loaded once you are in synced mode."
          : "Packages that you follow are fetched once, stored encrypted on this device, and kept up to date.",
      ),
      h("div", { class: "chips center" }, SUGGESTIONS.map(suggest)),
      h("div", { class: "empty-actions" }, more, everything),
    ];
  }
}

function emblem(name: Parameters<typeof icon>[0]): HTMLElement {
  return h("div", { class: "emblem" }, icon(name));
}

function skeleton(): HTMLElement {
  const rows = Array.from({ length: 9 }, () =>
    h("div", { class: "skeleton-row" }, h("span", { class: "bone bone-name" }), h("span", { class: "bone bone-text" })),
  );
  return h("div", { class: "skeleton", role: "status", "aria-label": "Loading packages" }, rows);
}
