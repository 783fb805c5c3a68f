// A server that lies: nothing wrong is shown or stored, and each lie has its named error (R23).
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { once } from "node:events";
import { test } from "node:test";

import { bytesOf, codeOf, Device, isEqual, MIB, orphansOf, recordsOf, until } from "./support.mjs";

const shaOf = (bytes) => createHash("sha256").update(bytes).digest("base64url");

/** The objects of a file. */
function objectsOf(bytes) {
  const chunks = [];
  for (let from = 0; from < bytes.length; from += MIB) chunks.push(bytes.subarray(from, from + MIB));
  const list = Buffer.concat(chunks.map((chunk) => createHash("sha256").update(chunk).digest()));
  const objects = new Map(chunks.map((chunk) => [shaOf(chunk), chunk]));
  const sha = chunks.length > 1 ? shaOf(list) : shaOf(chunks[0]);
  if (chunks.length > 1) objects.set(sha, list);
  return { ref: { sha, size: bytes.length }, objects, chunks: chunks.map(shaOf) };
}

/** A server whose answers the test gives. It counts the requests, and the bytes that it could send. */
async function liar(t, answer) {
  const server = createServer((request, response) => {
    server.count += 1;
    answer(request.url.split("/").at(-1), response, request);
  });
  server.count = 0;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close().closeAllConnections());
  return Object.assign(server, { url: `http://127.0.0.1:${server.address().port}` });
}

const FILE = objectsOf(bytesOf(2 * MIB + 9, 5));
const OTHER = objectsOf(bytesOf(2 * MIB + 9, 6));
const SMALL = objectsOf(bytesOf(999, 7));

/** Each lie about an object, in place of `honest`. */
const LIES = {
  "wrong bytes": (honest) => honest.map((byte, at) => (at === 3 ? byte ^ 1 : byte)),
  "a byte too few": (honest) => honest.subarray(1),
  "a byte too many": (honest) => Buffer.concat([honest, Buffer.from([0])]),
  "nothing": () => Buffer.alloc(0),
  "another file's object of the same length": (honest, sha) => OTHER.objects.get(sha === FILE.ref.sha ? OTHER.ref.sha : OTHER.chunks[0]),
  "a body without an end": () => undefined,
};

for (const [lie, tell] of Object.entries(LIES)) {
  for (const [part, lied] of [["the list", FILE.ref.sha], ["a chunk", FILE.chunks[1]], ["a small file", SMALL.ref.sha]]) {
    const { ref, objects } = part === "a small file" ? SMALL : FILE;
    test(`${lie} for ${part}`, async (t) => {
      let sent = 0;
      const server = await liar(t, (sha, response) => {
        const honest = objects.get(sha);
        const bytes = sha === lied ? tell(honest, sha) : honest;
        if (bytes) return response.end(bytes);
        const block = Buffer.alloc(64 << 10);
        const more = () => {
          while (!response.destroyed && response.write(block)) sent += block.length;
          if (!response.destroyed) response.once("drain", more);
        };
        more();
      });
      const device = new Device(server.url);
      t.after(() => device.end());
      const tab = await device.open();
      assert.equal(await codeOf(tab.files.bytes(ref)), "file_damaged");
      // Once, and three times again.
      assert.equal(server.count - (part === "a chunk" ? 3 : 0), 4);
      // Buffers on the way take some, and then nobody reads.
      assert.ok(sent < 4 * 24 * MIB, `${sent}`);
      const damaged = await recordsOf(device, "c");
      assert.ok(damaged.length <= 2, "no record of the bytes that were wrong");
      assert.equal(await orphansOf(device), 0);
      tab.files.keep(ref);
      await until(() => tab.files.state(ref).phase === "failed");
      assert.equal(tab.files.state(ref).error.code, "file_damaged");
    });
  }
}

test("a reference with another size, and one to a list as if it were a file", async (t) => {
  const server = await liar(t, (sha, response) => response.end(FILE.objects.get(sha)));
  const device = new Device(server.url);
  t.after(() => device.end());
  const { files } = await device.open();
  for (const size of [FILE.ref.size - 1, FILE.ref.size + MIB, 96, 10]) {
    const code = await codeOf(files.bytes({ sha: FILE.ref.sha, size }));
    // The list is an object as well: its bytes match.
    assert.equal(code, size === 96 ? "ok" : "file_damaged", `${size}`);
  }
  assert.ok(isEqual(await files.bytes(FILE.ref), bytesOf(2 * MIB + 9, 5)));
});

