// Goal: the pages of the largest packages are those of a filter and a sort, and stay so while the visitor and the data
// change. Method: random visits on a session whose live queries a naive model answers. ESCALE_SEED chooses the visit.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { count, startSeed } from "../../testkit/effort.mjs";
import { loader } from "./load.mjs";

globalThis.document = { hidden: true };
const load = await loader(after);
const { bytesOf, hasNext, Largest, PAGE_SIZE } = await load("/src/largest.ts");

const GAMES = { kind: "section", name: "games" };

/** Small random numbers from a seed. */
function randomFrom(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const COMPARES = {
  ">=": (value, operand) => value >= operand,
  startsWith: (value, operand) => value.startsWith(operand),
};

const descending = (a, b) => (a.name < b.name ? 1 : a.name > b.name ? -1 : 0);

/** A session that holds `docs`. Its live queries are answered by a filter and a sort, each in a later task. */
class Session {
  docs = [];
  open = new Set();
  /** Matches that the session is subscribed to. */
  subscribed = new Set(["games"]);
  failure;

  query() {
    return this.#query({ where: [], section: undefined, measure: undefined, limit: Infinity, cursor: undefined });
  }

  /** Replaces the documents, and informs the live queries. */
  change(docs) {
    this.docs = docs;
    for (const ask of this.open) ask();
  }

  /** The documents of a query by definition. */
  answer({ where, section, measure, limit, cursor }) {
    const order = (a, b) => b[measure] - a[measure] || descending(a, b);
    return this.docs
      .filter((doc) => section === undefined || doc.section === section)
      .filter((doc) => where.every(([index, operator, operand]) => COMPARES[operator](doc[index], operand)))
      .sort(order)
      .filter((doc) => cursor === undefined || order(cursor, doc) < 0)
      .slice(0, limit);
  }

  #query(parts) {
    const same = (a, b) => (Array.isArray(a) ? a.length === b.length && a.every((doc, i) => doc === b[i]) : a === b);
    const live = (read) => (callback) => {
      if (this.failure) throw this.failure;
      if (parts.section !== undefined && !this.subscribed.has(parts.section)) throw new Error("not subscribed");
      let last;
      const ask = () =>
        setImmediate(() => {
          if (!this.open.has(ask)) return;
          const now = read(this.answer(parts));
          if (last !== undefined && same(now, last)) return;
          last = now;
          callback(now);
        });
      this.open.add(ask);
      ask();
      return () => this.open.delete(ask);
    };
    return {
      where: (...condition) => this.#query({ ...parts, where: [...parts.where, condition] }),
      in: ({ section }) => this.#query({ ...parts, section }),
      orderBy: (measure, direction) => {
        assert.equal(direction, "desc");
        return this.#query({ ...parts, measure });
      },
      limit: (limit) => this.#query({ ...parts, limit }),
      after: (cursor) => this.#query({ ...parts, cursor }),
      live: live((docs) => docs),
      liveCount: live((docs) => docs.length),
    };
  }
}

const doc = (name, size, section = "games") => Object.freeze({ name, size, installedSize: Math.ceil(size / 1024), section });
const some = (count) => Array.from({ length: count }, (_, n) => doc(`p${String(n).padStart(3, "0")}`, 1_000_000 - n * 10_000));
const names = (docs) => docs.map(({ name }) => name);

/** A view on such a session: `settled` gives the list once no query and no frame is open. */
function viewOf(docs) {
  const session = new Session();
  session.docs = docs;
  const largest = new Largest(session);
  const heard = [];
  largest.onList((listed) => heard.push(listed));
  const settled = async () => {
    // An answer can cause another question: the page before an empty one. Frames are timers, answers come before them.
    let before;
    do {
      before = heard.length;
      for (let turn = 0; turn < 4; turn++) await new Promise((resolve) => setTimeout(resolve, 0));
    } while (heard.length > before);
    return heard.at(-1);
  };
  return { session, largest, heard, settled };
}

test("pages go on and back, and each knows its place", async () => {
  const { largest, heard, settled, session } = viewOf(some(PAGE_SIZE * 2 + 3));
  largest.open();
  const { page } = await settled();
  assert.deepEqual([page.docs.length, page.before, page.total, hasNext(page)], [PAGE_SIZE, 0, 43, true]);
  assert.equal(page.greatest, bytesOf(page.docs[0], "installedSize"));
  largest.previous();
  largest.next();
  const second = (await settled()).page;
  assert.deepEqual([second.docs[0].name, second.before, second.docs.length], ["p020", 20, PAGE_SIZE]);
  assert.equal(second.greatest, page.greatest, "sizes compare with the largest of all");
  largest.next();
  const third = (await settled()).page;
  assert.deepEqual([third.docs.length, third.before, hasNext(third)], [3, 40, false]);
  largest.next();
  assert.equal((await settled()).page, third, "behind the last page is none");
  largest.previous();
  assert.deepEqual(names((await settled()).page.docs), names(second.docs));
  assert.equal(heard.at(-1).page.changed.size, 0, "turning a page changes no package");
  largest.close();
  assert.equal(session.open.size, 0, "a closed view has no live query");
});

