// Accounts: sign-up, proofs, devices and wraps. Each check makes an account of its own.
import { randomBytes } from "node:crypto";

import { Account, ROUNDS, flipped } from "../../client/account.mjs";
import { check } from "../../check.mjs";
import { fresh } from "../../names.mjs";

const needs = ["accounts"];
const at = "accounts";
const WEEK_MS = 7 * 86_400_000;
/** How far the clocks of the kit and of the server may differ. */
const CLOCKS_MS = 300_000;

/** An account that has signed up, and the secret of its passphrase. */
async function signedUp(kit) {
  const account = new Account(kit);
  const secret = await account.passphrase();
  await account.signUp([account.wrap(secret)]);
  return { account, secret };
}

/** How long a token may be taken after its end. */
const END_MS = 2000;

const pull = (kit, token) => kit.session({ token }).ask({ subs: [["Note", 0]] });

/** Expects that a token opens the org. */
async function opens(kit, token) {
  const answer = await pull(kit, token);
  kit.equal(answer.status, 200, "the status of a pull with the token", answer);
}

/** Expects that a token has ended. */
async function ends(kit, token) {
  const last = Date.now() + END_MS + kit.options.slack;
  let answer = await pull(kit, token);
  while (answer.status === 200 && Date.now() < last) {
    await kit.wait(50);
    answer = await pull(kit, token);
  }
  kit.isRefused(answer, 401, "unauthorized");
}

