// A server within the page: an adapter object that keeps notes in memory and executes `doc.put`, each operation once.

const DELTA = 10;

async function shaS(text) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  const chars = btoa(String.fromCharCode(...digest.subarray(3, 19)));
  return chars.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Makes `{ adapter, notes, executed }`: `executed` has the ids of the executed operations. */
export function makePageServer() {
  // The page's own clock may be made to fail.
  const start = 1_700_000_000_000;
  let clock = start;
  const rows = new Map();
  const results = new Map();
  const sessions = new Map();
  const executed = [];
  let hear = () => {};

  async function execute(session, op) {
    if (results.has(op.id)) return results.get(op.id);
    const last = sessions.get(session) ?? 0;
    if (op.seq !== last + 1) {
      return { id: op.id, fault: { code: "order_gap", kind: "C", phase: 0, message: "a gap" } };
    }
    sessions.set(session, op.seq);
    clock += 1;
    executed.push(op.id);
    const pk = await shaS(op.args.data.id);
    rows.set(pk, { pk, v: clock, data: op.args.data });
    const result = { id: op.id, ok: { v: clock } };
    results.set(op.id, result);
    return result;
  }

  const adapter = {
    async sync(request) {
      const done = [];
      for (const op of request.ops) done.push(await execute(request.session, op));
      clock += 100 * DELTA;
      const parts = request.subs.map(([def, v]) => ({
        def,
        rows: [...rows.values()].filter((row) => row.v >= v).sort((a, b) => a.v - b.v),
        left: [],
        ...(v === 0 ? { present: [...rows.keys()] } : {}),
      }));
      return { p: 1, epoch: [start, "page"], now: clock, delta: DELTA, seq: sessions.get(request.session) ?? 0, results: done, parts };
    },
    listen(_defs, on) {
      hear = on;
      return () => {
        if (hear === on) hear = () => {};
      };
    },
  };
  return { adapter, executed, notes: () => [...rows.values()].map(({ data }) => data.id).sort() };
}
