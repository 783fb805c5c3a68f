/** The screen without an account: an introduction, and one of the forms that lead into an account. */

import { fill, h } from "../dom";
import { icon, logo, type IconName } from "../icons";
import { queryOfOther } from "../server-address";
import type { EntryForm, FormName, FormOptions } from "./entry-form";
import { makeForm } from "./forms";
import { problemOf, type Problem } from "./problems";
import { codeForm } from "./recovery-code";

/** The needs of the screen from the page. */
export interface EntryScreenOptions extends Pick<FormOptions, "draft" | "enter"> {
  form: FormName;
  notice?: string | undefined;
  problem?: Problem | undefined;
}

const TABS: readonly { form: FormName; label: string }[] = [
  { form: "sign-in", label: "Sign in" },
  { form: "sign-up", label: "Sign up" },
];

/** The screen. */
export class EntryScreen {
  readonly element: HTMLElement;
  private readonly main = h("main", { class: "open-main" });
  private form: EntryForm | undefined;
  /** Whether the form has given way to the recovery code. */
  private isCodeShown = false;

  constructor(private readonly options: EntryScreenOptions) {
    this.element = h("div", { class: "open-screen" }, hero(), this.main);
    this.show(options.form, options.notice, options.problem);
  }

  /** Puts the cursor into the first empty field. */
  focus(): void {
    this.form?.focus();
  }

  private show(name: FormName, notice?: string, problem?: Problem): void {
    const { draft } = this.options;
    this.isCodeShown = false;
    const enter: FormOptions["enter"] = (passphrase, mode) => this.enter(passphrase, mode);
    const form = (this.form = makeForm(name, { draft, enter, notice, problem, go: (other) => this.show(other) }, (code) => this.showCode(code)));
    // A recovery belongs to signing in.
    const current = name === "sign-up" ? "sign-up" : "sign-in";
    const tabs = TABS.map(({ form: tab, label }) =>
      h(
        "button",
        { class: "tab", type: "button", "aria-current": tab === current && "true", testid: `tab-${tab}`, on: { click: () => this.show(tab) } },
        label,
      ),
    );
    fill(this.main, h("div", { class: "entry" }, h("nav", { class: "tabs", "aria-label": "Account" }, tabs), form.element));
    form.focus();
  }

  private async enter(passphrase: string, mode?: "synced" | "avion"): Promise<void> {
    try {
      await this.options.enter(passphrase, mode);
    } catch (error) {
      if (!this.isCodeShown) throw error;
      // The account is made, and its form is gone: it opens by a sign-in.
      this.show("sign-in", undefined, problemOf(error, "sign-in"));
    }
  }

  /** Shows the code of a new account. Resolves once the visitor has kept it. */
  private async showCode(code: string): Promise<void> {
    await new Promise<void>((kept) => {
      const form = codeForm(code, kept);
      this.isCodeShown = true;
      fill(this.main, h("div", { class: "entry" }, form));
      form.querySelector("h2")?.focus();
    });
  }
}

function hero(): HTMLElement {
  return h(
    "header",
    { class: "hero" },
    h("div", { class: "hero-brand" }, logo(), h("span", {}, "Escale")),
    h(
      "div",
      { class: "hero-text" },
      h("h1", {}, "One account, on every device."),
      h(
        "p",
        {},
        "Your key is made on this device, and the server never sees your passphrase. ",
        "The board reaches every member, and your own list reaches you alone. Both open with no network.",
      ),
      h("p", { class: "hero-link" }, h("a", { href: `../${queryOfOther(location, -1)}`, testid: "packages-link" }, "The other demonstration: 20,000 packages")),
    ),
    h(
      "ul",
      { class: "hero-facts" },
      fact("key", "The passphrase stays here"),
      fact("device", "Opens with no server"),
      fact("lock", "Sign out any device"),
    ),
  );
}

function fact(name: IconName, text: string): HTMLElement {
  return h("li", {}, icon(name), text);
}
