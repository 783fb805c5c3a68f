// A server that signs properly, for a key that is not the account's (R72, R74).
import assert from "node:assert/strict";
import { test } from "node:test";

import { ROOT } from "../../packaging/project.mjs";
import { accounts, newPlace, realFetch } from "./support.mjs";

const dist = `${ROOT}/js/dist/accounts`;
const { derive, fourBytes, hmac, join, lengthAnd, pack, publicKey, sha256, toBytes, toText, utf8 } = await import(`${dist}/formulas.js`);
const { passphraseSecret } = await import(`${dist}/secret.js`);
const { signIn } = await import(`${dist}/wire.js`);

const ROUNDS = 600_000;
const bytesOf = ({ $bytes }) => toBytes($bytes);
const asJson = (bytes) => ({ $bytes: toText(bytes) });

/** The real server, whose answer to a sign-in names this public key, and is signed again. */
function serverWith(place, x, pub) {
  const account = async (request) => {
    const headers = { "content-type": "application/json" };
    const response = await realFetch(`${place.server}/${place.org}/account`, { method: "POST", headers, body: JSON.stringify(request) });
    assert.equal(response.status, 200);
    const answer = await response.json();
    if (request.do !== "sign-in") return answer;
    const named = pub ?? bytesOf(answer.pub);
    const auth = join(
      utf8("escale/1/auth"),
      ...["sign-in", place.org, request.login, request.wrap].map(lengthAnd),
      bytesOf(request.challenge),
      bytesOf(request.nonce),
      fourBytes(ROUNDS),
      lengthAnd("pbkdf2"),
      await sha256(pack({ device: request.device })),
    );
    const signature = await hmac(await derive(x, "server"), join(auth, named, bytesOf(answer.wrapped)));
    return { ...answer, pub: asJson(named), signature: asJson(signature) };
  };
  return { sync: () => Promise.reject(new Error("unused")), account };
}

test("a key that the server has signed, and that is not the account's, is refused", async () => {
  const place = newPlace();
  const { account } = await accounts.signUp({ ...place, passphrase: "one" });
  const owner = { org: place.org, login: place.account };
  const secret = await passphraseSecret(owner, "one", ROUNDS);
  const source = { id: "passphrase", of: () => Promise.resolve(secret) };
  const enter = (pub) => signIn({ ...owner, server: serverWith(place, secret.x, pub) }, source, {});
  // Signed again with the account's own key, the answer is taken: this test signs as a server does.
  assert.equal((await enter()).identity.account, account);
  const foreign = await publicKey(new Uint8Array(32).fill(7));
  await assert.rejects(enter(foreign), (error) => error.code === "bad_reply" && /not the account's/.test(error.message));
});
