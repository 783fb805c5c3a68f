/** A recovery code, shown once: the text, a button to copy it, and the reason to keep it. */

import { fill, h, setText } from "../dom";
import { icon } from "../icons";
import { open as openDialog } from "../ui/dialogs";
import { ProblemBox, tickField } from "./fields";

/** The screen after a sign-up. `kept` is called once the visitor says that the code is kept. */
export function codeForm(code: string, kept: () => void): HTMLFormElement {
  return h(
    "form",
    { class: "open-form", novalidate: true, testid: "code-screen" },
    h("h2", { tabindex: -1 }, "Keep your recovery code"),
    content(code, kept, "Open my account"),
  );
}

/** The same as a dialog, for a new code of an open account. */
export async function codeDialog(code: string): Promise<void> {
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "code-title", testid: "code-dialog" });
  fill(
    dialog,
    h(
      "div",
      { class: "dialog-form" },
      h("h2", { id: "code-title" }, "Your new recovery code"),
      h("form", { class: "code-form", novalidate: true }, content(code, () => dialog.close(), "Done")),
    ),
  );
  // The code is never shown again: only the visitor's word closes the dialog.
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  await openDialog(dialog, false);
}

function content(code: string, kept: () => void, done: string): Node[] {
  const groups = code.split("-");
  const text = h(
    "p",
    { class: "recovery-code", testid: "recovery-code", "data-code": code, "aria-label": `Recovery code: ${groups.join(" ")}` },
    groups.map((group) => h("span", {}, group)),
  );
  const said = h("p", { class: "hint", role: "status", testid: "copied" });
  const copy = h("button", { class: "button", type: "button", testid: "copy-code" }, icon("copy"), "Copy the code");
  copy.addEventListener("click", () => {
    const copied = (): void => setText(said, "Copied. Paste it where you keep passwords.");
    const failed = (): void => {
      getSelection()?.selectAllChildren(text);
      setText(said, "The browser refused. The code is selected: copy it by hand.");
    };
    // Only a secure page has a clipboard.
    if (!navigator.clipboard) return failed();
    navigator.clipboard.writeText(code).then(copied, failed);
  });
  const box = new ProblemBox();
  const tick = tickField("code-kept", "I have kept the code in a safe place");
  tick.input.addEventListener("change", () => box.clear());
  const go = h("button", { class: "button primary wide", type: "submit", testid: "code-done" }, done);
  go.addEventListener("click", (event) => {
    event.preventDefault();
    if (!tick.input.checked) return box.invalid("Keep the code first, then tick the box.", tick.input);
    go.disabled = true;
    fill(go, h("span", { class: "spinner" }), done);
    kept();
  });
  return [
    h("p", { class: "form-lead" }, "It opens your account if you ever forget the passphrase. Nobody else can help you then, not even the server's operator."),
    text,
    h("div", { class: "copy-row" }, copy, said),
    h("p", { class: "hint" }, "It is shown only now. Keep it in a password manager or on paper, away from this device."),
    tick.element,
    box.element,
    go,
  ];
}
