// R22: subscriptions that follow from documents, and rights that end, in worlds of `escale/testing`. ESCALE_SEED plays one
// history, SCOPES says how many there are.
import assert from "node:assert/strict";
import { test } from "node:test";

import { defineSchema } from "escale";
import { testing } from "escale/testing";

import { count, startSeed } from "../../../testkit/effort.mjs";
import { randomFrom } from "../../e2e/support/in-page/random.js";

const schema = defineSchema({
  Account: { key: ["id"], clock: "sequence", properties: { avatars: "string[]" } },
  Avatar: { key: ["id"], clock: "sequence", properties: { groups: "string[]", city: "string" } },
  Chat: { in: "Avatar", key: ["avatar", "num"], properties: { text: "string" } },
  Group: { key: ["id"], properties: { name: "string" } },
  Member: { in: "Group", key: ["group", "num"], properties: { name: "string" } },
  Shop: { key: ["id"], collections: { city: { key: ["city"], mutable: true } }, properties: { name: "string" } },
});

const RULES = {
  Account: { Avatar: ({ avatars }) => avatars.map((id) => ({ key: [id], items: true })) },
  Avatar: {
    Group: ({ groups }) => groups.map((id) => ({ key: [id], items: true })),
    Shop: ({ city }) => (city ? [{ city }] : []),
  },
};

const OWNED = new Set(["Avatar", "Chat", "Group", "Member", "Shop"]);
const owned = (session) => session.subscriptions().filter((def) => OWNED.has(/^\w+/.exec(def)[0])).sort();

/**
 * The defs that a scope must have: the same rules, applied in the plain way to lists of documents. Those of a session are
 * all held, also because of a pending write. Of the server's, only those count to which an account leads.
 */
function naive({ accounts, avatars, areHeld, defOf }) {
  const wanted = new Set();
  const add = (className, match) => wanted.add(defOf(className, match));
  const reached = new Set(accounts.flatMap((account) => account.avatars));
  for (const id of reached) {
    add("Avatar", { key: [id] });
    add("Chat", { avatar: id });
  }
  for (const { id, groups, city } of avatars) {
    if (!areHeld && !reached.has(id)) continue;
    for (const group of groups) {
      add("Group", { key: [group] });
      add("Member", { group });
    }
    if (city) add("Shop", { city });
  }
  return [...wanted].sort();
}

/** The defs of matches, learned from a session in incognito that subscribes to them. */
async function defs(world) {
  const known = new Map();
  const probe = await world.open({ mode: "incognito" });
  return (className, match) => {
    const name = `${className} ${JSON.stringify(match)}`;
    if (!known.has(name)) {
      const before = new Set(probe.subscriptions());
      probe.collection(className, match, { keep: "forever" });
      known.set(name, probe.subscriptions().find((def) => !before.has(def)));
    }
    return known.get(name);
  };
}

const IDS = ["a", "b", "c"];

