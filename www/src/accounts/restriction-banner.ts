/** The banner of a restriction: its reason, the changes that wait, and the next step. */

import { fill, h, setText, show } from "../dom";
import { plural } from "../format";
import { icon } from "../icons";

const TITLES = ["The restriction has ended", "You may read, but not write", "You may neither read nor write"] as const;

const TEXTS = [
  "An administrator has ended it. Your account works as before.",
  "An administrator has restricted your account. All that you have stays on this device, and what you write waits here. Ask an administrator to end it.",
  "An administrator has restricted your account. You can still read what is on this device, nothing new arrives, and what you write waits here. Ask an administrator to end it.",
] as const;

/** The banner. It is there while the account is restricted, or changes wait that a restriction had stopped. */
export class RestrictionBanner {
  readonly element: HTMLElement;
  private readonly title = h("h2", { id: "restriction-title" });
  private readonly text = h("p", { role: "alert" });
  private readonly waiting = h("p", { testid: "blocked-count" });
  private readonly send: HTMLButtonElement;
  private level = 0;
  private held = 0;

  /** `send` sends the changes that wait. */
  constructor(send: () => void) {
    this.send = h("button", { class: "button primary", type: "button", testid: "send-blocked", on: { click: send } }, "Send them now");
    this.element = h(
      "section",
      { class: "unlock", "aria-labelledby": "restriction-title", testid: "restriction", hidden: true },
      icon("alert"),
      h("div", {}, this.title, this.text, this.waiting, this.send),
    );
  }

  /** The level of the restriction; 0 for none. */
  restrict(level: number): void {
    this.level = level;
    this.draw();
  }

  /** How many changes the server has blocked. */
  hold(count: number): void {
    this.held = count;
    this.draw();
  }

  private draw(): void {
    const level = Math.min(this.level, 2);
    this.element.dataset.level = String(level);
    setText(this.title, TITLES[level] ?? "");
    setText(this.text, TEXTS[level] ?? "");
    show(this.waiting, this.held > 0);
    setText(this.waiting, `${plural(this.held, "change")} of yours ${this.held === 1 ? "waits" : "wait"} on this device.`);
    show(this.send, level === 0 && this.held > 0);
    fill(this.send, this.held === 1 ? "Send it now" : "Send them now");
    show(this.element, level > 0 || this.held > 0);
  }
}
