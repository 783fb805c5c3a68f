/** The dialogs. They are modal, Escape closes them, and the focus then returns to its earlier place. */

import { fill, h, show } from "../dom";
import { icon } from "../icons";

/** Shows a dialog. Resolves with the value that closed it. */
export function open(dialog: HTMLDialogElement, closesOutside = true): Promise<string> {
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue);
    });
    dialog.addEventListener("click", (event) => {
      if (closesOutside && event.target === dialog) dialog.close("");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** The texts of a confirmation. */
export interface Confirmation {
  title: string;
  text: string;
  confirm: string;
  testid: string;
  /** The label of an additional box to tick. */
  option?: string;
}

/** Asks before an action that cannot be undone; `undefined` if the visitor cancels. */
export async function confirmDialog(ask: Confirmation): Promise<{ option: boolean } | undefined> {
  const option = h("input", { type: "checkbox", id: "confirm-option" });
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "dialog-title" });
  fill(
    dialog,
    h(
      "form",
      { method: "dialog", class: "dialog-form" },
      h("h2", { id: "dialog-title" }, ask.title),
      h("p", {}, ask.text),
      ask.option ? h("label", { class: "check" }, option, h("span", {}, ask.option)) : null,
      h(
        "div",
        { class: "dialog-actions" },
        h("button", { class: "button", value: "", autofocus: true, testid: `${ask.testid}-cancel` }, "Keep it"),
        h("button", { class: "button danger", value: "yes", testid: `${ask.testid}-confirm` }, ask.confirm),
      ),
    ),
  );
  return (await open(dialog)) === "yes" ? { option: option.checked } : undefined;
}

/** Asks for the old and the new passphrase. Calls `change` until it succeeds or the visitor cancels. */
export async function passphraseDialog(change: (old: string, next: string) => Promise<void>): Promise<boolean> {
  const old = secret("passphrase-old");
  const next = secret("passphrase-next");
  const error = h("p", { class: "field-error", role: "alert", hidden: true, testid: "passphrase-error" });
  const save = h("button", { class: "button primary", type: "submit", testid: "passphrase-save" }, "Change it");
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "dialog-title" });
  const fail = (text: string, field: HTMLInputElement): void => {
    fill(error, text);
    show(error, true);
    field.focus();
  };
  const submit = async (): Promise<void> => {
    if (old.value === "") return fail("Type the current passphrase.", old);
    if (next.value === "") return fail("Type the new passphrase.", next);
    save.disabled = true;
    fill(save, h("span", { class: "spinner" }), "Deriving the key");
    try {
      await change(old.value, next.value);
      dialog.close("done");
    } catch (problem) {
      fail(problem instanceof Error ? describe(problem) : "It could not be changed.", old);
    } finally {
      save.disabled = false;
      fill(save, "Change it");
    }
  };
  fill(
    dialog,
    h(
      "form",
      {
        class: "dialog-form",
        novalidate: true,
        on: {
          submit: (event) => {
            event.preventDefault();
            void submit();
          },
        },
      },
      h("h2", { id: "dialog-title" }, "Change the passphrase"),
      h("p", {}, "Only the store's key is wrapped again. No record is encrypted again."),
      h("div", { class: "field" }, h("label", { for: "passphrase-old" }, "Present passphrase"), old),
      h("div", { class: "field" }, h("label", { for: "passphrase-next" }, "New passphrase"), next),
      error,
      h(
        "div",
        { class: "dialog-actions" },
        h("button", { class: "button", type: "button", on: { click: () => dialog.close("") } }, "Cancel"),
        save,
      ),
    ),
  );
  return (await open(dialog)) === "done";
}

/** Lists problems, each with its next step. */
export async function problemsDialog(problems: { title: string; text: string; code: string }[]): Promise<void> {
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "dialog-title" });
  fill(
    dialog,
    h(
      "form",
      { method: "dialog", class: "dialog-form" },
      h("h2", { id: "dialog-title" }, "What is wrong"),
      problems.map(({ title, text, code }) =>
        h("div", { class: "problem" }, icon("alert"), h("div", {}, h("strong", {}, title), h("p", {}, text), h("code", { class: "code" }, code))),
      ),
      h("div", { class: "dialog-actions" }, h("button", { class: "button", autofocus: true }, "Close")),
    ),
  );
  await open(dialog);
}

function secret(id: string): HTMLInputElement {
  return h("input", { id, type: "password", autocomplete: "off", testid: id });
}

function describe(error: Error): string {
  const code = (error as { code?: string }).code;
  return code === "wrong_passphrase" ? "This is not the current passphrase." : error.message;
}
