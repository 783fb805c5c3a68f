import type { RefusedOperation } from "escale";
import { advice } from "escale/advice";
import { register } from "escale/offline";

import type { Todo } from "./classes";
import { add, describe, HOME, openSession, remove, toggle, type AppSession } from "./session";

const find = <T extends HTMLElement>(id: string): T => document.getElementById(id) as T;
const unlock = find<HTMLFormElement>("unlock");
const submit = unlock.querySelector("button") as HTMLButtonElement;
const passphrase = find<HTMLInputElement>("passphrase");
const text = find<HTMLInputElement>("text");

submit.disabled = false;
unlock.addEventListener("submit", (event) => {
  event.preventDefault();
  void enter();
});

async function enter(): Promise<void> {
  submit.disabled = true;
  try {
    const session = await openSession(passphrase.value);
    find("error").textContent = "";
    show(session);
  } catch (error) {
    // The cause and the cure, for the developer.
    console.error(error);
    find("error").textContent = advice(error);
  } finally {
    submit.disabled = false;
    passphrase.value = "";
  }
}

function show(session: AppSession): void {
  unlock.hidden = true;
  find("app").hidden = false;
  find("new").addEventListener("submit", (event) => {
    event.preventDefault();
    add(session, text.value);
    text.value = "";
  });
  // Called with the documents on the device, then at every change: by this tab, another tab or another user.
  session.live("Todo", HOME, (todos) => find("todos").replaceChildren(...todos.map((todo) => rowOf(session, todo))));
  session.status.subscribe((status) => (find("status").textContent = describe(status)));
  session.refused.subscribe((refused) => find("refused").replaceChildren(...refused.map(refusedRowOf)));
}

function rowOf(session: AppSession, todo: Todo): HTMLElement {
  const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: todo.done });
  box.addEventListener("change", () => toggle(session, todo));
  const label = document.createElement("label");
  label.append(box, ` ${todo.text}`);
  return itemOf(label, buttonOf("Delete", () => remove(session, todo)));
}

/** A write that the server refused for good waits for the user. */
function refusedRowOf(operation: RefusedOperation): HTMLElement {
  const reason = Object.assign(document.createElement("label"), { textContent: advice(operation.error) });
  return itemOf(reason, buttonOf("Try again", () => void operation.retry()), buttonOf("Discard", () => void operation.discard()));
}

function buttonOf(textContent: string, act: () => void): HTMLButtonElement {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent });
  button.addEventListener("click", act);
  return button;
}

function itemOf(...children: HTMLElement[]): HTMLElement {
  const item = document.createElement("li");
  item.append(...children);
  return item;
}

// The page itself. The plugin in vite.config.ts has registered the worker in a build.
if (import.meta.env.PROD) {
  register().status.subscribe(({ ready, update, error }) => {
    const newer = update ? [" There is a newer version. ", buttonOf("Reload", () => location.reload())] : [];
    find("page").replaceChildren(error ? advice(error) : ready ? "This page opens with no network." : "", ...newer);
  });
}
