// Versions and time: R4.
import { check } from "../check.mjs";
import { fresh } from "../names.mjs";

const at = "versions-and-time";
const rule = "R4";

export const time = [
  check("time.versions-rise", {
    at,
    says: "`v` is above the highest committed version, and not below the highest `now` that the server gave to a session.",
    hint: "v = max(clock, the highest now given, the highest version + 1).",
    rule,
  }, async (kit) => {
    const [writer, reader] = [kit.session(), kit.session()];
    let [highest, now] = [0, 0];
    for (let i = 0; i < 40; i++) {
      const { v, exchange } = await writer.put("Note", { id: `${i % 3}`, n: i });
      kit.expect(v > highest, `a version above ${highest}, not ${v}`, exchange);
      kit.expect(v >= now - kit.options.skew, `a version not below the now ${now} of a reply, but ${v}`, exchange);
      kit.expect(exchange.reply.now >= v - exchange.reply.delta, "a now that is not far behind the version", exchange);
      highest = v;
      now = Math.max(now, (await reader.pull("Note")).reply.now);
    }
  }),
  check("time.versions-differ", {
    at,
    says: "The first half says \"above\", and not \"at\", so that two writes have different versions.",
    hint: "Several writes of one millisecond have versions of their own; parallel requests, too.",
    rule,
  }, async (kit) => {
    const sessions = Array.from({ length: 6 }, () => kit.session());
    const versions = await Promise.all(sessions.map(async (session, i) => {
      const found = [];
      for (let n = 0; n < 10; n++) found.push((await session.put("Note", { id: `${i}`, n })).v);
      return found;
    }));
    const all = versions.flat();
    kit.equal(new Set(all).size, all.length, "the number of different versions");
  }),
  check("time.now-rises", {
    at,
    says: "Without it, writes get versions below the `v` that sessions already have, and sessions miss these writes for ever.",
    hint: "A reply's now never goes back by as much as delta.",
    rule,
  }, async (kit) => {
    const session = kit.session();
    let highest = 0;
    for (let i = 0; i < 20; i++) {
      const { reply } = await session.sync({ subs: [["Note", 0]] });
      kit.expect(reply.now > highest - reply.delta, `a now near the highest one, ${highest}`);
      highest = Math.max(highest, reply.now);
    }
  }),
  check("time.nothing-missed", {
    at,
    says: "Together these rules promise that every commit after the snapshot has a `v` of at least `now - delta`.",
    hint: "Read now before the snapshot is opened, and let no write commit below it.",
    rule,
  }, async (kit) => {
    const seen = [];
    let isOver = false;
    const write = async (session, i) => {
      for (let n = 0; n < 12; n++) {
        await session.batch(...Array.from({ length: 5 }, (_, k) => ["doc.put", { class: "Note", data: { id: `${i}-${k}`, n } }]));
      }
    };
    const read = async (session) => {
      while (!isOver) {
        const { rows, reply, exchange } = await session.pull("Note");
        seen.push({ from: reply.now - reply.delta, now: reply.now, rows: new Map(rows.map(({ pk, v }) => [pk, v])), exchange });
      }
    };
    const writers = Array.from({ length: 4 }, (_, i) => write(kit.session(), i));
    const readers = [read(kit.session()), read(kit.session())];
    await Promise.all(writers).finally(() => (isOver = true));
    await Promise.all(readers);
    const { rows } = await kit.session().pull("Note");
    for (const { pk, v } of rows) {
      for (const one of seen) {
        const isMissed = v < one.from && one.rows.get(pk) !== v;
        kit.expect(!isMissed, `a snapshot with every write below now - delta; ${pk} at ${v} was committed after it`, one.exchange);
      }
    }
  }),
  check("time.write-is-whole", {
    at,
    says: "The write becomes visible whole or not at all.",
    hint: "One transaction for the documents, the memberships, the result and the number.",
    rule,
  }, async (kit) => {
    const writer = kit.session();
    const ids = ["a", "b", "c", "d"];
    const write = (n) => writer.batch(...ids.map((id) => ["doc.put", { class: "Note", data: { id, n } }]));
    await write(0);
    let isOver = false;
    const writes = async () => {
      for (let n = 1; n <= 20; n++) await write(n);
      isOver = true;
    };
    const reads = async (session) => {
      while (!isOver) {
        const { rows, exchange } = await session.pull("Note");
        kit.equal(new Set(rows.map(({ data }) => data.n)).size, 1, "the number of batches seen at once", exchange);
      }
    };
    await Promise.all([writes(), reads(kit.session()), reads(kit.session())]);
  }),
  check("time.clock-back", {
    at,
    says: "The second half of rule 2 matters if a clock is set back after an idle day.",
    hint: "Store the highest now that a reply gave, and give no version below it.",
    rule,
    needs: ["clock"],
    isAlone: true,
  }, async (kit) => {
    const session = kit.session();
    await session.put("Note", { id: "a" });
    const before = await session.pull("Note");
    await kit.hooks.clock({ KIT_OFFSET_MS: "-86400000" });
    try {
      const { v, exchange } = await session.put("Note", { id: "b", text: fresh() });
      kit.expect(v >= before.reply.now - 1000 - kit.options.skew, `a version not far below the now ${before.reply.now}, although the clock is set back`, exchange);
      const { rows } = await session.pull("Note", before.reply.now - before.reply.delta);
      kit.expect(rows.some((row) => row.v === v), "the write in a pull from now - delta");
      const { reply } = await session.pull("Note");
      kit.expect(reply.now > before.reply.now - before.reply.delta, "a now that does not go back with the clock");
    } finally {
      await kit.hooks.clock({ KIT_OFFSET_MS: "0" });
    }
  }),
];
