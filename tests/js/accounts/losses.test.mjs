// The network cut at each request of each change, and the page ended there: every device keeps a way in (R76, R77).
import assert from "node:assert/strict";
import { test } from "node:test";

import { accounts, codeOf, cut, device, isOfAccount, newPlace, settled } from "./support.mjs";

/** The steps of a change, with two devices that have an operation each that waits. */
async function twoDevices() {
  const place = newPlace();
  const { code } = await accounts.signUp({ ...place, passphrase: "old", recoveryCode: true });
  const devices = [device(), device()];
  for (const [n, one] of devices.entries()) {
    const session = await one.open(place, { passphrase: "old" });
    await session.collection("Note", {}).whenReady();
    await session.flush();
    await session.setMode("avion");
    session.put("Note", { id: `from ${n}` });
    await session.flush();
    await session.close();
  }
  return { place, code, devices };
}

/** Every device opens offline with the old or the new passphrase, then online, and its operation arrives. */
async function everyDeviceOpens({ place, devices }, what) {
  for (const [n, one] of devices.entries()) {
    const offline = [];
    for (const passphrase of ["old", "new"]) {
      const code = await codeOf(
        one.open(place, { passphrase, mode: "avion" }).then(async (session) => {
          assert.equal(session.pending().length, 1, `${what}: the operation of device ${n}`);
          await session.close();
        }),
      );
      offline.push(code);
    }
    assert.deepEqual([...offline].sort(), ["ok", "wrong_passphrase"], `${what}: device ${n} offline`);
  }
  const online = [];
  for (const passphrase of ["old", "new"]) {
    online.push(await codeOf(device().open(place, { passphrase }).then((session) => session.close())));
  }
  assert.deepEqual([...online].sort(), ["ok", "wrong_passphrase"], `${what}: a new device`);
  const valid = online[0] === "ok" ? "old" : "new";
  for (const one of devices) {
    const session = await one.open(place, { passphrase: valid });
    await settled(session);
    await session.close();
  }
  const session = await device().open(place, { passphrase: valid, mode: "incognito" });
  const notes = await session.collection("Note", {}).whenReady();
  assert.deepEqual(notes.map(({ id }) => id).sort(), ["from 0", "from 1"], what);
  await session.close();
}

/** From now on only the endpoint `account` is reached: the operations of a session wait. */
function cutSync() {
  const before = globalThis.fetch;
  globalThis.fetch = async (url, init) => {
    if (!isOfAccount(url)) throw new TypeError("cut");
    return before(url, init);
  };
  return () => (globalThis.fetch = before);
}

for (const how of ["request", "answer"]) {
  test(`a change of the passphrase that loses each ${how} in turn leaves every device a way in`, async () => {
    let requests = Infinity;
    for (let at = 0; at <= requests; at++) {
      const world = await twoDevices();
      const mended = cutSync();
      const session = await world.devices[0].open(world.place, { passphrase: "old" });
      mended();
      const line = cut(at, how);
      cutSync();
      await session.changePassphrase("old", "new").catch(({ code }) => assert.equal(code, "offline"));
      // A change that nothing cuts tells how many requests there are.
      if (line.count() <= at) requests = at;
      // The page ends here.
      await session.close();
      line.mend();
      await everyDeviceOpens(world, `${how} ${at}`);
    }
    assert.ok(requests >= 2, `${requests} requests were cut`);
  });

  test(`a recovery that loses each ${how} in turn leaves every device a way in`, async () => {
    let requests = Infinity;
    for (let at = 0; at <= requests; at++) {
      const world = await twoDevices();
      const line = cut(at, how);
      await accounts.recover({ ...world.place, code: world.code, passphrase: "new" }).catch(({ code }) => assert.equal(code, "offline"));
      if (line.count() <= at) requests = at;
      line.mend();
      await everyDeviceOpens(world, `${how} ${at}`);
    }
    assert.ok(requests >= 4, `${requests} requests were cut`);
  });

  test(`a revocation that loses each ${how} in turn locks nobody out`, async () => {
    for (let at = 0; at < 2; at++) {
      const { place, devices } = await twoDevices();
      const session = await devices[0].open(place, { passphrase: "old" });
      const line = cut(at, how);
      const code = await codeOf(accounts.revoke(session, "others"));
      assert.equal(code, at === 0 ? "offline" : "ok");
      await session.close();
      line.mend();
      for (const one of devices) {
        // A device that does not know yet that it was signed out learns it, locks, and comes back as a new one.
        let session = await one.open(place, { passphrase: "old" });
        if (!(await settled(session))) session = await one.open(place, { passphrase: "old" });
        assert.ok(await settled(session), `${how} ${at}`);
        await session.close();
        const offline = await one.open(place, { passphrase: "old", mode: "avion" });
        await offline.close();
      }
    }
  });

  test(`a sign-up that loses each ${how} in turn ends with one account`, async () => {
    // A challenge is asked for, and then comes the sign-up itself.
    for (let at = 0; at < 3; at++) {
      const place = newPlace();
      const line = cut(at, how);
      const first = await codeOf(accounts.signUp({ ...place, passphrase: "one" }));
      assert.equal(first, at < 2 ? "offline" : "ok");
      line.mend();
      await accounts.signUp({ ...place, passphrase: "one" });
      const session = await device().open(place, { passphrase: "one" });
      await session.close();
    }
  });
}