const REFUSALS = [
  [404, { code: "not_found", kind: "N" }, "file_missing"],
  [403, { code: "forbidden", kind: "S" }, "forbidden"],
  [403, undefined, "forbidden"],
  [401, { code: "unauthorized", kind: "S" }, "unauthorized"],
  [501, { code: "not_supported", kind: "A" }, "not_supported"],
  [503, { code: "unavailable", kind: "O" }, "unavailable"],
  [500, undefined, "offline"],
  [404, undefined, "offline"],
  [418, { code: "own_code", kind: "A" }, "own_code"],
];
for (const [status, body, code] of REFUSALS) {
  test(`a reading that is answered ${status} ${body?.code ?? "without a message"} fails with ${code}`, async (t) => {
    const server = await liar(t, (_, response) => {
      response.statusCode = status;
      response.end(body ? JSON.stringify({ ...body, phase: 0, message: "no" }) : "<html>");
    });
    const device = new Device(server.url);
    t.after(() => device.end());
    const { files } = await device.open();
    assert.equal(await codeOf(files.bytes(SMALL.ref)), code);
  });
}

const VERDICTS = [
  [403, "forbidden"],
  [413, "too_large"],
  [501, "not_supported"],
  [507, "quota_exceeded"],
  [400, "bad_value"],
];
for (const [status, code] of VERDICTS) {
  for (const at of ["POST", "PUT"]) {
    test(`an upload whose ${at} is answered ${status} is settled with ${code}`, async (t) => {
      const server = await liar(t, (_, response, request) => {
        request.resume();
        if (request.method !== at) return response.end(JSON.stringify({ epoch: [1, "a"], there: [], until: 1 }));
        response.statusCode = status;
        response.end(JSON.stringify({ code, kind: "A", phase: 0, message: "no" }));
      });
      const device = new Device(server.url);
      t.after(() => device.end());
      const tab = await device.open();
      const ref = await tab.files.add(bytesOf(10));
      assert.deepEqual(await tab.word(ref.sha), [{ shas: [ref.sha], verdict: code, epoch: undefined }]);
      const { phase, error } = tab.files.state(ref);
      assert.deepEqual([phase, error.code], ["failed", code]);
    });
  }
}

test("answers that pass are waited for: the word is `there` in the end", async (t) => {
  // The pauses are random parts of bounds that double: with these parts nothing is waited for in real time.
  t.mock.method(Math, "random", () => 0);
  const objects = new Set();
  const refusals = [408, 422, 429, 500, 503, 504, "cut", "html", "no epoch", "not confirmed"];
  const server = await liar(t, (sha, response, request) => {
    request.resume();
    const refusal = refusals[0];
    if (request.method === "POST") {
      const there = refusal === "not confirmed" && objects.size > 0 && refusals.shift() ? [] : [...objects];
      if (refusal === "html") return refusals.shift(), response.end("<html>");
      if (refusal === "no epoch") return refusals.shift(), response.end("{}");
      return response.end(JSON.stringify({ epoch: [1, "a"], there, until: 1 }));
    }
    if (typeof refusal === "number") response.statusCode = refusals.shift();
    else if (refusal === "cut") return refusals.shift(), response.destroy();
    else objects.add(sha.split("?")[0]);
    response.end("{}");
  });
  const device = new Device(server.url);
  t.after(() => device.end());
  const tab = await device.open();
  const ref = await tab.files.add(bytesOf(10));
  const states = [];
  tab.files.subscribe(ref, ({ phase, error }) => states.push(error?.code ?? phase));
  assert.deepEqual(await tab.word(ref.sha), [{ shas: [ref.sha], verdict: "there", epoch: [1, "a"] }]);
  assert.deepEqual(refusals, []);
  for (const code of ["file_damaged", "unavailable", "offline", "bad_reply"]) assert.ok(states.includes(code), `${code} of ${states}`);
  assert.equal(states.at(-1), "here");
});

test("a token that the server refuses is replaced, once for each request", async (t) => {
  const asked = [];
  const server = await liar(t, (sha, response, request) => {
    if (request.headers.authorization === "Bearer new") return response.end(SMALL.objects.get(sha));
    response.statusCode = 401;
    response.end(JSON.stringify({ code: "unauthorized", kind: "S", phase: 0, message: "no" }));
  });
  const device = new Device(server.url);
  t.after(() => device.end());
  const { files } = await device.open({ token: async (refused) => (asked.push(refused), refused === undefined ? "old" : "new") });
  assert.ok(isEqual(await files.bytes(SMALL.ref), bytesOf(999, 7)));
  assert.deepEqual(asked, [undefined, "old"]);
});
