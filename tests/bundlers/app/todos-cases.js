// The tests of `todos.js` with `escale/testing`. Runners differ in their names and their fake timers alone: the
// `repository.test.js` of each gives them.
import { testing } from "escale/testing";

import { schema, Todos } from "./todos.js";

/** `fakeTimers` and `realTimers` exchange the runner's timers, and `advance` moves them by milliseconds. */
export function testTodos({ test, expect, beforeEach, afterEach, fakeTimers, realTimers, advance }) {
  let world;
  beforeEach(async () => {
    fakeTimers();
    const documents = { Todo: [{ id: "1", list: "home", text: "Milk", done: false, at: 1 }] };
    world = await testing({ schema, documents, clock: advance });
  });
  afterEach(async () => {
    realTimers();
    await world.close();
  });

  test("a to-do that was added offline is shown, waits, and reaches the server", async () => {
    const todos = new Todos(await world.open(), "home");
    await world.settled();
    world.offline();
    await todos.add("Bread");
    expect(todos.texts).toEqual(["Milk", "Bread"]);
    expect(todos.waiting).toBe(1);
    world.online();
    await world.settled();
    expect(world.docs("Todo").map(({ text }) => text)).toEqual(expect.arrayContaining(["Milk", "Bread"]));
  });

  test("a lost answer: the to-do is added once, and the test waits for nothing", async () => {
    const todos = new Todos(await world.open(), "home");
    await world.settled();
    world.loseAnswer();
    await todos.add("Bread");
    await world.advance(60_000);
    await world.settled();
    expect(todos.texts).toEqual(["Milk", "Bread"]);
    expect(world.docs("Todo")).toHaveLength(2);
  });

  test("a refused to-do tells why, and can be forgotten", async () => {
    const todos = new Todos(await world.open(), "home");
    await world.settled();
    world.refuse({ message: "the list is full" });
    await todos.add("Bread");
    await world.settled();
    expect(todos.refused).toEqual(["the list is full"]);
    todos.forget();
    await world.settled();
    expect(todos.texts).toEqual(["Milk"]);
  });
}
