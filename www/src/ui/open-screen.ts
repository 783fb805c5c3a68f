/** The first screen: an introduction, the passphrase, the mode, and the errors of opening. */

import { fill, h, setText, show } from "../dom";
import { icon, logo, type IconName } from "../icons";
import { problemOf, REMEDY_LABEL, type Remedy } from "../problems";
import { isEndpoint, queryOfOther } from "../server-address";
import type { Adapter, Mode } from "../session";
import { TOTAL } from "../topics";
import { count } from "../format";

/** The visitor's input. */
export interface Opening {
  passphrase: string;
  mode: Mode;
  /** An address, or the page's adapter object. */
  server: string | Adapter;
  token: string | undefined;
}

/** The screen's needs from the page. */
export interface OpenScreenOptions {
  /** The address to propose, or the adapter object instead. */
  server: string | Adapter;
  mode: Mode;
  /** Shown above the form: the reason why the visitor is here again. */
  notice?: string | undefined;
  /** Resolves once the session is open; a rejection is shown. */
  open(opening: Opening): Promise<void>;
  /** Asks for a confirmation, then erases the store of this device. Resolves with true if it was done. */
  erase(): Promise<boolean>;
}

const DEMO_PASSPHRASE = "any port in a storm";

const MODES: { mode: Mode; icon: IconName; title: string; text: string }[] = [
  { mode: "synced", icon: "sync", title: "Synced", text: "For every day: live from the server, encrypted on this device." },
  { mode: "incognito", icon: "incognito", title: "Incognito", text: "For a borrowed computer: nothing is written to it." },
  { mode: "avion", icon: "avion", title: "Avion", text: "Without a network: opens the data on this device." },
];

/** Makes the screen. */
export function openScreen(options: OpenScreenOptions): HTMLElement {
  const form = new OpenForm(options);
  return h(
    "div",
    { class: "open-screen" },
    h(
      "header",
      { class: "hero" },
      h("div", { class: "hero-brand" }, logo(), h("span", {}, "Escale")),
      h(
        "div",
        { class: "hero-text" },
        h("h1", {}, "Your data, at every port of call."),
        h(
          "p",
          {},
          "Escale lets a web application work without a network. The data that you follow is stored on this device, encrypted with your passphrase. ",
          `Follow some of ${count(TOTAL)} real Debian packages, stop the server, reload, and come back: only changes are fetched.`,
        ),
      ),
      h(
        "ul",
        { class: "hero-facts" },
        fact("lock", "AES-256-GCM at rest"),
        fact("device", "Opens with no server"),
        fact("live", "Live when there is one"),
      ),
    ),
    h("main", { class: "open-main" }, form.element),
  );
}

function fact(name: IconName, text: string): HTMLElement {
  return h("li", {}, icon(name), text);
}

class OpenForm {
  readonly element: HTMLFormElement;
  private readonly notice: HTMLElement;
  private readonly passphrase: HTMLInputElement;
  private readonly server: HTMLInputElement;
  private readonly token: HTMLInputElement;
  private readonly error = h("div", { class: "problem", role: "alert", testid: "error", hidden: true });
  private readonly submit = h("button", { class: "button primary wide", type: "submit", testid: "open" }, "Open");
  private readonly deriving: HTMLElement;
  private readonly modes = new Map<Mode, HTMLInputElement>();
  private busy = false;

  constructor(private readonly options: OpenScreenOptions) {
    this.notice = h("p", { class: "notice", role: "status", hidden: !options.notice }, icon("check"), options.notice);
    this.passphrase = h("input", {
      id: "passphrase",
      type: "password",
      testid: "passphrase",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      placeholder: "Your passphrase",
      "aria-describedby": "passphrase-hint",
      on: { input: () => show(this.error, false) },
    });
    this.server = h("input", { id: "server", type: "url", spellcheck: "false", testid: "server" });
    if (typeof options.server === "string") this.server.value = options.server;
    this.token = h("input", { id: "token", type: "password", autocomplete: "off", placeholder: "None", testid: "token" });
    this.deriving = h(
      "div",
      { class: "deriving", role: "status", hidden: true, testid: "deriving" },
      h("div", { class: "sweep" }),
      h("p", {}, "Deriving the key from your passphrase: 600,000 rounds, on this device only."),
    );
    this.element = h(
      "form",
      {
        class: "open-form",
        novalidate: true,
        on: {
          submit: (event) => {
            event.preventDefault();
            void this.run();
          },
        },
      },
      h("h2", {}, "Open the session"),
      this.notice,
      this.error,
      this.passphraseField(),
      this.modeField(),
      this.advanced(),
      this.submit,
      this.deriving,
      h(
        "p",
        { class: "fine" },
        "The passphrase never leaves this page. Developers: once open, the console has ",
        h("code", {}, "window.session"),
        ".",
      ),
      h(
        "p",
        { class: "fine" },
        h("a", { class: "plain-link", href: `./accounts/${queryOfOther(location, 1)}`, testid: "accounts-link" }, "The demonstration of accounts"),
      ),
    );
  }