/** Plays one history. In the end, and at each point of rest in between, the subscriptions are those of the naive model. */
async function play(seed) {
  const below = randomFrom(seed);
  const pick = (list) => list[below(list.length)];
  const some = (list) => list.filter(() => below(2));
  const world = await testing({
    schema,
    pageRows: 1 + below(6),
    documents: {
      Account: [{ id: "me", avatars: ["a"] }],
      Avatar: IDS.map((id) => ({ id, groups: [id], city: id })),
      Chat: [{ avatar: "a", num: "1", text: "hello" }],
      Group: IDS.map((id) => ({ id, name: id })),
      Member: IDS.map((id) => ({ group: id, num: "1", name: id })),
      Shop: IDS.map((id) => ({ id, city: id, name: id })),
    },
  });
  const defOf = await defs(world);
  let session;
  let isCut = false;
  const open = async () => {
    session = await world.open();
    if (isCut) world.offline(session);
    session.collection("Account", { key: ["me"] }, { keep: "forever" });
    session.scope(RULES, { exclusive: true });
  };
  const written = (to) => {
    if (below(3)) return to.patch("Avatar", [pick(IDS)], below(4) ? { groups: some(IDS) } : { city: pick(["", ...IDS]) });
    if (below(4)) return to.patch("Account", ["me"], { avatars: some(IDS) });
    if (below(2)) return to.delete("Avatar", [pick(IDS)]);
    return to.put("Avatar", { id: pick(IDS), groups: some(IDS), city: pick(IDS) });
  };
  const write = async (to) => {
    try {
      // An operation shows once its document is read.
      await written(to).saved;
    } catch (error) {
      // A patch of a document that is deleted or not held.
      assert.equal(error.code, "not_found");
    }
  };
  const check = async () => {
    await world.settled();
    const accounts = await session.query("Account").docs();
    const avatars = await session.query("Avatar").docs();
    const wanted = naive({ accounts, avatars, areHeld: true, defOf });
    const found = owned(session);
    const { memory } = await session.inspect();
    const isLoaded = memory.collections.filter(({ def }) => /^A/.test(def)).every(({ ready }) => ready);
    if (isLoaded) assert.deepEqual(found, wanted, "the subscriptions are those of the held documents");
    else assert.deepEqual(wanted.filter((def) => !found.includes(def)), [], "none of those is missing");
  };
  try {
    await open();
    for (let step = 0; step < 40; step++) {
      switch (below(9)) {
        case 0:
          isCut = !isCut;
          if (isCut) world.offline(session);
          else world.online(session);
          break;
        case 1:
          await (below(2) ? world.kill(session) : session.close());
          await open();
          break;
        case 2:
          await check();
          break;
        case 3:
        case 4:
        case 5:
          await write(session);
          break;
        default:
          await write(world);
      }
    }
    if (isCut) world.online(session);
    await world.settled();
    while (session.refused.value.length > 0) {
      await session.refused.value[0].discard();
      await world.settled();
    }
    await check();
    const server = { accounts: world.docs("Account"), avatars: world.docs("Avatar"), defOf };
    assert.deepEqual(owned(session), naive(server), "the subscriptions are those of the server's documents");
  } finally {
    await world.close();
  }
}

const COUNT = process.env.ESCALE_SEED ? 1 : count("SCOPES", 20);

test("r22_subscriptions_are_those_that_the_held_documents_lead_to", { timeout: 600_000 }, async () => {
  const first = startSeed();
  for (let seed = first; seed < first + COUNT; seed++) {
    try {
      await play(seed);
    } catch (error) {
      throw new Error(`ESCALE_SEED=${seed}: ${error.message}`, { cause: error });
    }
  }
});

/** A test in a world with one account, opened on a device that is subscribed to it. */
function inWorld(name, run) {
  test(name, { timeout: 60_000 }, async (context) => {
    const documents = {
      Account: [{ id: "me", avatars: ["a"] }],
      Avatar: ["a", "b"].map((id) => ({ id, groups: ["g"], city: "" })),
      Group: [{ id: "g", name: "G" }],
    };
    const world = await testing({ schema, documents });
    try {
      const session = await world.open();
      session.collection("Account", { key: ["me"] }, { keep: "forever" });
      await run(world, session, context);
    } finally {
      await world.close();
    }
  });
}

const classesOf = (session) => owned(session).map((def) => /^\w+/.exec(def)[0]);

