// Passkeys in Chromium, by the virtual authenticator of its DevTools: its PRF gives a secret that opens an account.
import assert from "node:assert/strict";
import { test } from "node:test";

import { openBrowser } from "../support/browser.mjs";
import { makeServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

const CLASSES = { Note: { key: ["id"] } };
const AUTHENTICATOR = {
  protocol: "ctap2",
  ctap2Version: "ctap2_1",
  transport: "internal",
  hasResidentKey: true,
  hasUserVerification: true,
  isUserVerified: true,
  automaticPresenceSimulation: true,
};

/** A page with the package, and an authenticator that gives a PRF or does not. */
async function setUp(t, hasPrf) {
  const server = await makeServer(t, { schema: CLASSES, options: ["--sign-up", "open"] });
  await server.start();
  const [site, browser] = [await startSite(t), await openBrowser(t)];
  const page = await browser.page(site.url);
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("WebAuthn.enable");
  const { authenticatorId } = await devtools.send("WebAuthn.addVirtualAuthenticator", { options: { ...AUTHENTICATOR, hasPrf } });
  const run = (steps) => page.evaluate(steps, { server: server.url, org: "demo", account: "ada" });
  await page.evaluate(async (classes) => {
    const [{ defineSchema, open }, { accounts }, { passkeys }] = await Promise.all(
      ["index", "accounts", "passkeys"].map((name) => import(`/pkg/${name}.js`)),
    );
    const schema = defineSchema(classes);
    const codeOf = (promise) => promise.then(() => "ok", (error) => error.code);
    window.parts = { open, accounts, passkeys, schema, codeOf };
  }, CLASSES);
  return { devtools, authenticatorId, run };
}

test("a passkey opens the account with and without a network, until it is removed", async (t) => {
  const { run, devtools, authenticatorId } = await setUp(t, true);
  const ways = await run(async (place) => {
    const { open, accounts, passkeys, schema } = window.parts;
    await accounts.signUp({ ...place, passphrase: "one" });
    const session = await open({ ...place, schema, accounts, passphrase: "one" });
    await session.put("Note", { id: "1" }).accepted;
    await session.collection("Note", {}).whenReady();
    await session.flush();
    await passkeys.add(session, "one", "Escale's tests");
    const found = await accounts.wraps(session);
    await session.close();
    return found.map(({ by }) => by);
  });
  assert.deepEqual(ways, ["passphrase", "passkey"]);
  const { credentials } = await devtools.send("WebAuthn.getCredentials", { authenticatorId });
  assert.equal(credentials.length, 1);

  const read = await run(async (place) => {
    const { open, accounts, passkeys, schema } = window.parts;
    const offline = await open({ ...place, schema, accounts, passkey: passkeys, mode: "avion" });
    const note = await offline.get("Note", ["1"]);
    await offline.close();
    // A device that has never seen the account: its record is gone.
    await accounts.forget(place);
    const online = await open({ ...place, schema, accounts, passkey: passkeys });
    const { account } = online.identity;
    await online.put("Note", { id: "2" }).accepted;
    await online.close();
    return [note.id, account.length];
  });
  assert.deepEqual(read, ["1", 22]);

  const refused = await run(async (place) => {
    const { open, accounts, passkeys, schema, codeOf } = window.parts;
    const session = await open({ ...place, schema, accounts, passkey: passkeys });
    const { id } = (await accounts.wraps(session)).find(({ by }) => by === "passkey");
    await accounts.removeWrap(session, id, "one");
    await session.close();
    await accounts.forget(place);
    return codeOf(open({ ...place, schema, accounts, passkey: passkeys }));
  });
  assert.equal(refused, "wrong_passphrase");
});

test("a passkey of another page, or none, is no way in", async (t) => {
  const { run } = await setUp(t, true);
  const code = await run(async (place) => {
    const { open, accounts, passkeys, schema, codeOf } = window.parts;
    await accounts.signUp({ ...place, passphrase: "one" });
    return codeOf(open({ ...place, schema, accounts, passkey: passkeys }));
  });
  assert.equal(code, "wrong_passphrase");
});

test("an authenticator without a PRF is refused by name, and the account stays as it is", async (t) => {
  const { run } = await setUp(t, false);
  const [code, ways] = await run(async (place) => {
    const { open, accounts, passkeys, schema, codeOf } = window.parts;
    await accounts.signUp({ ...place, passphrase: "one" });
    const session = await open({ ...place, schema, accounts, passphrase: "one" });
    const code = await codeOf(passkeys.add(session, "one", "Escale's tests"));
    const found = await accounts.wraps(session);
    await session.close();
    return [code, found.map(({ by }) => by)];
  });
  assert.equal(code, "not_supported");
  assert.deepEqual(ways, ["passphrase"]);
});
