/** The banners over the lists: the field to unlock, a restriction, changes that the server refused, and errors of no call. */

import type { RefusedOperation } from "escale";
import { fill, h, show } from "../dom";
import { icon } from "../icons";
import { ProblemBox, secretField } from "./fields";
import { problemOf, problemOfCode } from "./problems";
import { RestrictionBanner } from "./restriction-banner";
import type { Session, StatusValue } from "./session";

/** Errors that the status line says already, or that end the session. */
const SAID: ReadonlySet<string> = new Set(["offline", "timeout", "passphrase_changed", "device_revoked", "account_closed"]);

/** The banners. `update` draws them. */
export class Banners {
  readonly element = h("div", { class: "banners" });
  private readonly problem = new ProblemBox();
  private readonly restricted = new RestrictionBanner(() => void this.session.retryBlocked());
  private readonly refused = h("ul", { class: "refused-list", testid: "refused", hidden: true });
  private readonly unlock: HTMLElement;
  private readonly secret = secretField({ id: "unlock", label: "New passphrase", autocomplete: "current-password" });
  private readonly unlockProblem = new ProblemBox();
  private readonly unlockButton = h("button", { class: "button primary", type: "submit", testid: "unlock-go" }, "Unlock");
  /** The last error that an unlocking has answered. It stays in the status until another one replaces it. */
  private answered: StatusValue["error"] = null;

  constructor(private readonly session: Session) {
    const { title, text } = problemOfCode("passphrase_changed");
    const form = h(
      "form",
      { class: "unlock-form", novalidate: true },
      this.secret.element,
      this.unlockButton,
      this.unlockProblem.element,
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.submit();
    });
    this.unlock = h(
      "section",
      { class: "unlock", "aria-labelledby": "unlock-title", testid: "unlock-banner", hidden: true },
      icon("key"),
      h("div", {}, h("h2", { id: "unlock-title" }, title), h("p", { role: "alert" }, text), form),
    );
    fill(this.element, this.unlock, this.restricted.element, this.problem.element, this.refused);
  }

  /** Shows the errors of a status. */
  update({ error, restriction }: StatusValue): void {
    this.restricted.restrict(restriction);
    if (error?.code === "passphrase_changed" && error !== this.answered) this.ask();
    if (!error || SAID.has(error.code)) this.problem.clear();
    else this.problem.show({ ...problemOf(error, "inside"), remedies: [] });
  }

  /** Asks for the new passphrase. */
  ask(): void {
    const wasShown = this.isLockedOut;
    show(this.unlock, true);
    if (!wasShown) this.secret.input.focus({ preventScroll: true });
  }

  /** Whether the session waits for the account's new passphrase. */
  get isLockedOut(): boolean {
    return !this.unlock.hidden;
  }

  /** Shows the changes that the server refused for good. */
  updateRefused(refused: readonly RefusedOperation[]): void {
    // The banner of the restriction speaks for those that it has stopped.
    const others = refused.filter(({ error }) => error.code !== "blocked");
    this.restricted.hold(refused.length - others.length);
    show(this.refused, others.length > 0);
    fill(this.refused, others.map((entry) => row(entry)));
  }

  private async submit(): Promise<void> {
    const { input } = this.secret;
    this.unlockProblem.clear();
    if (input.value === "") return this.unlockProblem.invalid("Type the new passphrase.", input);
    this.unlockButton.disabled = true;
    fill(this.unlockButton, h("span", { class: "spinner" }), "Unlock");
    try {
      const { error } = this.session.status;
      await this.session.unlock(input.value);
      this.answered = error;
      input.value = "";
      show(this.unlock, false);
    } catch (error) {
      this.unlockProblem.show({ ...problemOf(error, "inside"), remedies: [] });
      input.focus();
    } finally {
      this.unlockButton.disabled = false;
      fill(this.unlockButton, "Unlock");
    }
  }
}

function row(entry: RefusedOperation): HTMLElement {
  const { code, title, text } = problemOf(entry.error, "inside");
  return h(
    "li",
    { class: "problem", "data-code": code },
    icon("alert"),
    h(
      "div",
      {},
      h("strong", {}, `The server refused a change: ${title}`),
      h("p", {}, text),
      h(
        "div",
        { class: "problem-actions" },
        h("button", { class: "button small", type: "button", testid: "refused-retry", on: { click: () => void entry.retry() } }, "Try again"),
        h("button", { class: "button small", type: "button", testid: "refused-discard", on: { click: () => void entry.discard() } }, "Discard"),
        h("code", { class: "code" }, code),
      ),
    ),
  );
}
