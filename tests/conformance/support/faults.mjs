// Faults planted in the server of examples/servers/node. Each is one change of one of its methods, and has the check of
// the kit that has to find it. The tutorial itself knows nothing of them.
import { createServer } from "node:http";

import { SCHEMA } from "../../../conformance/src/index.mjs";
import { OPERATIONS, Server, closeSockets, handle, upgrade } from "../../../examples/servers/node/server.mjs";
import { ITEM_FAULTS, NUMBER_FAULTS } from "./faults-of-trees.mjs";

/** Lets `change` see each reply before it is sent. */
const reply = (change) => (server) => {
  const { sync } = server;
  server.sync = (...args) => change(sync.apply(server, args), ...args) ?? sync.apply(server, args);
};
const replies = (change) => reply((one) => {
  change(one);
  return one;
});
/** Lets `change` see each part with rows. */
const parts = (change) => replies((one) => one.parts.filter(({ fault }) => !fault).forEach((part) => change(part)));

const reversed = (text) => [...text].reverse().join("");

/** Each fault with the id of the check that finds it, and perhaps options of the run that has to find it. */
export const FAULTS = {
  "now is in seconds": ["watch.now", replies((one) => (one.now = Math.floor(one.now / 1000)))],
  "now was read too late": ["time.versions-rise", replies((one) => (one.now += 3000))],
  "a wrong pk": ["watch.pk", parts((part) => (part.rows = part.rows.map((row) => ({ ...row, pk: reversed(row.pk) }))))],
  "references nobody asked for": ["references.only-if-asked", replies((one) => {
    one.parts.slice(1).forEach(({ rows }) => rows?.forEach((row) => delete row.data));
  })],
  "references that lead forward": ["references.lead-back", reply((one) => {
    const name = ({ def }, { pk, v }) => `${def.split(/[/@]/)[0]} ${pk} ${v}`;
    const later = new Set();
    for (const part of [...one.parts].reverse()) {
      const names = part.rows?.filter(({ data }) => data).map((row) => name(part, row)) ?? [];
      part.rows = part.rows?.map((row) => (later.has(name(part, row)) ? { ...row, data: undefined } : row));
      names.forEach((one) => later.add(one));
    }
    return one;
  })],
  "no present": ["watch.present", parts((part) => delete part.present)],
  "rows out of order": ["watch.order", parts((part) => part.rows.reverse())],
  "data without its key properties": ["watch.pk", parts((part) => {
    part.rows = part.rows.map((row) => (row.data ? { ...row, data: { ...row.data, id: undefined } } : row));
  })],
  "seq is always 0": ["watch.seq", replies((one) => (one.seq = 0))],
  "seq counts operations without results": ["watch.counted", replies((one) => (one.results = one.results.slice(0, -1)))],
  "null for a field without a value": ["watch.no-null", parts((part) => (part.left = part.left.length ? part.left : null))],
  "the asked version is excluded": ["pull.asked-version-included", (server) => {
    const { answer } = server;
    server.answer = (org, [def, v, ...cursor], ...rest) => answer.call(server, org, [def, cursor.length || v === 0 ? v : v + 1, ...cursor], ...rest);
  }],
  "a def that is named again is answered again": ["pull.same-def-twice", (server) => {
    server.groups = (subs) => subs.map((sub) => [sub]);
  }],
  "departures are not told": ["pull.departure", parts((part) => (part.left = []))],
  "a tombstone only in the class": ["pull.deletion-everywhere", parts((part) => {
    if (part.def.includes("/")) part.rows = part.rows.filter(({ deleted }) => !deleted);
  })],
  "a cursor is not signed": ["pages.forged-cursor", (server) => {
    server.readCursor = (cursor) => {
      try {
        return JSON.parse(Buffer.from(cursor.split(".")[0], "base64url").toString());
      } catch {
        return undefined;
      }
    };
  }],
  "a cursor of any def": ["pages.cursor-of-another", (server) => {
    const { sign } = server;
    server.sign = (place) => sign.call(server, place, "", "", 0);
  }],
  "the end of a life is not looked at": ["life.ended", (server) => {
    const { answer } = server;
    server.answer = (org, sub, now, ...rest) => answer.call(server, org, sub, 0, ...rest);
  }],
  "a life ends after its minute": ["life.ended", (server) => {
    const { answer } = server;
    server.answer = (org, sub, now, ...rest) => answer.call(server, org, sub, now - 60_000, ...rest);
  }],
  "total counts what has ended": ["life.not-counted", parts((part) => {
    if (part.total !== undefined) part.total += 1;
  })],
  "404 for an org without data": ["empty-org.pull", reply((one, org) => {
    if (one.parts.length && one.parts.every(({ rows }) => !rows?.length) && one.seq === 0) throw Object.assign(new Error("none"), { isUnknownOrg: org });
    return one;
  })],
  "an operation is executed again": ["once.again", (server) => {
    const { operate } = server;
    server.operate = (org, caller, request, op) => {
      server.db.put(`operations ${org}`, `${caller.account} ${op.id}`, undefined);
      const last = server.db.table(`sessions ${org}`).get(request.session)?.last ?? 0;
      return operate.call(server, org, caller, request, { ...op, seq: last + 1 });
    };
  }],
  "a gap is executed": ["once.gap", (server) => {
    const { operate } = server;
    server.operate = (org, caller, request, op) => {
      const last = server.db.table(`sessions ${org}`).get(request.session)?.last ?? 0;
      return operate.call(server, org, caller, request, op.seq > last ? { ...op, seq: last + 1 } : op);
    };
  }],
  "the epoch of a request is not looked at": ["once.foreign-epoch", (server) => {
    const { operate } = server;
    server.operate = (org, caller, request, op) => operate.call(server, org, caller, { ...request, epoch: undefined }, op);
  }],
  "a fault ends the results": ["unexecuted.completed", (server) => {
    server.complete = (org, account, ops, results, fault) => void results.push({ id: ops[results.length].id, fault: fault.toMap() });
  }],
  "an unchanged put gives 0": ["versions.unchanged", (server) => {
    const { operate } = server;
    server.operate = (...args) => {
      const before = server.db.meta("highest");
      const result = operate.apply(server, args);
      const isUnchanged = result.ok && server.db.meta("highest") === before;
      return isUnchanged ? { ...result, ok: { v: 0 } } : result;
    };
  }],
  "a batch is not whole": ["built-in.batch-is-whole", (server) => {
    server.operations.batch = (write, args) => {
      try {
        OPERATIONS.batch(write, args);
      } catch (error) {
        if (error.kind === "C") throw error;
      }
    };
  }],
  "a write is hinted in its new defs only": ["socket.hints-in-every-def", (server) => {
    const { commit } = server;
    server.commit = (write) => {
      const left = [...write.changes.values()].filter(([table, , row]) => table.startsWith("members") && row?.state === "left");
      for (const [table] of left) write.defs.delete(table.split(" ")[2]);
      commit.call(server, write);
    };
  }],
  "a socket is confirmed before it is registered": ["socket.registered-before-confirmed", (server) => {
    const { add } = server.listeners;
    // Registered a moment after the confirmation.
    server.listeners.add = (listener) => setTimeout(() => add.call(server.listeners, listener), 60);
  }],
  "the head is read before the last write": ["socket.head", (server) => {
    const { head } = server;
    // By an hour, because this server's head has the writes of all orgs, and other checks write meanwhile.
    server.head = () => ({ ...head.call(server), highest: head.call(server).highest - 3_600_000 });
  }],
  "hints come late": ["socket.within-a-second", (server) => {
    const { add } = server.listeners;
    server.listeners.add = (listener) => add.call(server.listeners, (...args) => setTimeout(() => listener(...args), 1200));
  }],
  "no headers for other origins on refusals": ["http.exposed-headers", (server) => (server.hidesHeaders = true)],
  "the epoch is not renewed": ["epoch.renewed", (server) => (server.db.renewEpoch = () => {})],
  ...ITEM_FAULTS,
  ...NUMBER_FAULTS,
};

