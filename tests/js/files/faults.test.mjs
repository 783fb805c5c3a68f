// Each call of the database, the network and the cipher fails in turn, and the page ends there: the next page goes on,
// nothing is lost, and nothing is left behind (R25, R26).
import assert from "node:assert/strict";
import { test } from "node:test";

import { Chaos } from "./chaos.mjs";
import { bytesOf, Device, filesServer, isEqual, MIB, orphansOf, until } from "./support.mjs";

const BYTES = bytesOf(MIB + 5, 3);

/** Runs `work` with the k-th call failing, for each k, until no call fails any more. */
async function eachCall(t, how, work) {
  const chaos = new Chaos(t);
  let k = 0;
  do {
    await work(chaos, k);
    k += 1;
  } while (chaos.isHit);
  assert.ok(k > 30, `${k} calls`);
}

for (const how of ["dead", "once", "abort"]) {
  test(`adding and sending a file: each call fails (${how})`, async (t) => {
    const server = await filesServer(t);
    await eachCall(t, how, async (chaos, k) => {
      const what = `${how} ${k}`;
      const org = `${how}-${k}`;
      const device = new Device(server.url, { org });
      chaos.arm(k, how);
      let ref;
      let word;
      const first = await device.open().catch((error) => assert.equal(typeof error.code, "string", what));
      if (first) {
        ref = await first.files.add(BYTES).catch((error) => assert.equal(typeof error.code, "string", what));
        if (ref) word = first.word(ref.sha);
        // A page that lives on has its word in the end.
        let isSaid = !word;
        void word?.then(() => (isSaid = true));
        await until(() => isSaid || (how === "dead" && chaos.isHit));
      }
      chaos.disarm();
      device.end();

      const next = await device.open();
      if (!ref) {
        // No record names the chunks, and they go.
        await until(async () => (await orphansOf(device)) === 0);
        ref = await next.files.add(BYTES);
      }
      const [{ verdict }] = await next.word(ref.sha);
      assert.equal(verdict, "there", what);
      assert.ok(isEqual(await next.files.bytes(ref), BYTES), what);
      const other = new Device(server.url, { org });
      assert.ok(isEqual(await (await other.open()).files.bytes(ref), BYTES), what);
      await until(async () => (await orphansOf(device)) === 0);
      assert.deepEqual(next.errors, [], what);
      device.end();
      other.end();
    });
  });

  test(`keeping a file: each call fails (${how})`, async (t) => {
    const server = await filesServer(t);
    const author = new Device(server.url);
    const page = await author.open();
    const ref = await page.files.add(BYTES);
    await page.word(ref.sha);
    await eachCall(t, how, async (chaos, k) => {
      const what = `${how} ${k}`;
      const device = new Device(server.url);
      chaos.arm(k, how);
      let isSaved = false;
      const first = await device.open().catch((error) => assert.equal(typeof error.code, "string", what));
      if (first) {
        first.files.keep(ref).saved.then(
          () => (isSaved = true),
          (error) => assert.equal(typeof error.code, "string", what),
        );
        const isThere = () => ["here", "failed"].includes(first.files.state(ref).phase);
        await until(() => isThere() || (how === "dead" && chaos.isHit));
      }
      chaos.disarm();
      device.end();

      const next = await device.open();
      if (next.files.keeps().length === 0) {
        assert.ok(!isSaved, `${what}: a saved rule is lost`);
        next.files.keep(ref);
      }
      await until(() => next.files.state(ref).phase === "here");
      assert.equal(next.files.state(ref).here, BYTES.length, what);
      assert.ok(isEqual(await next.files.bytes(ref), BYTES), what);
      assert.equal((await next.files.usage()).kept, BYTES.length, what);
      await until(async () => (await orphansOf(device)) === 0);
      device.end();
    });
  });
}
