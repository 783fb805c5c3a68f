/** The common part of the forms that lead into an account: login, server and device, the work, the refusal. */

import { accounts } from "escale/accounts";
import { fill, h, setText, show } from "../dom";
import { icon } from "../icons";
import { isEndpoint } from "../server-address";
import { missing, ProblemBox, textField, type Field, type Mistake } from "./fields";
import { problemOf, type Problem, type Remedy, type Where } from "./problems";
import { eraseAccount, type Draft } from "./session";

/** The forms, by name. */
export type FormName = "sign-in" | "sign-up" | "recover";

/** The needs of a form from the page. */
export interface FormOptions {
  draft: Draft;
  /** The reason why the visitor is here again. */
  notice?: string | undefined;
  problem?: Problem | undefined;
  /** Opens the account. A rejection is shown. */
  enter(passphrase: string, mode?: "synced" | "avion"): Promise<void>;
  /** Shows another form. */
  go(form: FormName): void;
}

/** The texts of a form. */
export interface FormTexts {
  where: Where;
  title: string;
  lead: string;
  submit: string;
  /** The button's text while the form works. */
  busy: string;
  /** The work in progress, in a sentence. */
  working: string;
}

/** A form. A subclass calls `build` at the end of its constructor. */
export abstract class EntryForm {
  readonly element = h("form", { class: "open-form", novalidate: true });
  protected readonly login: Field;
  protected readonly problem: ProblemBox;
  private readonly server: Field;
  private readonly device: Field;
  private readonly notice: HTMLElement;
  private readonly button: HTMLButtonElement;
  private readonly working: HTMLElement;
  private readonly advanced = h("details", { class: "advanced" });
  private isBusy = false;

  constructor(
    protected readonly options: FormOptions,
    private readonly texts: FormTexts,
  ) {
    const { draft, notice } = options;
    this.login = textField({ id: "login", label: "Login", value: draft.login, autocomplete: "username" });
    this.server = textField({ id: "server", label: "Server", value: draft.server }, "url");
    this.device = textField({
      id: "device",
      label: "Name of this device",
      value: draft.device,
      hint: "The list of your devices shows it.",
    });
    this.notice = h("p", { class: "notice", role: "status", testid: "notice", hidden: !notice }, icon("check"), h("span", {}, notice));
    this.problem = new ProblemBox((remedy) => void this.apply(remedy));
    this.button = h("button", { class: "button primary wide", type: "submit", testid: "submit" }, texts.submit);
    this.working = h(
      "div",
      { class: "deriving", role: "status", hidden: true, testid: "working" },
      h("div", { class: "sweep" }),
      h("p", {}, texts.working),
    );
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.run();
    });
  }

  /** Puts the cursor into the first field that is empty. */
  focus(): void {
    const inputs = [...this.element.querySelectorAll<HTMLInputElement>(":scope > .field input")];
    (inputs.find(({ value }) => value === "") ?? inputs[0])?.focus({ preventScroll: true });
  }

  /** Fills the form. */
  protected build(fields: readonly Node[], links: readonly Node[], advanced: readonly Field[] = []): void {
    const { title, lead } = this.texts;
    fill(
      this.advanced,
      h("summary", {}, icon("down"), "Server and device"),
      h("div", { class: "advanced-fields" }, [this.server, this.device, ...advanced].map(({ element }) => element)),
    );
    fill(
      this.element,
      h("h2", {}, title),
      h("p", { class: "form-lead" }, lead),
      this.notice,
      this.problem.element,
      this.login.element,
      fields,
      this.advanced,
      this.button,
      this.working,
      h("p", { class: "form-links" }, links),
    );
    if (this.options.problem) this.problem.show(this.options.problem);
  }

  /** The first mistake in the fields of the subclass: a sentence, and the field. */
  protected abstract mistake(): Mistake | undefined;

  /** Asks the server, or opens the device. */
  protected abstract send(): Promise<void>;

  /** The passphrase that opens the account. */
  protected abstract get passphrase(): string;

  protected async run(send: () => Promise<void> = () => this.send()): Promise<void> {
    if (this.isBusy) return;
    this.problem.clear();
    const { draft } = this.options;
    Object.assign(draft, { login: accounts.loginOf(this.login.input.value.trim()), server: this.server.input.value.trim(), device: this.device.input.value.trim() });
    const wrong = missing(this.login, "Type your login.") ?? this.mistake();
    if (wrong) return this.problem.invalid(...wrong);
    if (!isEndpoint(draft.server)) {
      return this.problem.invalid("The server's address must begin with http:// or https://.", this.server.input);
    }
    this.setBusy(true);
    try {
      await send();
    } catch (error) {
      this.setBusy(false);
      const problem = problemOf(error, this.texts.where);
      // The field for it is among the rarer ones.
      if (problem.code.startsWith("invitation_")) this.advanced.open = true;
      this.problem.show(problem);
    }
  }

  private setBusy(isBusy: boolean): void {
    this.isBusy = isBusy;
    this.button.disabled = isBusy;
    setText(this.button, isBusy ? this.texts.busy : this.texts.submit);
    show(this.working, isBusy);
    if (isBusy) show(this.notice, false);
    this.element.setAttribute("aria-busy", String(isBusy));
  }

  private async apply(remedy: Remedy): Promise<void> {
    if (remedy === "reload") return location.reload();
    if (remedy === "retry") return this.run();
    if (remedy === "sign-in" || remedy === "recover") return this.options.go(remedy);
    if (remedy === "read") return this.run(() => this.options.enter(this.passphrase, "avion"));
    await this.run(async () => {
      await eraseAccount(this.options.draft.login);
      await this.send();
    });
  }
}
