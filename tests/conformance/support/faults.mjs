// Faults planted in `escale-handler`. Each is one change of one of its methods, and has the check of the kit that has to find
// it. The handler itself knows nothing of them.
import { createServer } from "node:http";
import { WebSocketServer } from "ws";

import { SCHEMA } from "../../../conformance/src/index.mjs";
import { BUILT_IN } from "../../../handler/src/engine/operations.mjs";
import { run } from "../../../handler/src/engine/run.mjs";
import { keyOf, keyOfOperation, OPERATIONS, SESSIONS } from "../../../handler/src/engine/tables.mjs";
import { createHandler, memory } from "../../../handler/src/index.mjs";
import { toNode } from "../../../handler/src/node.mjs";
import { ITEM_FAULTS, NUMBER_FAULTS } from "./faults-of-trees.mjs";

/** Lets `change` see each reply before it is sent. */
const replies = (change) => ({ engine }) => {
  const { reply } = engine;
  engine.reply = function* (tx, given) {
    const one = yield* reply.call(engine, tx, given);
    change(one, given);
    return one;
  };
};
/** Lets `change` see each part with rows. */
const parts = (change) => replies((one) => one.parts.filter(({ fault }) => !fault).forEach((part) => change(part)));
/** Lets `change` replace the arguments of a method of the engine, or of its reader. */
const given = (name, change) => ({ engine }) => {
  const owner = name in engine.reader ? engine.reader : engine;
  const { [name]: call } = owner;
  owner[name] = (...args) => call.apply(owner, change(...args));
};
/** Lets `change` see each write before it is committed. */
const finished = (change) => ({ engine }) => {
  const { finish } = engine;
  engine.finish = function* (write, state) {
    change(write);
    yield* finish.call(engine, write, state);
  };
};
/** The number of the session's last operation, in a storage that answers at once. */
const lastOf = ({ storage }, org, session) => storage.read(org, (tx) => tx.get(org, SESSIONS, [keyOf(session)]))[0]?.value.last ?? 0;

const reversed = (text) => [...text].reverse().join("");

