// AES-GCM and HMAC: by Node's own ciphers, with imported keys and with bytes.
import assert from "node:assert/strict";
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto";
import { test } from "node:test";

import { aes, HMAC, hmac, importKey, seal, unseal } from "../../../js/dist/platform/cipher.js";

const bytes = (text) => new Uint8Array(Buffer.from(text));
const raw = new Uint8Array(randomBytes(32));
const KEYS = { "bytes": () => raw.slice(), "an imported key": () => importKey(raw.slice(), aes(), "encrypt", "decrypt") };

for (const [kind, make] of Object.entries(KEYS)) {
  test(`${kind}: a sealed record is nonce, ciphertext and tag, bound to its place`, async () => {
    const key = await make();
    const [plain, place] = [bytes("the plain text"), bytes("escale/1/cname")];
    const sealed = await seal(key, plain, place);
    assert.equal(sealed.length, 12 + plain.length + 16);
    const cipher = createDecipheriv("aes-256-gcm", raw, sealed.subarray(0, 12)).setAAD(place).setAuthTag(sealed.subarray(-16));
    assert.equal(Buffer.concat([cipher.update(sealed.subarray(12, -16)), cipher.final()]).toString(), "the plain text");
    assert.notDeepEqual(await seal(key, plain, place), sealed);
    assert.deepEqual(await unseal(key, sealed, place), plain);
  });

  test(`${kind}: what others sealed opens, and nothing else does`, async () => {
    const key = await make();
    const place = bytes("place");
    const nonce = randomBytes(12);
    const cipher = createCipheriv("aes-256-gcm", raw, nonce).setAAD(place);
    const sealed = new Uint8Array(Buffer.concat([nonce, cipher.update("text"), cipher.final(), cipher.getAuthTag()]));
    assert.deepEqual(await unseal(key, sealed, place), bytes("text"));
    for (let at = 0; at < sealed.length; at++) {
      const altered = sealed.map((byte, place) => (place === at ? byte ^ 1 : byte));
      assert.equal(await unseal(key, altered, place), undefined, `byte ${at}`);
    }
    for (let length = 0; length < sealed.length; length++) assert.equal(await unseal(key, sealed.slice(0, length), place), undefined);
    assert.equal(await unseal(key, sealed, bytes("other")), undefined);
    assert.equal(await unseal(new Uint8Array(randomBytes(32)), sealed, place), undefined);
  });
}

test("the HMAC is that of Node, with bytes and with an imported key", async () => {
  const expected = new Uint8Array(createHmac("sha256", raw).update("c/name").digest());
  assert.deepEqual(await hmac(raw.slice(), bytes("c/name")), expected);
  const key = await importKey(raw.slice(), HMAC, "sign");
  assert.deepEqual(await hmac(key, bytes("c/name")), expected);
  await assert.rejects(crypto.subtle.exportKey("raw", key));
});