/** Starts the server with a fault, and returns the options of a run of the kit, and `stop`. */
export async function plant(name, schema = SCHEMA) {
  const server = new Server({ schema });
  if (name) FAULTS[name][1](server);
  const http = createServer((request, response) => {
    const { writeHead } = response;
    response.writeHead = (status, headers) => {
      const hidden = server.hidesHeaders && status >= 400 ? ["Access-Control-Allow-Origin", "Access-Control-Expose-Headers"] : [];
      return writeHead.call(response, status, Object.fromEntries(Object.entries(headers).filter(([header]) => !hidden.includes(header))));
    };
    handle(server, request, response).catch(() => response.destroy());
  });
  http.on("upgrade", (request, stream, head) => upgrade(server, request, stream.on("error", () => stream.destroy()), head));
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const stop = async () => {
    closeSockets();
    const closed = new Promise((resolve) => http.close(resolve));
    http.closeAllConnections();
    await closed;
  };
  const purge = () => {
    const kept = server.retentionMs;
    server.retentionMs = 0;
    server.purge();
    server.retentionMs = kept;
  };
  const forget = () => {
    const kept = server.resultsMs;
    server.resultsMs = 0;
    server.purge();
    server.resultsMs = kept;
  };
  return { options: { url: `http://127.0.0.1:${http.address().port}`, renew: () => server.db.renewEpoch(Date.now()), purge, forget }, stop };
}
