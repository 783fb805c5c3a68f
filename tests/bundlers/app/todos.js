// The repository of an application, as it is tested with `escale/testing`: the only module that knows the session.
import { defineSchema, newId } from "escale";

export const schema = defineSchema({
  Todo: { key: ["id"], collections: { list: { key: ["list"] } }, indexes: { at: "integer" }, properties: { text: "string", done: "boolean" } },
});

/** The to-dos of a list. The session is given: a test gives one of a world. */
export class Todos {
  #session;
  #list;

  constructor(session, list) {
    this.#session = session;
    this.#list = session.collection("Todo", { list });
    this.name = list;
  }

  get texts() {
    return [...this.#list.docs].sort((a, b) => a.at - b.at).map(({ text }) => text);
  }

  get waiting() {
    return this.#session.pending().length;
  }

  /** Resolves once the to-do is saved on the device. */
  async add(text) {
    const write = this.#session.put("Todo", { id: newId(), list: this.name, text, done: false, at: Date.now() });
    await write.saved;
  }

  /** The messages of writes that the server refused; `forget` discards them. */
  get refused() {
    return this.#session.refused.value.map(({ error }) => error.message);
  }

  forget() {
    for (const { discard } of this.#session.refused.value) discard();
  }
}
