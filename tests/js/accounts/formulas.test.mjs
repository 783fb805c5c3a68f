// The formulas of accounts on WebCrypto (R72 to R74), by the vectors that the server reads too.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { ROOT } from "../../packaging/project.mjs";

const { accounts, x25519 } = JSON.parse(await readFile(`${ROOT}/tests/vectors/accounts.json`, "utf8"));
const dist = `${ROOT}/js/dist/accounts`;
const formulas = await import(`${dist}/formulas.js`);
const secrets = await import(`${dist}/secret.js`);
const codes = await import(`${dist}/code.js`);
const { random, toBytes, toText } = await import(`${ROOT}/js/dist/base/binary.js`);

const flipped = (bytes, bit) => bytes.map((byte, place) => (place === bit >> 3 ? byte ^ (1 << (bit & 7)) : byte));

async function secretOf(vector) {
  const owner = { org: vector.org, login: vector.login };
  if (vector.by === "passphrase") return secrets.passphraseSecret(owner, vector.passphrase, vector.rounds);
  if (vector.by === "code") return secrets.codeSecret(owner, toBytes(vector.code));
  return secrets.passkeySecret(owner, toBytes(vector.credential), toBytes(vector.prf));
}

test("X25519 is that of RFC 7748", async () => {
  for (const { secret, public: expected } of x25519) {
    assert.equal(toText(await formulas.publicKey(toBytes(secret))), expected);
  }
});

test("every formula gives the bytes of the vectors", async () => {
  for (const vector of accounts) {
    const owner = { org: vector.org, login: vector.login };
    const secret = await secretOf(vector);
    assert.equal(toText(await formulas.saltOf(owner)), vector.salt);
    assert.deepEqual([secret.id, secret.rounds, toText(secret.x)], [vector.wrap, vector.rounds, vector.x]);
    const key = toBytes(vector.key);
    const identity = await formulas.identityOf(key, owner.org);
    assert.deepEqual([identity.account, toText(identity.publicKey)], [vector.account, vector.pub]);
    assert.match(identity.fingerprint, /^(\d{5} ){7}\d{5}$/);
    const made = await secrets.wrap(secret, owner, key);
    assert.deepEqual([made.kdf, toText(made.stored), toText(made.server)], [vector.kdf, vector.stored, vector.server]);
    assert.equal(toText(await secrets.unsealKey("server", secret, owner, toBytes(vector.wrapped))), vector.key);
    assert.equal(toText(await secrets.unsealKey("server", secret, owner, made.wrapped)), vector.key);
    const other = { device: vector.device };
    assert.equal(toText(formulas.pack(other)), vector.other);
    const [challenge, nonce] = [toBytes(vector.challenge), toBytes(vector.nonce)];
    const { proof, signature, token } = await secrets.prove(secret, owner, { do: "sign-in", challenge, nonce }, other);
    assert.equal(toText(proof), vector.proof);
    const [serverKey, sealed] = [toBytes(vector.serverKey), toBytes(vector.sealedToken)];
    assert.equal(Buffer.from(await token(key, serverKey, sealed)).toString(), vector.token);
    assert.equal(await token(flipped(key, 5), serverKey, sealed), undefined, "the key of another account");
    const signUp = { pub: identity.publicKey, wraps: [{ ...made, wrapped: toBytes(vector.wrapped) }] };
    assert.equal(toText(formulas.pack(signUp)), vector.signUpOther);
    const shown = await secrets.proveKey(key, serverKey, owner, { do: "sign-up", challenge, nonce }, signUp);
    assert.equal(toText(shown), vector.signUpProof);
    assert.equal(toText(await signature(toBytes(vector.pub), toBytes(vector.wrapped))), vector.signature);
  }
});

test("a key of the server that gives no secret is refused", async () => {
  const owner = { org: "acme", login: "ada" };
  const asked = { do: "sign-up", challenge: new Uint8Array(32), nonce: new Uint8Array(32) };
  for (const serverKey of [new Uint8Array(32), new Uint8Array(31), undefined, "text", Uint8Array.of(1, ...new Uint8Array(31))]) {
    await assert.rejects(secrets.proveKey(random(32), serverKey, owner, asked, {}), { code: "bad_reply" });
  }
});

