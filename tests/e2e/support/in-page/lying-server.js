// A server within the page, as an adapter object, whose answers can be altered byte by byte. It executes `doc.put`,
// each operation once. It begins a later epoch after each lie, which replaces everything that the session believed
// (R8).
import { decode, encode } from "/msgpack/index.mjs";

const START = 1_700_000_000_000;

/** Bytes with a meaning: markers of msgpack, and the signs of JSON. */
const TELLING = [
  0x00, 0x01, 0x7f, 0x80, 0x81, 0x8f, 0x90, 0x91, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xc4, 0xc6, 0xc7, 0xcb, 0xcf, 0xd3,
  0xd9, 0xdb, 0xdc, 0xdd, 0xde, 0xdf, 0xff, 0x7b, 0x5b, 0x22, 0x5c, 0x2d, 0x65, 0x7d,
];

/** Returns the bytes, changed in one to four places. */
export function mutate(bytes, random) {
  let list = Array.from(bytes);
  for (let n = random(4); n >= 0; n--) {
    const at = random(list.length + 1);
    const len = random(Math.min(40, list.length - at + 1));
    const manner = random(8);
    if (manner === 0) list = list.slice(0, at);
    else if (manner === 1) list.splice(at, len);
    else if (manner === 2) list.splice(at, 0, ...list.slice(random(list.length + 1)).slice(0, 60));
    else if (manner === 3) list.splice(at, 0, TELLING[random(TELLING.length)], 0xff, 0xff, 0xff, 0xff);
    else if (at < list.length) list[at] = [list[at] ^ (1 << random(8)), TELLING[random(TELLING.length)], random(256)][manner % 3];
  }
  return Uint8Array.from(list);
}

async function shaS(text) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  const chars = btoa(String.fromCharCode(...digest.subarray(3, 19)));
  return chars.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The epoch in an answer, if it has one: the session may have believed it. */
function toldBy(answer) {
  try {
    const [ms] = (typeof answer === "string" ? JSON.parse(answer) : decode(answer)).epoch;
    return Number.isSafeInteger(ms) && ms > 0 ? ms : 0;
  } catch {
    return 0;
  }
}

/**
 * Makes `{ adapter, rows, lie, lied }`: after `lie()` the next answer is altered. `heard` is called at the first
 * request after that.
 */
export function makeLyingServer(random, heard) {
  let [clock, epoch, isLying, asked] = [START, START, false, 0];
  const [rows, results, sessions] = [new Map(), new Map(), new Map()];
  const server = { lied: 0, rows, lie: () => (isLying = true) };

  async function execute(session, op) {
    if (results.has(op.id)) return results.get(op.id);
    const last = sessions.get(session) ?? 0;
    if (op.seq !== last + 1) {
      const code = op.seq > last ? ["order_gap", "C"] : ["session_reused", "A"];
      return { id: op.id, fault: { code: code[0], kind: code[1], phase: 0, message: "as the test wants it" } };
    }
    sessions.set(session, op.seq);
    clock += 1;
    const pk = await shaS(op.args.data.id);
    rows.set(pk, { pk, v: clock, data: op.args.data });
    const result = { id: op.id, ok: { v: clock } };
    results.set(op.id, result);
    return result;
  }

  async function answer(request) {
    const done = [];
    for (const op of request.ops) done.push(await execute(request.session, op));
    clock += 1_000;
    const ascending = [...rows.values()].sort((a, b) => a.v - b.v);
    const parts = request.subs.map(([def]) => ({ def, rows: ascending, left: [], present: [...rows.keys()] }));
    const seq = sessions.get(request.session) ?? 0;
    return { p: 1, epoch: [epoch, "page"], now: clock, delta: 10, seq, results: done, parts };
  }

  function written(message) {
    if (random(2) === 0) return JSON.stringify(message);
    const parts = message.parts.map((part) => ({ ...part, rows: part.rows.map((row) => ({ ...row, data: encode(row.data) })) }));
    return encode({ ...message, parts });
  }

  server.adapter = {
    async sync(request) {
      if (!isLying) {
        // Later at each request: a session may read the lie in more ways than this server can.
        asked += 1;
        if (asked === 1 && server.lied > 0) heard();
        if (asked > 1) epoch = Math.min(epoch + 2 ** Math.min(asked, 50), Number.MAX_SAFE_INTEGER);
        return written(await answer(request));
      }
      [isLying, asked] = [false, 0];
      const honest = written(await answer(request));
      const bytes = mutate(typeof honest === "string" ? new TextEncoder().encode(honest) : honest, random);
      const lie = typeof honest === "string" ? new TextDecoder().decode(bytes) : bytes;
      server.lied += 1;
      epoch = Math.max(epoch, toldBy(lie)) + 1;
      return lie;
    },
  };
  return server;
}
