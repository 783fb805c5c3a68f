// A server that signs properly, for a key that is not the account's (R72, R74).
import assert from "node:assert/strict";
import { test } from "node:test";

import { ROOT } from "../../packaging/project.mjs";
import { accounts, newPlace, realFetch } from "./support.mjs";

const dist = `${ROOT}/js/dist/accounts`;
const { derive, lengthAnd, pack, publicKey } = await import(`${dist}/formulas.js`);
const { fourBytes, join, sha256, toBytes, toText, utf8 } = await import(`${ROOT}/js/dist/base/binary.js`);
const { hmac } = await import(`${ROOT}/js/dist/platform/cipher.js`);
const { passphraseSecret } = await import(`${dist}/secret.js`);
const { signIn } = await import(`${dist}/wire.js`);

const ROUNDS = 600_000;
const bytesOf = ({ $bytes }) => toBytes($bytes);
const asJson = (bytes) => ({ $bytes: toText(bytes) });

/** The answer of the real server. */
async function answerOf(place, request) {
  const headers = { "content-type": "application/json" };
  const response = await realFetch(`${place.server}/${place.org}/account`, { method: "POST", headers, body: JSON.stringify(request) });
  assert.equal(response.status, 200);
  return response.json();
}

/** A server whose answer to a sign-in names this public key, and is signed again. `alter` changes the signature. */
function serverWith(place, x, pub, { answers = answerOf, alter = (signature) => signature } = {}) {
  const account = async (request) => {
    const answer = await answers(place, request);
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
    return { ...answer, pub: asJson(named), signature: asJson(alter(signature)) };
  };
  return { sync: () => Promise.reject(new Error("unused")), account };
}

test("a key that the server has signed, and that is not the account's, is refused", async () => {
  const place = newPlace();
  const { account } = await accounts.signUp({ ...place, passphrase: "one" });
  const owner = { org: place.org, login: place.account };
  const secret = await passphraseSecret(owner, "one", ROUNDS);
  const enter = (pub) => signIn({ ...owner, server: serverWith(place, secret.x, pub) }, secret, {});
  // Signed again with the account's own key, the answer is taken: this test signs as a server does.
  assert.equal((await enter()).identity.account, account);
  const foreign = await publicKey(new Uint8Array(32).fill(7));
  await assert.rejects(enter(foreign), (error) => error.code === "bad_reply" && /not the account's/.test(error.message));
});

test("a signature with any bit flipped, cut off or added is refused", async () => {
  const place = newPlace();
  const { account } = await accounts.signUp({ ...place, passphrase: "one" });
  const owner = { org: place.org, login: place.account };
  const secret = await passphraseSecret(owner, "one", ROUNDS);
  // The real server answers each kind of request once: it bears few sign-ins.
  const known = {};
  const answers = async (at, request) => (known[request.do] ??= await answerOf(at, request));
  const enter = (alter) => signIn({ ...owner, server: serverWith(place, secret.x, undefined, { answers, alter }) }, secret, {});
  assert.equal((await enter((signature) => signature)).identity.account, account);
  const flip = (bit) => (signature) => signature.map((byte, at) => (at === bit >> 3 ? byte ^ (1 << (bit & 7)) : byte));
  const lengths = [(signature) => signature.slice(0, 31), (signature) => join(signature, new Uint8Array(1)), () => new Uint8Array()];
  for (const alter of [...Array.from({ length: 256 }, (_, bit) => flip(bit)), ...lengths]) {
    await assert.rejects(enter(alter), (error) => error.code === "bad_reply" && /the signature/.test(error.message));
  }
});