  private passphraseField(): HTMLElement {
    const reveal = h(
      "button",
      { class: "icon-button", type: "button", "aria-label": "Show the passphrase", "aria-pressed": "false", testid: "reveal" },
      icon("eye"),
    );
    reveal.addEventListener("click", () => {
      const shown = this.passphrase.type === "password";
      this.passphrase.type = shown ? "text" : "password";
      reveal.setAttribute("aria-pressed", String(shown));
      reveal.setAttribute("aria-label", shown ? "Hide the passphrase" : "Show the passphrase");
      fill(reveal, icon(shown ? "eyeOff" : "eye"));
    });
    const suggestion = h("button", { class: "suggestion", type: "button", testid: "suggestion" }, DEMO_PASSPHRASE);
    suggestion.addEventListener("click", () => {
      this.passphrase.value = DEMO_PASSPHRASE;
      show(this.error, false);
      this.submit.focus();
    });
    return h(
      "div",
      { class: "field" },
      h("label", { for: "passphrase" }, "Passphrase"),
      h("div", { class: "input-row" }, this.passphrase, reveal),
      h("p", { class: "hint", id: "passphrase-hint" }, "Just looking? Use ", suggestion, " - the first opening sets it."),
    );
  }

  private modeField(): HTMLElement {
    return h(
      "fieldset",
      { class: "field modes" },
      h("legend", {}, "Mode"),
      MODES.map(({ mode, icon: name, title, text }) => {
        const radio = h("input", { type: "radio", name: "mode", value: mode, class: "sr-only", id: `mode-${mode}` });
        radio.checked = mode === this.options.mode;
        this.modes.set(mode, radio);
        return h(
          "label",
          { class: "mode", testid: `mode-${mode}`, for: `mode-${mode}` },
          radio,
          icon(name),
          h("span", { class: "mode-text" }, h("strong", {}, title), h("span", {}, text)),
          h("span", { class: "mode-check" }, icon("check")),
        );
      }),
    );
  }

  private advanced(): HTMLElement {
    if (this.adapter) {
      return h("p", { class: "hint", testid: "adapter" }, "The server is an adapter object of this page, ", h("code", {}, "window.escaleAdapter"), ".");
    }
    return h(
      "details",
      { class: "advanced" },
      h("summary", {}, icon("down"), "Server"),
      h(
        "div",
        { class: "advanced-fields" },
        h("div", { class: "field" }, h("label", { for: "server" }, "Address"), this.server),
        h("div", { class: "field" }, h("label", { for: "token" }, "Access token, if the server requires one"), this.token),
      ),
    );
  }

  private get adapter(): Adapter | undefined {
    return typeof this.options.server === "string" ? undefined : this.options.server;
  }

  private get mode(): Mode {
    for (const [mode, radio] of this.modes) if (radio.checked) return mode;
    return "synced";
  }

  private async run(): Promise<void> {
    if (this.busy) return;
    if (this.passphrase.value === "") return this.invalid("Type a passphrase, or use the suggested one.", this.passphrase);
    if (!this.adapter && !isEndpoint(this.server.value)) {
      return this.invalid("The server's address must begin with http:// or https://.", this.server);
    }
    this.setBusy(true);
    try {
      await this.options.open({
        passphrase: this.passphrase.value,
        mode: this.mode,
        server: this.adapter ?? this.server.value,
        token: this.token.value === "" ? undefined : this.token.value,
      });
    } catch (error) {
      this.setBusy(false);
      this.showProblem(error);
    }
  }

  private setBusy(busy: boolean): void {
    this.busy = busy;
    this.submit.disabled = busy;
    setText(this.submit, busy ? "Opening" : "Open");
    show(this.deriving, busy);
    if (busy) {
      show(this.error, false);
      show(this.notice, false);
    }
    this.element.setAttribute("aria-busy", String(busy));
  }

  private invalid(text: string, field: HTMLInputElement): void {
    delete this.error.dataset.code;
    fill(this.error, icon("alert"), h("div", {}, h("p", {}, text)));
    this.showError();
    const details = field.closest("details");
    if (details) details.open = true;
    field.focus({ preventScroll: field === this.passphrase });
  }

  private showProblem(error: unknown): void {
    const problem = problemOf(error);
    this.error.dataset.code = problem.code;
    fill(
      this.error,
      icon("alert"),
      h(
        "div",
        {},
        h("strong", {}, problem.title),
        h("p", {}, problem.text),
        h(
          "div",
          { class: "problem-actions" },
          problem.remedies.map((remedy) =>
            h(
              "button",
              {
                class: remedy === "erase" ? "button small danger" : "button small",
                type: "button",
                testid: `remedy-${remedy}`,
                on: { click: () => void this.apply(remedy) },
              },
              REMEDY_LABEL[remedy],
            ),
          ),
          h("code", { class: "code" }, problem.code),
        ),
      ),
    );
    this.showError();
    if (problem.code === "wrong_passphrase") {
      this.passphrase.focus({ preventScroll: true });
      this.passphrase.select();
    }
  }

  private showError(): void {
    show(this.notice, false);
    show(this.error, true);
    this.error.scrollIntoView({ block: "nearest" });
  }

  private async apply(remedy: Remedy): Promise<void> {
    if (remedy === "reload") return location.reload();
    if (remedy === "erase") {
      if (!(await this.options.erase())) return;
      const synced = this.modes.get("synced");
      if (synced) synced.checked = true;
      fill(this.notice, icon("check"), "Erased: this device holds nothing of the session any more.");
      show(this.error, false);
      show(this.notice, true);
      return this.passphrase.focus();
    }
    const mode = remedy === "open-synced" ? "synced" : remedy === "open-incognito" ? "incognito" : undefined;
    const radio = mode && this.modes.get(mode);
    if (radio) radio.checked = true;
    await this.run();
  }
}