/** Each fault with the id of the check that finds it, and perhaps options of the run that has to find it. */
export const FAULTS = {
  "now is in seconds": ["watch.now", replies((one) => (one.now = Math.floor(one.now / 1000)))],
  "now was read too late": ["time.versions-rise", replies((one) => (one.now += 3000))],
  "a wrong pk": ["watch.pk", parts((part) => (part.rows = part.rows.map((row) => ({ ...row, pk: reversed(row.pk) }))))],
  "references nobody asked for": ["references.only-if-asked", replies((one) => {
    one.parts.slice(1).forEach(({ rows }) => rows?.forEach((row) => delete row.data));
  })],
  "references that lead forward": ["references.lead-back", replies((one) => {
    const name = ({ def }, { pk, v }) => `${def.split(/[/@]/)[0]} ${pk} ${v}`;
    const later = new Set();
    for (const part of [...one.parts].reverse()) {
      const names = part.rows?.filter(({ data }) => data).map((row) => name(part, row)) ?? [];
      part.rows = part.rows?.map((row) => (later.has(name(part, row)) ? { ...row, data: undefined } : row));
      names.forEach((one) => later.add(one));
    }
  })],
  "no present": ["watch.present", parts((part) => delete part.present)],
  "rows out of order": ["watch.order", parts((part) => part.rows.reverse())],
  "data without its key properties": ["watch.pk", parts((part) => {
    part.rows = part.rows.map((row) => (row.data ? { ...row, data: { ...row.data, id: undefined } } : row));
  })],
  "seq is always 0": ["watch.seq", replies((one) => (one.seq = 0))],
  "seq counts operations without results": ["watch.counted", replies((one) => (one.results = one.results.slice(0, -1)))],
  "null for a field without a value": ["watch.no-null", parts((part) => (part.left = part.left.length ? part.left : null))],
  "the asked version is excluded": ["pull.asked-version-included", given("answer", (snapshot, [def, v, ...cursor], ...rest) => {
    return [snapshot, [def, cursor.length || v === 0 ? v : v + 1, ...cursor], ...rest];
  })],
  "a def that is named again is answered again": ["pull.same-def-twice", ({ engine: { reader } }) => {
    reader.groups = (subs) => subs.map((sub) => [sub]);
  }],
  "departures are not told": ["pull.departure", parts((part) => (part.left = []))],
  "departures are not told to a load": ["pull.departure-in-a-load", replies((one, { request }) => {
    const loads = new Set(request.subs.filter(([, v]) => v === 0).map(([def]) => def));
    for (const part of one.parts) if (loads.has(part.def) && part.left) part.left = [];
  })],
  "a tombstone only in the class": ["pull.deletion-everywhere", parts((part) => {
    if (part.def.includes("/")) part.rows = part.rows.filter(({ deleted }) => !deleted);
  })],
  "a cursor is not signed": ["pages.forged-cursor", ({ engine: { reader } }) => {
    reader.readCursor = (snapshot, cursor) => {
      try {
        const [first, total, ...after] = JSON.parse(Buffer.from(cursor.split(".")[0], "base64url").toString());
        return { first, total, after };
      } catch {
        return undefined;
      }
    };
  }],
  "a cursor of any def": ["pages.cursor-of-another", given("sign", (snapshot, place) => [{ ...snapshot, org: "" }, place, "", 0])],
  "the end of a life is not looked at": ["life.ended", given("answer", (snapshot, ...rest) => [{ ...snapshot, now: 0 }, ...rest])],
  "a life ends after its minute": ["life.ended", given("answer", (snapshot, ...rest) => [{ ...snapshot, now: snapshot.now - 60_000 }, ...rest])],
  "total counts what has ended": ["life.not-counted", parts((part) => {
    if (part.total !== undefined) part.total += 1;
  })],
  "404 for an org without data": ["empty-org.pull", replies((one, { org }) => {
    if (one.parts.length && one.parts.every(({ rows }) => !rows?.length) && one.seq === 0) throw Object.assign(new Error("none"), { isUnknownOrg: org });
  })],
  "an operation is executed again": ["once.again", ({ engine }) => {
    const { operate, storage } = engine;
    engine.operate = (org, caller, request, op) => {
      storage.write(org, (tx) => tx.set([[org, OPERATIONS, keyOfOperation(caller.account, op.id), undefined]]));
      return operate.call(engine, org, caller, request, { ...op, seq: lastOf(engine, org, request.session) + 1 });
    };
  }],
  "a gap is executed": ["once.gap", ({ engine }) => {
    const { operate } = engine;
    engine.operate = (org, caller, request, op) => {
      const last = lastOf(engine, org, request.session);
      return operate.call(engine, org, caller, request, op.seq > last ? { ...op, seq: last + 1 } : op);
    };
  }],
  "the epoch of a request is not looked at": ["once.foreign-epoch", given("operate", (org, caller, request, op) => {
    return [org, caller, { ...request, epoch: undefined }, op];
  })],
  "a fault ends the results": ["unexecuted.completed", ({ engine }) => {
    engine.complete = function* (tx, org, account, ops, results, fault) {
      results.push({ id: ops[results.length].id, fault: fault.toMap() });
    };
  }],
  "an unchanged put gives 0": ["versions.unchanged", ({ engine }) => {
    const { attempt } = engine;
    engine.attempt = function* (...args) {
      const { write, result } = yield* attempt.apply(engine, args);
      return { write, result: result.ok && write.defs.size === 0 ? { ...result, ok: { v: 0 } } : result };
    };
  }],
  "a batch is not whole": ["built-in.batch-is-whole", ({ engine }) => {
    engine.operations.batch = function* (...args) {
      try {
        yield* BUILT_IN.batch(...args);
      } catch (error) {
        if (error.kind === "C") throw error;
      }
    };
  }],
  "a write is hinted in its new defs only": ["socket.hints-in-every-def", finished((write) => {
    for (const [, table, , row] of write.changes.values()) if (table.includes("/") && row?.state === "left") write.defs.delete(table);
  })],
  "a socket is confirmed before it is registered": ["socket.registered-before-confirmed", ({ sockets }) => {
    const { join } = sockets;
    // Registered a moment after the confirmation.
    sockets.join = (...args) => setTimeout(() => join.apply(sockets, args), 60);
  }],
  "the head is read before the last write": ["socket.head", ({ engine }) => {
    const { head } = engine;
    engine.head = function* (org) {
      const { epoch, highest } = yield* head.call(engine, org);
      return { epoch, highest: highest - 1 };
    };
  }],
  "hints come late": ["socket.within-a-second", ({ sockets }) => {
    const { join } = sockets;
    sockets.join = (org, hear) => join.call(sockets, org, (...args) => setTimeout(() => hear(...args), 1200));
  }],
  "no headers for other origins on refusals": ["http.exposed-headers", (handler) => {
    const { fetch } = handler;
    handler.fetch = async (request) => {
      const response = await fetch(request);
      const hidden = response.status >= 400 ? ["Access-Control-Allow-Origin", "Access-Control-Expose-Headers"] : [];
      hidden.forEach((name) => response.headers.delete(name));
      return response;
    };
  }],
  "the epoch is not renewed": ["epoch.renewed", (handler) => (handler.renewEpoch = () => {})],
  ...ITEM_FAULTS,
  ...NUMBER_FAULTS,
};

/** Starts the handler with a fault, and returns the options of a run of the kit, and `stop`. */
export async function plant(name, schema = SCHEMA) {
  // Some faults have an error of the server itself as their effect.
  const handler = createHandler({ schema, storage: memory(), origins: "*", ...(name && { onError: () => {} }) });
  const { engine } = handler;
  if (name) FAULTS[name][1](handler);
  const { request, upgrade } = toNode(handler, new WebSocketServer({ noServer: true }));
  const http = createServer(request).on("upgrade", upgrade);
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const stop = async () => {
    handler.sockets.closeAll();
    const closed = new Promise((resolve) => http.close(resolve));
    http.closeAllConnections();
    await closed;
  };
  /** A purge with nothing kept of one kind. */
  const without = (bound) => () => {
    const { [bound]: kept } = engine;
    engine[bound] = 0;
    run(engine.purge());
    engine[bound] = kept;
  };
  const url = `http://127.0.0.1:${http.address().port}`;
  return { options: { url, renew: () => handler.renewEpoch(), purge: without("retentionMs"), forget: without("resultsMs") }, stop };
}