test("what changes on a page is named, and what moves before it moves its place", async () => {
  const { largest, session, settled } = viewOf(some(50));
  largest.open();
  assert.equal((await settled()).page.changed.size, 0, "the first answer changes nothing");
  largest.next();
  await settled();
  session.change([...session.docs, doc("new", 5_000_000)]);
  const { page } = await settled();
  assert.deepEqual([page.before, page.total, page.docs[0].name, page.changed.size], [21, 51, "p020", 0]);
  session.change(session.docs.map((one) => (one.name === "p025" ? doc("p025", one.size + 1) : one)));
  assert.deepEqual([...(await settled()).page.changed], ["p025"]);
  largest.previous();
  assert.deepEqual(names((await settled()).page.docs).slice(0, 2), ["new", "p000"]);
});

test("a page that has lost all its packages gives way to the one before", async () => {
  const { largest, session, settled } = viewOf(some(45));
  largest.open();
  await settled();
  for (let turn = 0; turn < 2; turn++) {
    largest.next();
    await settled();
  }
  session.change(session.docs.slice(0, 5));
  const { page } = await settled();
  assert.deepEqual([names(page.docs), page.before, hasNext(page)], [names(session.docs), 0, false]);
  session.change([]);
  assert.deepEqual((await settled()).page.total, 0);
});

test("another question begins on its first page, and minimums are in bytes", async () => {
  const { largest, session, settled } = viewOf([...some(30), doc("quake", 2_000_000, "old")]);
  largest.open();
  await settled();
  largest.next();
  await settled();
  largest.ask({ minimum: 900_000 });
  const expected = session.docs.filter(({ installedSize }) => installedSize * 1024 >= 900_000);
  assert.deepEqual([(await settled()).page.total, (await settled()).page.before], [expected.length, 0]);
  largest.ask({ minimum: 0, measure: "size", prefix: "q" });
  assert.deepEqual(names((await settled()).page.docs), ["quake"]);
  largest.ask({ topic: GAMES });
  assert.deepEqual((await settled()).page.docs, []);
});

test("a topic that is not followed is an error until the question changes, and another try asks again", async () => {
  const { largest, session, settled } = viewOf(some(3));
  largest.open();
  await settled();
  largest.ask({ topic: { kind: "section", name: "fonts" } });
  const { page, waits, error } = await settled();
  assert.deepEqual([page, waits, error.message, session.open.size], [undefined, false, "not subscribed", 0]);
  largest.ask({ topic: undefined });
  assert.equal((await settled()).page.total, 3);
  session.failure = new Error("later");
  largest.retry();
  assert.equal((await settled()).error, session.failure);
  session.failure = undefined;
  largest.retry();
  assert.deepEqual([(await settled()).error, (await settled()).page.total], [undefined, 3]);
});

test("random visits see the pages of a filter and a sort", async () => {
  const seed = startSeed();
  console.log(`# ESCALE_SEED=${seed}`);
  const random = randomFrom(seed);
  const { largest, session, settled } = viewOf(some(70));
  const question = { measure: "installedSize", minimum: 0, prefix: "", topic: undefined };
  largest.open();
  await settled();
  const change = (docs) => session.change(docs);
  const ask = (part) => {
    Object.assign(question, part);
    largest.ask(part);
  };
  const acts = [
    () => largest.next(),
    () => largest.next(),
    () => largest.previous(),
    () => ask({ measure: random(2) ? "size" : "installedSize" }),
    () => ask({ minimum: [0, 300_000, 700_000][random(3)] }),
    () => ask({ prefix: ["", "p", "p0", "p01", "x"][random(5)] }),
    () => ask({ topic: random(2) ? GAMES : undefined }),
    () => change(session.docs.filter(() => random(6) > 0)),
    () => change([...session.docs, doc(`p0${random(1_000_000)}`, random(1_200_000), ["games", "fonts"][random(2)])]),
    () => change(session.docs.map((one) => (random(9) ? one : doc(one.name, random(1_200_000), one.section)))),
    () => change(some(70)),
  ];
  for (let step = 0; step < count("VISITS", 250); step++) {
    acts[random(acts.length)]();
    if (random(3) === 0) continue;
    const { page } = await settled();
    const { measure, minimum, prefix, topic } = question;
    const matching = session.docs
      .filter((one) => bytesOf(one, measure) >= minimum && one.name.startsWith(prefix) && (!topic || one.section === topic.name))
      .sort((a, b) => b[measure] - a[measure] || descending(a, b));
    assert.equal(page.total, matching.length, `step ${step}`);
    assert.deepEqual(names(page.docs), names(matching.slice(page.before, page.before + PAGE_SIZE)), `step ${step}`);
    assert.equal(page.greatest, matching.length ? bytesOf(matching[0], measure) : 0, `step ${step}`);
    assert.ok(page.docs.length > 0 || matching.length === 0 || page.before === 0, `step ${step}: an empty page`);
  }
});
