/** The panel to choose topics: chips of sections and tags with their sizes, known before anything is loaded. */

import { fill, h, setText, show } from "../dom";
import { count } from "../format";
import { icon } from "../icons";
import type { Library } from "../library";
import { ALL, SECTIONS, TAGS, topicId, topicLabel, TOTAL, type Choice, type Topic } from "../topics";

interface Chip {
  element: HTMLButtonElement;
  mark: HTMLElement;
  size: HTMLElement;
  choice: Choice;
}

/** The panel. */
export class FollowPanel {
  readonly element: HTMLElement;
  private readonly close: HTMLButtonElement;
  private readonly chips: Chip[] = [];
  private readonly summary = h("span", { class: "panel-count" });
  private readonly none = h("p", { class: "panel-none", hidden: true });
  private readonly groups: { element: HTMLElement; chips: Chip[] }[] = [];

  constructor(
    private readonly library: Library,
    close: () => void,
  ) {
    this.close = h(
      "button",
      { class: "icon-button panel-close", type: "button", "aria-label": "Close", testid: "follow-close", on: { click: close } },
      icon("close"),
    );
    const search = h("input", {
      type: "search",
      class: "search-input",
      placeholder: "Search sections and tags",
      "aria-label": "Search sections and tags",
      autocomplete: "off",
      spellcheck: "false",
      testid: "follow-search",
      on: { input: () => this.search(search.value) },
    });
    this.element = h(
      "aside",
      { class: "follow-panel", id: "follow-panel", "aria-label": "Choose what to follow" },
      h(
        "div",
        { class: "panel-head" },
        h("h2", {}, "Follow"),
        this.summary,
        this.close,
      ),
      h("div", { class: "search-box" }, icon("search"), search),
      h("div", { class: "panel-scroll" }, this.everything(), this.group("Sections", SECTIONS), this.group("Tags", TAGS), this.none),
    );
  }

  /** Takes the focus, for a phone that shows the panel over the list. */
  focus(): void {
    this.close.focus();
  }

  /** Shows the topics that are followed now. */
  update(): void {
    const followed = this.library.topics().length;
    setText(this.summary, followed === 0 ? "" : `${count(followed)} followed`);
    for (const chip of this.chips) this.updateChip(chip);
  }

  private updateChip({ element, mark, size, choice }: Chip): void {
    const followed = this.library.topic(choice.topic);
    const state = !followed ? "off" : followed.ready ? "on" : "loading";
    setText(size, count(followed?.ready ? followed.docs.length : choice.size));
    if (element.dataset.state === state) return;
    element.dataset.state = state;
    element.setAttribute("aria-pressed", String(followed !== undefined));
    fill(mark, state === "loading" ? h("span", { class: "spinner" }) : icon(state === "on" ? "check" : "plus"));
  }

  private everything(): HTMLElement {
    const chip = this.chip({ topic: ALL, size: TOTAL }, "everything");
    chip.element.dataset.testid = "follow-all";
    fill(
      chip.element,
      icon("all"),
      h("span", { class: "everything-text" }, h("strong", {}, "Everything"), h("span", {}, "all packages")),
      chip.size,
      chip.mark,
    );
    return chip.element;
  }

  private group(title: string, choices: Choice[]): HTMLElement {
    const chips = choices.map((choice) => this.chip(choice, "chip"));
    const element = h(
      "section",
      { class: "chip-group" },
      h("h3", {}, title),
      h("div", { class: "chips" }, chips.map((chip) => chip.element)),
    );
    this.groups.push({ element, chips });
    return element;
  }

  private chip(choice: Choice, kind: string): Chip {
    const mark = h("span", { class: "chip-mark" });
    const size = h("span", { class: "chip-size" }, count(choice.size));
    const element = h(
      "button",
      {
        class: kind,
        type: "button",
        testid: `follow-${topicId(choice.topic)}`,
        on: { click: () => this.toggle(choice.topic) },
      },
      mark,
      h("span", { class: "chip-name" }, topicLabel(choice.topic)),
      size,
    );
    const chip = { element, mark, size, choice };
    this.chips.push(chip);
    return chip;
  }

  private toggle(topic: Topic): void {
    if (this.library.topic(topic)) this.library.unfollow(topic);
    else this.library.follow(topic);
  }

  private search(text: string): void {
    const words = text.trim().toLowerCase();
    let found = 0;
    for (const group of this.groups) {
      let here = 0;
      for (const { element, choice } of group.chips) {
        const match = choice.topic.name.includes(words);
        show(element, match);
        if (match) here += 1;
      }
      show(group.element, here > 0);
      found += here;
    }
    setText(this.none, `No section or frequent tag is called "${text.trim()}".`);
    show(this.none, found === 0);
  }
}