inWorld("r22_a_rule_is_checked_before_anything_is_subscribed_to", async (world, session) => {
  const wrong = [
    [undefined, "bad_option", /must be/],
    [{ Account: [] }, "bad_option", /must be/],
    [{ Account: { Avatar: "groups" } }, "bad_option", /a function/],
    [{ Nobody: { Avatar: () => [] } }, "unknown_class", /no class Nobody/],
    [{ Account: { Nobody: () => [] } }, "unknown_class", /no class Nobody/],
    [{ Avatar: { Group: () => [] }, Group: { Avatar: () => [] } }, "bad_option", /leads to itself/],
  ];
  for (const [rules, code, message] of wrong) assert.throws(() => session.scope(rules, { exclusive: true }), { code, message });
  const stop = session.scope(RULES, { exclusive: true });
  assert.throws(() => session.scope(RULES, { exclusive: true }), { code: "bad_option", message: /has one/ });
  stop();
  session.scope(RULES, { exclusive: true });
  await world.settled();
  assert.deepEqual(classesOf(session), ["Avatar", "Chat", "Group", "Member"]);
});

inWorld("r22_a_rule_that_fails_changes_nothing_and_is_told", async (world, session, context) => {
  session.scope(RULES, { exclusive: true });
  await world.settled();
  const before = owned(session);
  const told = [];
  globalThis.reportError = (error) => told.push(error);
  context.after(() => delete globalThis.reportError);
  for (const n of [1, 2]) {
    world.put("Account", { id: "me", n });
    await world.settled();
  }
  assert.equal(told.length, 1, "once, as the application threw it");
  assert.ok(told[0] instanceof TypeError);
  assert.equal(session.status.error.code, "bad_option");
  assert.match(session.status.error.message, /the rule from Account to Avatar failed: TypeError/);
  assert.deepEqual(owned(session), before);
  world.put("Account", { id: "me", avatars: [] });
  await world.settled();
  assert.deepEqual(owned(session), []);
});

inWorld("r22_the_scope_moves_offline_and_after_a_restart", async (world, session) => {
  session.scope(RULES, { exclusive: true });
  await world.settled();
  world.offline();
  await session.patch("Account", ["me"], { avatars: ["b"] }).saved;
  await world.settled();
  const { memory } = await session.inspect();
  const known = memory.collections.filter(({ def }) => def.startsWith("Avatar"));
  assert.equal(known.length, 1, "the avatar a has left, offline");
  assert.equal(known[0].ready, false, "b cannot be loaded");
  assert.deepEqual(classesOf(session), ["Avatar", "Chat", "Group", "Member"], "b may lead to the group");
  await world.kill(session);
  const next = await world.open();
  next.scope(RULES, { exclusive: true });
  world.online();
  await world.settled();
  assert.deepEqual(classesOf(next), ["Avatar", "Chat", "Group", "Member"]);
  assert.deepEqual((await next.query("Avatar").docs()).map(({ id }) => id), ["b"]);
});

inWorld("r22_a_subscription_waits_until_all_that_may_lead_to_it_is_loaded", async (world) => {
  const session = await world.open({ device: "other" });
  await session.collection("Group", { key: ["g"] }).whenReady();
  world.offline(session);
  session.collection("Account", { key: ["me"] }, { keep: "forever" });
  session.scope(RULES, { exclusive: true });
  await world.settled();
  assert.deepEqual(classesOf(session), ["Group"], "the account may lead to an avatar, and that to the group");
  world.online(session);
  await world.settled();
  assert.deepEqual(classesOf(session), ["Avatar", "Chat", "Group", "Member"]);
});

inWorld("r22_other_subscriptions_of_the_classes_end_and_their_lists_are_told", async (world, session) => {
  const told = [];
  session.live("Group", {}, (groups) => told.push(groups.length));
  await world.settled();
  assert.equal(told.at(-1), 1);
  const stop = session.scope({ Account: { Group: () => [] } }, { exclusive: true });
  await world.settled();
  assert.deepEqual(classesOf(session), []);
  assert.equal(told.at(-1), 0, "the list is empty");
  const goOn = world.slow(session);
  await assert.rejects(session.collection("Group", { key: ["g"] }).whenReady(), { code: "out_of_scope", message: /no rule/ });
  goOn();
  const held = session.collection("Group", { key: ["x"] });
  held.subscribe(() => {});
  await world.settled();
  assert.equal(held.error?.code, "out_of_scope");
  assert.deepEqual(classesOf(session), [], "a subscription outside of the rules ends at once");
  stop();
  session.live("Group", {}, () => {});
  await world.settled();
  assert.deepEqual(classesOf(session), ["Group", "Group", "Group"], "without the scope, all that is shown is subscribed to again");
  assert.equal(told.at(-1), 1, "the list that was there all the time has it again");
});

