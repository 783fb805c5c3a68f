// The socket: subscriptions, hints, signs of life, and how it closes.
import { check } from "../check.mjs";
import { fresh, inBox, note, ofKind, shaS, tagged } from "../names.mjs";

const at = "socket";

export const socket = [
  check("socket.confirms", {
    at,
    says: "confirms `subs`: the defs that the server listens to, and `[def, fault]` of those that it refuses",
    hint: "A def that is valid but unknown is refused; the others live.",
  }, async (kit) => {
    for (const form of ["json", "msgpack"]) {
      const socket = kit.socket({ form });
      const defs = ["Note", note("a"), inBox("in"), "Page"];
      const { reply } = await socket.subscribe([...defs, "Nope", "Log"]);
      kit.equal([...reply.live].sort(), [...defs].sort(), "live", socket);
      kit.equal((reply.refused ?? []).map(([def]) => def).sort(), ["Log", "Nope"], "the refused defs", socket);
      for (const [, fault] of reply.refused) kit.isFault(fault, "unknown_def", socket);
    }
  }),
  check("socket.silent-before", {
    at,
    says: "Before the first message, the server sends nothing.",
    hint: "The form of the frames is not known yet.",
  }, async (kit) => {
    const socket = kit.socket();
    await socket.open;
    await kit.session().put("Note", { id: "a" });
    await kit.wait(300);
    kit.equal(socket.messages.length, 0, "the number of messages", socket);
  }),
  check("socket.registered-before-confirmed", {
    at,
    says: "The server registers the defs *before* it confirms them. The session pulls after the confirmation, and so misses nothing.",
    hint: "A write right after the confirmation has to be hinted.",
    rule: "R9",
  }, async (kit) => {
    const writer = kit.session();
    for (let i = 0; i < 15; i++) {
      const socket = kit.socket();
      await socket.subscribe([note(`${i}`), "Page"]);
      const { v } = await writer.put("Note", { id: `${i}` });
      await socket.hint(note(`${i}`), v);
      socket.stop();
    }
  }),
  check("socket.head", {
    at,
    says: "A confirmation may name the org's `epoch` and its `highest` committed version, both read after the registration.",
    hint: "A session that knows more than `highest` pulls nothing: a lower one hides changes from it. Leave both out otherwise.",
    rule: "R43",
  }, async (kit) => {
    const { v } = await kit.session().put("Note", { id: "a" });
    const { reply: { epoch } } = await kit.session().pull("Note");
    const socket = kit.socket();
    const { reply } = await socket.subscribe(["Note"]);
    if (reply.highest === undefined) return;
    kit.expect(reply.highest >= v, `highest is at least ${v}, not ${reply.highest}`, socket);
    kit.equal(reply.epoch, epoch, "the epoch", socket);
  }),
  check("socket.misses-nothing", {
    at,
    says: "The session pulls after the confirmation, and so misses nothing.",
    hint: "Each write is in the pull after the confirmation, or hinted: there is no gap between them.",
    rule: "R9",
  }, async (kit) => {
    const writer = kit.session();
    let isOver = false;
    const versions = [];
    const writes = async () => {
      for (let n = 0; !isOver; n++) versions.push((await writer.put("Note", { id: "a", n })).v);
    };
    const reads = async () => {
      for (let i = 0; i < 10; i++) {
        const socket = kit.socket();
        await socket.subscribe(["Note"]);
        const part = await kit.session().pull("Note");
        const seen = part.rows[0]?.v ?? 0;
        const { reply } = await socket.until((message) => message.reply?.hints?.some(([, v]) => v > seen), { wanted: `a hint above ${seen}`, ms: 3000 });
        const next = versions.find((v) => v > seen);
        kit.expect(reply.hints[0][1] >= (next ?? 0), "a hint at the next write, or at a later one", socket);
        socket.stop();
      }
      isOver = true;
    };
    await Promise.all([writes(), reads().finally(() => (isOver = true))]);
  }),
  check("socket.hints-in-every-def", {
    at,
    says: "The server hints at a change in every def that held the document before, or holds it afterwards.",
    hint: "A departure concerns the collection that the document left, too.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Note", { id: "a", box: "in", tags: ["red", "blue"], kind: "x" });
    const socket = kit.socket();
    const defs = ["Note", note("a"), inBox("in"), inBox("out"), tagged("red"), tagged("blue"), ofKind("x")];
    await socket.subscribe([...defs, note("b"), inBox("new"), "Page"]);
    const moved = await session.patch("Note", ["a"], { box: "out", tags: ["blue"] });
    for (const def of defs) await socket.hint(def, moved.v);
    const gone = await session.delete("Note", ["a"]);
    for (const def of ["Note", note("a"), inBox("out"), tagged("blue"), ofKind("x")]) await socket.hint(def, gone.v);
    for (const def of [note("b"), inBox("new"), "Page"]) kit.equal(socket.hintsOf(def), [], `hints of ${def}, which nothing changed`, socket);
  }),
  check("socket.hint-version", {
    at,
    says: "`[def, v]`: this def has changed; `v` is the version of the committed change",
    hint: "Hint after the commit, with the version of the commit.",
  }, async (kit) => {
    const session = kit.session();
    const socket = kit.socket();
    await socket.subscribe(["Note"]);
    for (let i = 0; i < 5; i++) {
      const { v } = await session.put("Note", { id: `${i}` });
      await socket.hint("Note", v);
      const above = socket.hintsOf("Note").filter((hint) => hint[1] > v);
      kit.equal(above, [], "hints above the highest version", socket);
    }
  }),
  check("socket.within-a-second", {
    at,
    says: "It hints at every commit of any instance or process, within a second. Every listener gets the hint, also the session that wrote.",
    hint: "Do not gather hints for longer.",
  }, async (kit) => {
    const sockets = Array.from({ length: 4 }, () => kit.socket());
    for (const one of sockets) await one.subscribe(["Note"]);
    const session = kit.session({ name: sockets[0].name });
    const { v, exchange } = await session.put("Note", { id: "a" });
    for (const one of sockets) {
      const { at: came } = await one.hint("Note", v, { ms: 2500 });
      kit.expect(came - exchange.ended <= 1000 + kit.options.slack, `a hint within a second, not after ${came - exchange.ended} ms`, one);
    }
  }),
  check("socket.no-hint-without-change", {
    at,
    says: "this def has changed",
    hint: "A refused operation and a put that changes nothing are no change.",
  }, async (kit) => {
    const session = kit.session();
    const { v } = await session.put("Note", { id: "a", n: 1 });
    const socket = kit.socket();
    await socket.subscribe(["Note"]);
    await session.put("Note", { id: "a", n: 1 });
    await session.refused("not_found", "doc.delete", { class: "Note", key: ["no"] });
    await kit.session({ org: kit.otherOrg }).put("Note", { id: "a", n: 2 });
    const last = await session.put("Note", { id: "a", n: 3 });
    await socket.hint("Note", last.v);
    const odd = socket.hintsOf("Note").filter((hint) => hint[1] !== last.v && hint[1] !== v);
    kit.equal(odd, [], "hints at versions that no change of this org has", socket);
  }),
  check("socket.list-replaces", {
    at,
    says: "the defs, at most 1,000. The list replaces the one before",
    hint: "A def that the new list lacks is not hinted any more.",
  }, async (kit) => {
    const session = kit.session();
    const socket = kit.socket();
    await socket.subscribe(["Note", "Page"]);
    const { reply } = await socket.subscribe(["Page"]);
    kit.equal(reply.live, ["Page"], "live", socket);
    await session.put("Note", { id: "a" });
    const { v } = await session.put("Page", { book: "b", number: "1" });
    await socket.hint("Page", v);
    kit.equal(socket.hintsOf("Note"), [], "hints of a def that the session no longer names", socket);
    const none = await socket.subscribe([]);
    kit.equal(none.reply.live, [], "live of an empty list", socket);
  }),
  check("socket.form-of-frames", {
    at,
    says: "Frames have the form of the session's last message.",
    hint: "The form may change with each message of the session.",
  }, async (kit) => {
    const session = kit.session();
    const socket = kit.socket({ form: "json" });
    for (const form of ["json", "msgpack", "json"]) {
      socket.form = form;
      await socket.subscribe(["Note"]);
      const { v } = await session.put("Note", { id: fresh() });
      const hint = await socket.hint("Note", v);
      kit.equal(hint.form, form, "the form of the hint", socket);
    }
  }),
  check("socket.thousand-subscriptions", {
    at: "limits",
    says: "subscriptions of a request, of a socket's message",
    hint: "1,000 are taken.",
  }, async (kit) => {
    const socket = kit.socket();
    const defs = Array.from({ length: 1000 }, (_, i) => note(`${i}`));
    const { reply } = await socket.subscribe(defs);
    kit.equal(reply.live.length, 1000, "the number of live defs", socket);
    const { v } = await kit.session().put("Note", { id: "999" });
    await socket.hint(note("999"), v);
  }),
  check("socket.too-many-subscriptions", {
    at,
    says: "a message that cannot be used, more than 1,000 subscriptions or more than the server's bytes of names (`too_large`), no message in 10 s, a reader that is too slow",
    hint: "Close with 1008; the reason is the code of the fault.",
  }, async (kit) => {
    const socket = kit.socket();
    await socket.send({ session: socket.name, token: socket.token, subs: Array.from({ length: 1001 }, (_, i) => note(`${i}`)) });
    const { code, reason } = await socket.closes(5000);
    kit.equal([code, reason], [1008, "too_large"], "the code and the reason of the close", socket);
  }),
  check("socket.bad-message", {
    at,
    says: "If a fault closes the socket, the reason of the close is the fault's code.",
    hint: "Close with 1008 and `malformed`, whatever the bytes are.",
  }, async (kit) => {
    for (const message of [{}, { subs: [] }, { session: "s" }, { session: "s", subs: ["Note@"] }, { session: "", subs: [] }, { session: "s", subs: "Note" }, 5]) {
      const socket = kit.socket();
      const map = typeof message === "object" && kit.options.token !== undefined ? { token: kit.options.token, ...message } : message;
      await socket.send(map);
      const { code, reason } = await socket.closes(5000);
      kit.equal([code, reason], [1008, "malformed"], "the code and the reason of the close", socket);
    }
    for (const text of ["{", Buffer.of(0xc1)]) {
      const socket = kit.socket();
      await socket.open;
      socket.socket.send(text, { binary: typeof text !== "string" });
      const { code } = await socket.closes(5000);
      kit.equal(code, 1008, "the code of the close", socket);
    }
  }),
  check("socket.no-org", {
    at,
    says: "A bad org name, another origin, or a request that is no upgrade is refused before the upgrade, by HTTP.",
    hint: "404 for a bad name.",
  }, async (kit) => {
    const socket = kit.socket({ org: "a b" });
    await socket.open.catch(() => {});
    kit.expect([404, ...(kit.options.token === undefined ? [] : [401, 403])].includes(socket.refusal?.status), `status 404, not ${socket.refusal?.status ?? "an upgrade"}`, socket);
  }),
  check("socket.sign-of-life", {
    at,
    says: "a sign of life, at least every 10 s",
    hint: "A message `{}`; a ping of the WebSocket is none, because a page cannot see it.",
    isSlow: true,
  }, async (kit) => {
    const socket = kit.socket();
    await socket.subscribe(["Note"]);
    for (let i = 0; i < 2; i++) {
      const from = socket.messages.length;
      await socket.until(() => true, { from, ms: 10_500, wanted: "a sign of life {}" });
    }
    kit.expect(socket.messages.some(({ reply }) => Object.keys(reply).length === 0), "an empty message", socket);
  }),
  check("socket.no-first-message", {
    at,
    says: "no message in 10 s",
    hint: "Close with 1008, so that sockets that say nothing do not stay.",
    isSlow: true,
  }, async (kit) => {
    const socket = kit.socket();
    await socket.open;
    const { code } = await socket.closes(15_000);
    kit.equal(code, 1008, "the code of the close", socket);
    kit.expect(socket.end.at - socket.opened > 5000, "a close after 10 s, not at once", socket);
  }),
  check("socket.hint-order", {
    at,
    says: "Several changes of a def may become one hint, with the highest `v`.",
    hint: "The last hint of a burst names its last version.",
  }, async (kit) => {
    const sessions = Array.from({ length: 4 }, () => kit.session());
    const socket = kit.socket();
    await socket.subscribe(["Note", note(shaS("x"))]);
    const all = await Promise.all(sessions.map((session, i) => Promise.all([session.put("Note", { id: `${i}` })])));
    const highest = Math.max(...all.flat().map(({ v }) => v));
    await socket.hint("Note", highest);
  }),
];
