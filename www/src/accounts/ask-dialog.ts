/** A dialog that asks for passphrases, and stays until the action succeeds or the visitor cancels. */

import { fill, h } from "../dom";
import { open as openDialog } from "../ui/dialogs";
import { ProblemBox, type Field, type Mistake } from "./fields";
import { problemOf } from "./problems";

/** The texts, the fields and the action of a dialog. */
export interface Question {
  /** The beginning of the names for the end-to-end tests. */
  id: string;
  title: string;
  text: string;
  fields: readonly Field[];
  submit: string;
  isDanger?: boolean;
  /** The first mistake in the fields: a sentence, and the field. */
  mistake(): Mistake | undefined;
  /** The action. A rejection is shown. */
  run(): Promise<void>;
}

/** Asks, and acts. Resolves with false if the visitor cancels. */
export async function askDialog(question: Question): Promise<boolean> {
  const { id, title, text, fields, submit, isDanger = false } = question;
  const problem = new ProblemBox();
  const go = h("button", { class: isDanger ? "button danger" : "button primary", type: "submit", testid: `${id}-go` }, submit);
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": `${id}-title`, testid: `${id}-dialog` });
  let isBusy = false;
  const act = async (): Promise<void> => {
    if (isBusy) return;
    problem.clear();
    const wrong = question.mistake();
    if (wrong) return problem.invalid(...wrong);
    isBusy = true;
    go.disabled = true;
    fill(go, h("span", { class: "spinner" }), submit);
    try {
      await question.run();
      dialog.close("done");
    } catch (error) {
      problem.show({ ...problemOf(error, "inside"), remedies: [] });
      fields[0]?.input.focus();
    } finally {
      isBusy = false;
      go.disabled = false;
      fill(go, submit);
    }
  };
  const form = h(
    "form",
    { class: "dialog-form", novalidate: true },
    h("h2", { id: `${id}-title` }, title),
    h("p", {}, text),
    fields.map(({ element }) => element),
    problem.element,
    h(
      "div",
      { class: "dialog-actions" },
      h("button", { class: "button", type: "button", testid: `${id}-cancel`, on: { click: () => dialog.close("") } }, "Cancel"),
      go,
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void act();
  });
  fill(dialog, form);
  return (await openDialog(dialog)) === "done";
}
