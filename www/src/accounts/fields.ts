/** The parts of this page's forms: labelled fields, a passphrase with an eye, a problem with its remedies. */

import { fill, h, show } from "../dom";
import { icon } from "../icons";
import { REMEDY_LABEL, type Problem, type Remedy } from "./problems";

/** Characters of a new passphrase, at least. */
export const CHARS_LEAST = 8;

/** A mistake in a field: a sentence, and the field. */
export type Mistake = readonly [string, HTMLInputElement];

/** The mistake of a new passphrase, if it has one. */
export function tooShort({ input }: Field): Mistake | undefined {
  if (input.value.length >= CHARS_LEAST) return undefined;
  return [`Use at least ${CHARS_LEAST} characters: several words are easiest to remember.`, input];
}

/** The mistake of a field that is empty. */
export function missing({ input }: Field, sentence: string): Mistake | undefined {
  return input.value.trim() === "" ? [sentence, input] : undefined;
}

/** A field with its label, for a form. */
export interface Field {
  element: HTMLElement;
  input: HTMLInputElement;
}

/** The texts and attributes of a field. The id is the name for the end-to-end tests as well. */
export interface FieldOptions {
  id: string;
  label: string;
  hint?: string;
  value?: string;
  /** The hint for password managers. */
  autocomplete?: string;
  placeholder?: string;
  /** A monospaced text, such as a code. */
  isCode?: boolean;
}

/** A field of text. */
export function textField(options: FieldOptions, type: "text" | "url" = "text"): Field {
  const input = makeInput(options, type);
  return { input, element: labelled(options, input, input) };
}

/** A field of a passphrase, hidden until the visitor shows it. */
export function secretField(options: FieldOptions): Field {
  const input = makeInput(options, "password");
  const reveal = h(
    "button",
    { class: "icon-button", type: "button", "aria-label": "Show the passphrase", "aria-pressed": "false", testid: `${options.id}-reveal` },
    icon("eye"),
  );
  reveal.addEventListener("click", () => {
    const shown = input.type === "password";
    input.type = shown ? "text" : "password";
    reveal.setAttribute("aria-pressed", String(shown));
    reveal.setAttribute("aria-label", shown ? "Hide the passphrase" : "Show the passphrase");
    fill(reveal, icon(shown ? "eyeOff" : "eye"));
  });
  return { input, element: labelled(options, input, h("div", { class: "input-row" }, input, reveal)) };
}

/** A box to tick. */
export function tickField(id: string, label: string): Field {
  const input = h("input", { type: "checkbox", id, testid: id });
  return { input, element: h("label", { class: "check", for: id }, input, h("span", {}, label)) };
}

function makeInput({ id, hint, value, autocomplete = "off", placeholder, isCode }: FieldOptions, type: string): HTMLInputElement {
  const input = h("input", {
    id,
    type,
    testid: id,
    class: isCode && "code-input",
    autocomplete,
    placeholder,
    autocapitalize: "off",
    spellcheck: "false",
    "aria-describedby": hint !== undefined && `${id}-hint`,
  });
  input.value = value ?? "";
  return input;
}

function labelled({ id, label, hint }: FieldOptions, input: HTMLInputElement, row: HTMLElement): HTMLElement {
  input.addEventListener("input", () => input.removeAttribute("aria-invalid"));
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    row,
    hint === undefined ? null : h("p", { class: "hint", id: `${id}-hint` }, hint),
  );
}

/** A place for one problem. Screen readers read it when it appears. */
export class ProblemBox {
  readonly element = h("div", { class: "problem", role: "alert", testid: "problem", hidden: true });

  constructor(private readonly apply: (remedy: Remedy) => void = () => {}) {}

  /** Shows a refusal with its remedies. */
  show({ code, title, text, remedies }: Problem): void {
    this.element.dataset.code = code;
    const buttons = remedies.map((remedy) =>
      h(
        "button",
        {
          class: remedy === "erase" ? "button small danger" : "button small",
          type: "button",
          testid: `remedy-${remedy}`,
          on: { click: () => this.apply(remedy) },
        },
        REMEDY_LABEL[remedy],
      ),
    );
    this.fill(
      h("strong", {}, title),
      h("p", {}, text),
      h("div", { class: "problem-actions" }, buttons, h("code", { class: "code" }, code)),
    );
  }

  /** Shows a mistake in a field, and puts the cursor there. */
  invalid(text: string, input: HTMLInputElement): void {
    delete this.element.dataset.code;
    this.fill(h("p", {}, text));
    const details = input.closest("details");
    if (details) details.open = true;
    input.setAttribute("aria-invalid", "true");
    input.focus();
  }

  clear(): void {
    show(this.element, false);
  }

  private fill(...content: Node[]): void {
    fill(this.element, icon("alert"), h("div", {}, content));
    show(this.element, true);
    this.element.scrollIntoView({ block: "nearest" });
  }
}

/** A button that looks like a link. */
export function linkButton(label: string, testid: string, run: () => void): HTMLButtonElement {
  return h("button", { class: "link-button", type: "button", testid, on: { click: run } }, label);
}