inWorld("r22_what_is_withdrawn_leaves_lists_and_says_why", async (world, session) => {
  const groups = session.collection("Group", {});
  const told = [];
  groups.subscribe((docs) => told.push(docs.length));
  await groups.whenReady();
  const giveBack = world.withdraw("Group", {});
  await world.settled();
  assert.equal(told.at(-1), 0);
  assert.equal(groups.docs.length, 0);
  assert.deepEqual(classesOf(session), []);
  assert.equal(Object.values(session.status.faults)[0]?.code, "withdrawn");
  await assert.rejects(session.collection("Group", {}).whenReady(), { code: "withdrawn" });
  giveBack();
  assert.equal((await session.collection("Group", {}).whenReady()).length, 1);
  assert.deepEqual(session.status.faults, {});
  assert.equal(told.at(-1), 1, "the same list goes on");
  assert.throws(() => world.withdraw("Nobody", {}), { code: "unknown_class" });

  // Components hold lists: they show the reason, and the next one that comes asks again.
  const held = session.collection("Shop", { city: "x" });
  const leave = held.subscribe(() => {});
  await world.settled();
  const giveShopsBack = world.withdraw("Shop", { city: "x" });
  await world.settled();
  assert.equal(held.error?.code, "withdrawn");
  leave();
  giveShopsBack();
  held.subscribe(() => {});
  await world.settled();
  assert.equal(held.error, undefined);
  assert.equal(held.ready, true);
});

test("r94_a_scope_beyond_the_bound_says_so_after_a_reload_too_until_it_fits", { timeout: 60_000 }, async () => {
  const ids = Array.from({ length: 520 }, (_, n) => `a${n}`);
  const world = await testing({
    schema,
    documents: { Account: [{ id: "me", avatars: ids }], Avatar: ids.map((id) => ({ id, groups: [], city: "" })), Chat: ids.map((id) => ({ avatar: id, num: "1", text: id })) },
  });
  const counted = new Map();
  const begin = async (session) => {
    session.collection("Account", { key: ["me"] }, { keep: "forever" });
    session.scope(RULES, { exclusive: true });
    session.query("Chat").liveCount((count, state) => counted.set(session, [count, state]));
    await world.settled();
  };
  const check = (session) => {
    const [avatars, chats] = ["Avatar", "Chat"].map((name) => session.query(name).state);
    const [count, state] = counted.get(session);
    assert.equal(Object.keys(session.status.faults).length, 41, "1 account, 520 avatars, 520 lists of chats");
    assert.deepEqual([avatars.ready, chats.ready, state.ready], [avatars.error === undefined, false, false]);
    assert.deepEqual([chats.error.code, state.error.code], ["too_many_subscriptions", "too_many_subscriptions"]);
    assert.ok(count < 520, "the count is too small");
  };
  try {
    const first = await world.open();
    await begin(first);
    check(first);
    await first.patch("Avatar", ["a0"], { city: "" }).accepted;
    await world.settled();
    assert.equal(first.query("Chat").state.ready, false, "after another success");
    await world.kill(first);
    const again = await world.open();
    await begin(again);
    check(again);
    await world.patch("Account", ["me"], { avatars: ids.slice(0, 400) });
    await world.settled();
    assert.deepEqual([again.query("Chat").state, again.status.faults], [{ ready: true, error: undefined }, {}]);
    assert.equal(await again.query("Chat").count(), 400);
    assert.deepEqual(counted.get(again), [400, { ready: true, error: undefined }]);
  } finally {
    await world.close();
  }
});
