// Goal: the list is the union of the followed topics, each package once. Method: the library on a session that the test
// drives by hand. Frames come at once because the page counts as hidden.
import assert from "node:assert/strict";
import { after, beforeEach, test } from "node:test";
import { loader } from "./load.mjs";

globalThis.document = { hidden: true };
const load = await loader(after);
const { Library } = await load("/src/library.ts");
const { defOf } = await load("/src/defs.ts");

const GAMES = { kind: "section", name: "games" };
const SDL = { kind: "tag", name: "uitoolkit::sdl" };

/** A session without a server: `give` supplies the documents that it would load. */
class Session {
  listeners = new Map();
  held = [];

  constructor(defs = []) {
    this.defs = new Set(defs);
  }
  subscriptions() {
    return [...this.defs];
  }
  live(_class, match, callback) {
    this.defs.add(JSON.stringify(match));
    this.listeners.set(JSON.stringify(match), callback);
    return () => this.listeners.delete(JSON.stringify(match));
  }
  unsubscribe(_class, match) {
    this.defs.delete(JSON.stringify(match));
  }
  query() {
    return { docs: async () => this.held };
  }
  give(match, docs, ready = true) {
    this.listeners.get(JSON.stringify(match))(docs, { ready });
  }
}

const doc = (name, more = {}) => ({ name, summary: `about ${name}`, section: "games", tags: [], size: 1, installedSize: 1, ...more });
const names = ({ rows }) => rows.map(({ name }) => name);

let session;
let library;
let rows;
let waiting;
const published = () => new Promise((resolve) => (waiting = resolve));

beforeEach(async () => {
  session = new Session();
  library = await Library.of(session);
  library.onRows((next) => {
    rows = next;
    waiting?.(next);
  });
  await published();
});

test("a package of two topics is listed once, and the list can be narrowed", async () => {
  const [a, b, c] = ["a", "b", "c"].map((name) => doc(name));
  library.follow(GAMES);
  library.follow(SDL);
  session.give({ section: "games" }, [a, b]);
  session.give({ tags: "uitoolkit::sdl" }, [b, c]);
  assert.deepEqual(names(await published()), ["a", "b", "c"]);
  library.narrow(SDL);
  assert.deepEqual(names(await published()), ["b", "c"]);
  library.unfollow(SDL);
  assert.deepEqual(names(await published()), ["a", "b"], "what was narrowed to has left");
  assert.deepEqual(session.subscriptions(), ['{"section":"games"}']);
});

test("who queries a topic hears that it is being left while it is still subscribed", () => {
  const heard = [];
  library.onLeaving((topic) => heard.push([topic, session.subscriptions().length]));
  library.follow(GAMES);
  library.unfollow(SDL);
  library.unfollow(GAMES);
  assert.deepEqual([heard, session.subscriptions()], [[[GAMES, 1]], []]);
});

test("the first load flashes nothing; what changes or comes later does, and is told", async () => {
  const first = [doc("a"), doc("b")];
  library.follow(GAMES);
  session.give({ section: "games" }, first, false);
  session.give({ section: "games" }, first, true);
  assert.equal((await published()).changed.size, 0);
  session.give({ section: "games" }, [doc("b", { summary: "new" }), doc("c")]);
  assert.deepEqual([...(await published()).changed].sort(), ["b", "c"]);
  const [{ changed, left }] = library.activity;
  assert.deepEqual({ changed, left }, { changed: 2, left: 1 });
  assert.equal(library.find("b").summary, "new");
  assert.equal(library.find("a"), undefined);
});

test("every word of the filter counts, and sizes sort the greatest first", async () => {
  library.follow(GAMES);
  session.give({ section: "games" }, [doc("ant", { size: 1 }), doc("bee", { size: 9 }), doc("bee-data", { size: 5 })]);
  library.setSort("size");
  assert.deepEqual(names(await published()), ["bee", "bee-data", "ant"]);
  library.setFilter("  DATA about ");
  assert.deepEqual(names(await published()), ["bee-data"]);
  assert.equal(rows.rows.length, 1);
});

test("the defs of an earlier opening become topics again, those outside the catalogue by what is held", async () => {
  const rare = { kind: "tag", name: "field::astronomy-of-the-deep" };
  const earlier = new Session(["Package", await defOf(GAMES), await defOf(rare), "Package/tags@unknown"]);
  earlier.held = [doc("a", { tags: [rare.name] })];
  const again = await Library.of(earlier);
  assert.deepEqual(again.topics().map(({ topic }) => topic), [{ kind: "all", name: "" }, GAMES, rare]);
  assert.deepEqual(again.topicOf(await defOf(rare)), rare);
});