export const accounts = [
  check("accounts.sign-up", {
    at,
    needs,
    rule: "R72",
    says: "answer a repeat of a sign-up, with the same login, `pub` and `stored`, as the first time, and give no token for it",
    hint: "The account follows from `pub`. A sign-up is no sign-in: who records it must not enter.",
  }, async (kit) => {
    const account = new Account(kit);
    const wraps = [account.wrap(await account.passphrase())];
    for (let time = 0; time < 2; time++) kit.equal(await account.signUp(wraps), { account: account.id }, "the answer to a sign-up");
  }),
  check("accounts.taken", {
    at,
    needs,
    rule: "R72",
    says: "refuse a sign-up with the login or the `pub` of another account, also of a closed one",
    hint: "Both are unique in an org, for ever.",
  }, async (kit) => {
    const { account } = await signedUp(kit);
    for (const more of [{ login: account.login }, { key: account.key }]) {
      const other = new Account(kit, more);
      const wraps = [other.wrap(other.code())];
      kit.isRefused(await other.triesToSignUp(wraps), 400, "login_taken");
    }
  }),
  check("accounts.key", {
    at,
    needs,
    rule: "R72",
    says: "refuse a sign-up whose proof does not show the private key of `pub`; its challenge is for its login and for no wrap, lasts 60 s, and may come again with the same sign-up",
    hint: "Public keys are known to others. Whoever signs up with one has to show the private key, for this org, login and message.",
  }, async (kit) => {
    const [account, stranger] = [new Account(kit), new Account(kit)];
    const wraps = [account.wrap(account.code())];
    const { proof, ...without } = await account.signingUp(wraps);
    kit.isRefused(await account.ask("sign-up", without), 400, "malformed");
    kit.isRefused(await account.triesToSignUp(wraps, { key: stranger.key }), 400, "bad_value");
    // Everybody owns the point 0.
    kit.isRefused(await account.ask("sign-up", { ...without, pub: new Uint8Array(32), proof: new Uint8Array(32) }), 400, "bad_value");
    // Seen on its way, and sent again by somebody else.
    const seen = { ...without, proof };
    kit.isRefused(await account.ask("sign-up", { ...seen, wraps: [stranger.wrap(stranger.code())] }), 400, "bad_value");
    kit.isRefused(await account.ask("sign-up", { ...seen, pub: stranger.pub }), 400, "bad_value");
    kit.isRefused(await account.ask("sign-up", { ...seen, nonce: flipped(seen.nonce) }), 400, "bad_value");
    kit.isRefused(await account.ask("sign-up", { ...seen, login: stranger.login }), 503, "contention");
    const { challenge } = await account.start();
    kit.isRefused(await account.ask("sign-up", { ...seen, challenge }), 503, "contention");
    for (let time = 0; time < 2; time++) kit.equal(await account.answer("sign-up", seen), { account: account.id }, "the answer to a sign-up");
  }),
  check("accounts.login", {
    at,
    needs,
    rule: "R72",
    says: "refuse a sign-up whose login does not have the form that UsernameCaseMapped gives",
    hint: "RFC 8265, section 3.3. Compare the login with its own mapping; never map it for the client.",
  }, async (kit) => {
    const refused = ["Ada", "a b", "a\n", "\0", "a\u200b", "\u202eada", "e\u0301", "\uff41da", "\ufb01n", "\u{1f600}"];
    for (const login of refused.map((login) => `${fresh()}${login}`)) {
      const account = new Account(kit, { login });
      const [pub, wraps, bytes] = [account.pub, [account.wrap(account.code())], new Uint8Array(32)];
      kit.isRefused(await account.ask("sign-up", { login, pub, wraps, challenge: bytes, nonce: bytes, proof: bytes }), 400, "bad_login");
    }
    for (const login of [`zo\u00eb${fresh()}`, `${fresh()}@example.org`]) {
      const account = new Account(kit, { login });
      kit.equal(await account.signUp([account.wrap(account.code())]), { account: account.id }, "the answer to a sign-up");
    }
  }),
  check("accounts.token", {
    at,
    needs,
    rule: "R74",
    says: "seal the token of a sign-in to the account's `pub`, with a private key that it makes for this answer alone and stores nowhere",
    hint: "The stored record and one recorded sign-in are enough for a proof. They must not be enough for a token.",
  }, async (kit) => {
    const { account, secret } = await signedUp(kit);
    const keys = new Set();
    for (let time = 0; time < 3; time++) {
      const { challenge } = await account.start();
      const { auth, fields } = account.prove("sign-in", secret, challenge, { device: {} });
      const exchange = await account.ask("sign-in", fields);
      kit.equal(exchange.status, 200, "the status of a sign-in", exchange);
      const token = account.opened(exchange.reply, auth);
      keys.add(Buffer.from(exchange.reply.serverKey).toString("hex"));
      kit.expect(!JSON.stringify(exchange.reply).includes(token), "no token in clear", exchange);
      await opens(kit, token);
    }
    kit.equal(keys.size, 3, "the keys of the server at three sign-ins");
  }),
  check("accounts.sign-in", {
    at,
    needs,
    rule: "R74",
    says: "The server accepts a proof if `SHA-256(proof XOR HMAC(stored, auth)) = stored`.",
    hint: "Compare each formula with tests/vectors/accounts.json.",
  }, async (kit) => {
    const { account, secret } = await signedUp(kit);
    const signed = await account.signIn(secret, { label: "the kit" });
    kit.equal(signed.pub, account.pub, "pub");
    kit.equal(signed.signature, account.signature(signed, secret), "signature");
    kit.equal(new Uint8Array(account.unwrap(secret, signed.wrapped)), new Uint8Array(account.key), "K");
    kit.expect(/^[\w-]{22}$/.test(signed.device), "an id of the device of 16 bytes in base64url");
    kit.expect(signed.until > Date.now() - CLOCKS_MS && signed.until <= Date.now() + WEEK_MS + CLOCKS_MS, "a token for at most seven days");
    await opens(kit, signed.token);
    const foreign = await kit.session({ token: signed.token, org: kit.otherOrg }).ask({});
    kit.expect([401, 403].includes(foreign.status), `a refusal in another org, not ${foreign.status}`, foreign);
  }),
  check("accounts.unknown-login", {
    at,
    needs,
    rule: "R74",
    says: "answer `start` for an unknown login or wrap as for a known one: for `passphrase` with the rounds of one of its accounts, each time the same, or 600,000 if it has none; for others with 0",
    hint: "Otherwise a stranger learns which logins there are.",
  }, async (kit) => {
    const { account } = await signedUp(kit);
    for (const one of [account, new Account(kit)]) {
      for (const [wrap, wanted] of [["passphrase", { kdf: "pbkdf2", rounds: ROUNDS }], [fresh("wrap-"), { kdf: "none", rounds: 0 }]]) {
        const { challenge, ...parameters } = await one.start(wrap);
        kit.equal(parameters, wanted, "the parameters");
        kit.expect(challenge instanceof Uint8Array && challenge.length === 32, "a challenge of 32 bytes");
      }
    }
  }),
  check("accounts.wrong-proof", {
    at,
    needs,
    rule: "R74",
    says: "the proof does not fit; also for an unknown login",
    hint: "Take `other` from the request as it came, and compare all 32 bytes.",
  }, async (kit) => {
    const { account, secret } = await signedUp(kit);
    const refused = async (change, of = account) => {
      const { challenge } = await of.start();
      const { fields } = of.prove("sign-in", secret, challenge, { device: { label: "the kit" } });
      kit.isRefused(await of.ask("sign-in", { ...fields, ...change(fields) }), 401, "wrong_passphrase");
    };
    await refused(({ proof }) => ({ proof: flipped(proof) }));
    await refused(({ nonce }) => ({ nonce: flipped(nonce) }));
    await refused(() => ({ device: { label: "another" } }));
    await refused(() => ({}), new Account(kit));
    await account.signIn(secret);
  }),
  check("accounts.challenge", {
    at,
    needs,
    rule: "R74",
    says: "accept a challenge once, for its login and wrap, and for 60 s; otherwise the answer is 503 `contention`, and the client starts again",
    hint: "Keep the challenges of accepted proofs until they have ended anyway.",
  }, async (kit) => {
    const { account, secret } = await signedUp(kit);
    const used = async (challenge, again) => {
      const { fields } = account.prove("sign-in", secret, challenge, { device: {} });
      if (again) kit.equal((await account.ask("sign-in", fields)).status, 200, "the status of a sign-in");
      kit.isRefused(await account.ask("sign-in", fields), 503, "contention");
    };
    await used((await account.start()).challenge, true);
    await used((await new Account(kit).start()).challenge, false);
    await used((await account.start(fresh("wrap-"))).challenge, false);
    await used(new Uint8Array(randomBytes(32)), false);
  }),
  check("accounts.challenge-ends", {
    at,
    needs,
    rule: "R74",
    says: "accept a challenge once, for its login and wrap, and for 60 s; otherwise the answer is 503 `contention`, and the client starts again",
    hint: "A challenge that never ends makes a stolen proof last.",
    isSlow: true,
  }, async (kit) => {
    const { account, secret } = await signedUp(kit);
    const other = new Account(kit);
    const { challenge } = await account.start();
    const signUp = await other.signingUp([other.wrap(other.code())]);
    await kit.wait(61_000);
    const { fields } = account.prove("sign-in", secret, challenge, { device: {} });
    kit.isRefused(await account.ask("sign-in", fields), 503, "contention");
    kit.isRefused(await other.ask("sign-up", signUp), 503, "contention");
  }),
  check("accounts.devices", {
    at,
    needs,
    rule: "R74",
    says: "give each device one token, valid for at most seven days, and end the earlier one",
    hint: "A sign-in with the id of a device is that device again.",
  }, async (kit) => {
    const { account, secret } = await signedUp(kit);
    const first = await account.signIn(secret, { label: "first" });
    const again = await account.signIn(secret, { id: first.device });
    kit.equal(again.device, first.device, "the id of the device");
    await ends(kit, first.token);
    await opens(kit, again.token);
    const second = await account.signIn(secret, { label: "second" });
    kit.expect(second.device !== first.device, "another id for a new device");
    const { devices } = await account.answer("devices", {}, { token: second.token });
    const found = devices.map(({ id, label, here }) => ({ id, label, here })).sort((a, b) => (a.label < b.label ? -1 : 1));
    kit.equal(found, [{ id: first.device, label: "first", here: false }, { id: second.device, label: "second", here: true }], "devices");
    kit.isRefused(await account.ask("devices", {}), 401, "unauthorized");
  }),
  check("accounts.revoke", {
    at,
    needs,
    rule: "R77",
    says: "the proof fits, and the device was ended",
    hint: "Its token ends at once. The owner comes back as a new device, without the id.",
  }, async (kit) => {
    const { account, secret } = await signedUp(kit);
    const [lost, here, third] = [await account.signIn(secret), await account.signIn(secret), await account.signIn(secret)];
    kit.equal(await account.answer("revoke", { device: lost.device }, { token: here.token }), {}, "the answer");
    await ends(kit, lost.token);
    await opens(kit, third.token);
    kit.isRefused(await account.proven("sign-in", secret, { device: { id: lost.device } }), 401, "device_revoked");
    await account.answer("revoke", { device: "others" }, { token: here.token });
    await ends(kit, third.token);
    await account.answer("sign-out", {}, { token: here.token });
    await ends(kit, here.token);
    await account.signIn(secret);
  }),
  check("accounts.wraps", {
    at,
    needs,
    rule: "R76",
    says: "refuse a change of the wraps that leaves neither a passphrase nor a code",
    hint: "A passkey alone may be lost. A wrap replaces the one of the same id; `revoke` ends the tokens of all other devices.",
  }, async (kit) => {
    const { account, secret } = await signedUp(kit);
    const [here, other] = [await account.signIn(secret), await account.signIn(secret)];
    const { token } = here;
    const [code, passkey, next] = [account.code(), account.passkey(), await account.passphrase()];
    const change = { put: [account.wrap(next), account.wrap(code), account.wrap(passkey)], revoke: "others" };
    const changed = await account.proven("wraps", secret, change, { token });
    kit.equal(changed.status, 200, "the status of the change", changed);
    const { wraps } = await account.answer("wraps", {}, { token });
    kit.equal(wraps.map(({ id }) => id).sort(), [code, passkey, next].map(({ id }) => id).sort(), "the ids of the wraps");
    await ends(kit, other.token);
    await opens(kit, token);
    kit.isRefused(await account.proven("sign-in", secret, { device: {} }), 401, "wrong_passphrase");
    const signed = await account.signIn(code);
    kit.equal(new Uint8Array(account.unwrap(code, signed.wrapped)), new Uint8Array(account.key), "K by the code");
    kit.isRefused(await account.proven("wraps", next, { remove: [next.id, code.id] }, { token }), 400, "bad_value");
    kit.equal((await account.proven("wraps", next, { remove: [code.id] }, { token })).status, 200, "the status of a removal");
  }),
  check("accounts.close", {
    at,
    needs,
    rule: "R72",
    says: "the account was closed, or is [restricted](#restrictions) at level 3",
    hint: "Keep the login and the id, so that nobody else gets them.",
  }, async (kit) => {
    const { account, secret } = await signedUp(kit);
    const { token } = await account.signIn(secret);
    kit.isRefused(await account.proven("close", secret, {}, {}), 401, "unauthorized");
    const closed = await account.proven("close", secret, {}, { token });
    kit.equal(closed.status, 200, "the status of the closing", closed);
    await ends(kit, token);
    kit.isRefused(await account.proven("sign-in", secret, { device: {} }), 403, "account_closed");
    const next = new Account(kit, { login: account.login });
    const wraps = [next.wrap(next.code())];
    kit.isRefused(await next.triesToSignUp(wraps), 400, "login_taken");
  }),
];
