/** The form that edits a package: its summary and its section. */

import { fill, h, show } from "../dom";
import { problemOf } from "../problems";
import { SECTIONS } from "../topics";
import type { Basis, Writes } from "../writes";

/** Makes a form for a package as it is now; `done` closes it. */
export function editForm(writes: Writes, basis: Basis, done: () => void): HTMLFormElement {
  const { doc } = basis;
  const summary = h("textarea", { id: "edit-summary", rows: 3, maxlength: 400, required: true, testid: "edit-summary" });
  summary.value = doc.summary;
  const names = SECTIONS.map(({ topic }) => topic.name);
  const section = h(
    "select",
    { id: "edit-section", testid: "edit-section" },
    (names.includes(doc.section) ? names : [doc.section, ...names]).map((name) => h("option", { value: name }, name)),
  );
  section.value = doc.section;
  const error = h("p", { class: "field-error", role: "alert", hidden: true });
  const save = (): void => {
    try {
      writes.edit(basis, { summary: summary.value.trim(), section: section.value });
      done();
    } catch (thrown) {
      const problem = problemOf(thrown);
      fill(error, `${problem.title}. ${problem.text}`);
      show(error, true);
    }
  };
  return h(
    "form",
    {
      class: "edit-form",
      testid: "edit-form",
      on: {
        submit: (event) => {
          event.preventDefault();
          save();
        },
        keydown: (event) => {
          if (event.key !== "Escape") return;
          event.preventDefault();
          done();
        },
      },
    },
    h("div", { class: "field" }, h("label", { for: "edit-summary" }, "Summary"), summary),
    h("div", { class: "field" }, h("label", { for: "edit-section" }, "Section"), section),
    error,
    h(
      "div",
      { class: "edit-actions" },
      h("button", { class: "button primary", type: "submit", testid: "edit-save" }, "Save"),
      h("button", { class: "button", type: "button", testid: "edit-cancel", on: { click: done } }, "Cancel"),
    ),
  );
}