test("a typed login has the form of the profile UsernameCaseMapped", () => {
  const forms = {
    ada: ["ada", "Ada", "\uff21da", "\uff41\uff24A"],
    "zo\u00eb": ["zo\u00eb", "ZO\u00cb", "Zoe\u0308"],
    "\u00e5": ["\u212b", "A\u030a", "\u00c5"],
    "\u30ab\u3099\u30ab": ["\uff76\u3099\uff76"],
  };
  for (const [form, typed] of Object.entries(forms)) {
    for (const text of typed) assert.equal(formulas.loginOf(text), form.normalize("NFC"), JSON.stringify(text));
    assert.equal(formulas.loginOf(formulas.loginOf(form)), formulas.loginOf(form));
  }
});

test("a wrap with any bit flipped, or of another place, does not open", async () => {
  const vector = accounts[0];
  const secret = await secretOf(vector);
  const owner = { org: vector.org, login: vector.login };
  const wrapped = toBytes(vector.wrapped);
  for (let bit = 0; bit < wrapped.length * 8; bit++) {
    assert.equal(await secrets.unsealKey("server", secret, owner, flipped(wrapped, bit)), undefined, `bit ${bit}`);
  }
  for (const other of [{ ...owner, org: "acm" }, { ...owner, login: "adb" }, { org: "acmea", login: "da" }]) {
    assert.equal(await secrets.unsealKey("server", secret, other, wrapped), undefined);
  }
  for (const altered of [{ ...secret, rounds: 600_001 }, { ...secret, by: "code" }]) {
    assert.equal(await secrets.unsealKey("server", altered, owner, wrapped), undefined);
  }
  // The wrap of the device is another than that of the server.
  const here = await secrets.sealKey("device", secret, owner, toBytes(vector.key));
  assert.equal(await secrets.unsealKey("server", secret, owner, here), undefined);
  assert.equal(toText(await secrets.unsealKey("device", secret, owner, here)), vector.key);
});

test("msgpack is canonical", () => {
  const cases = [
    [{}, "80"],
    [{ b: true, a: "c" }, "82a161a163a162c3"],
    [{ n: [0, 127, 128, 255, 256, 65_535, 65_536, 600_000] }, "81a16e98007fcc80ccffcd0100cdffffce00010000ce000927c0"],
    [{ skipped: undefined, x: new Uint8Array([1, 2]) }, "81a178c4020102"],
    ["a".repeat(31), `bf${"61".repeat(31)}`],
    ["a".repeat(32), `d920${"61".repeat(32)}`],
    ["a".repeat(256), `da0100${"61".repeat(256)}`],
    [new Uint8Array(256), `c50100${"00".repeat(256)}`],
    ["a".repeat(65_536), `db00010000${"61".repeat(65_536)}`],
    [new Uint8Array(65_536), `c600010000${"00".repeat(65_536)}`],
    [Array.from({ length: 15 }, () => 1), `9f${"01".repeat(15)}`],
    [Array.from({ length: 16 }, () => 1), `dc0010${"01".repeat(16)}`],
    [Object.fromEntries(Array.from("ponmlkjihgfedcba", (name) => [name, 1])), `de0010${Array.from("abcdefghijklmnop", (name) => `a1${Buffer.from(name).toString("hex")}01`).join("")}`],
  ];
  for (const [value, hex] of cases) assert.equal(Buffer.from(formulas.pack(value)).toString("hex"), hex);
});

test("a code survives its text, however it is typed", () => {
  for (let n = 0; n < 200; n++) {
    const code = random(20);
    const text = codes.codeText(code);
    assert.match(text, /^([0-9A-HJKMNP-TV-Z]{4}-){7}[0-9A-HJKMNP-TV-Z]{4}$/);
    for (const typed of [text, text.toLowerCase(), text.replaceAll("-", " "), text.replaceAll("0", "o").replaceAll("1", "l")]) {
      assert.deepEqual(codes.codeOf(typed), code);
    }
  }
  for (const wrong of ["", "1234", "U".repeat(32), "1".repeat(33)]) assert.equal(codes.codeOf(wrong), undefined);
});
