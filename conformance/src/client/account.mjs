// An honest client of the endpoint `account`, on Node's own cryptography: the formulas stand in docs/protocol.md.
import { createCipheriv, createDecipheriv, createHash, createHmac, createPrivateKey, createPublicKey, diffieHellman, pbkdf2, randomBytes } from "node:crypto";
import { promisify } from "node:util";

import { Failure } from "../check.mjs";
import { msgpack } from "../forms/index.mjs";
import { isMap } from "../forms/values.mjs";
import { fresh } from "../names.mjs";

/** The rounds of a new passphrase. */
export const ROUNDS = 600_000;

/** The bytes before a private key of X25519 in PKCS #8, and before a public one in SPKI (RFC 8410). */
const PKCS8 = Buffer.from("302e020100300506032b656e04220420", "hex");
const SPKI = Buffer.from("302a300506032b656e032100", "hex");

/** The kinds of secret, in the order of their bytes. */
const KINDS = ["passphrase", "key", "code", "passkey"];

const stretch = promisify(pbkdf2);
const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest();
const hmac = (key, ...parts) => parts.reduce((mac, part) => mac.update(part), createHmac("sha256", key)).digest();
const derive = (key, purpose, context = "") => hmac(key, `escale/1/${purpose}\0`, context);

const four = (number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(number);
  return bytes;
};
const lp = (text) => {
  const bytes = Buffer.from(text);
  return Buffer.concat([Buffer.from([bytes.length >> 8, bytes.length & 255]), bytes]);
};

/** A value with the keys of its maps in byte order. */
function ordered(value) {
  if (Array.isArray(value)) return value.map(ordered);
  if (!isMap(value)) return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, ordered(value[key])]));
}

const plain = (bytes) => new Uint8Array(bytes);
const isKey = (bytes) => bytes instanceof Uint8Array && bytes.length === 32;

const identityOf = (key) => createPrivateKey({ key: Buffer.concat([PKCS8, derive(key, "identity")]), format: "der", type: "pkcs8" });
const publicOf = (identity) => plain(Buffer.from(createPublicKey(identity).export({ format: "jwk" }).x, "base64url"));

/** The public key that follows from K. */
export const publicKeyOf = (key) => publicOf(identityOf(key));

/** The key that the owner of K shares with the server, for one purpose. */
function sharedOf(key, serverKey, purpose) {
  const privateKey = identityOf(key);
  const publicKey = createPublicKey({ key: Buffer.concat([SPKI, serverKey]), format: "der", type: "spki" });
  return derive(diffieHellman({ privateKey, publicKey }), purpose, Buffer.concat([serverKey, publicOf(privateKey)]));
}

/** Bytes with one bit flipped. */
export const flipped = (bytes) => plain(bytes.map((byte, place) => (place === 5 ? byte ^ 1 : byte)));

/** An address of its own for each check. */
const addressOf = (org) => `10.${[...sha256(org).subarray(0, 3)].join(".")}`;

/** An account and its owner's secrets. */
export class Account {
  constructor(kit, { org = kit.org, login = fresh("login-"), key = randomBytes(32) } = {}) {
    Object.assign(this, { kit, org, login, key, pub: publicKeyOf(key) });
    this.id = sha256(`escale/1/account\0${org}\0`, this.pub).subarray(0, 16).toString("base64url");
    this.salt = sha256(`escale/1/${org}/${login}`);
  }

  /** The secret of a passphrase. */
  async passphrase(text = fresh("five words ")) {
    const x = await stretch(text.normalize("NFC"), this.salt, ROUNDS, 32, "sha256");
    return { x, by: "passphrase", id: "passphrase", kdf: "pbkdf2", rounds: ROUNDS };
  }
  /** The secret of a recovery code. */
  code(bytes = randomBytes(20)) {
    const id = derive(bytes, "code-id", this.salt).subarray(0, 16).toString("base64url");
    return { x: derive(bytes, "code", this.salt), by: "code", id, kdf: "none", rounds: 0 };
  }
  /** The secret of a passkey, whose authenticator is not needed here. */
  passkey() {
    const [output, id] = [randomBytes(32), randomBytes(16).toString("base64url")];
    return { x: derive(output, "passkey", this.salt), by: "passkey", id, kdf: "none", rounds: 0 };
  }

  aad({ by, rounds, kdf }) {
    return Buffer.concat([Buffer.from("escale/1/w"), Buffer.from([KINDS.indexOf(by)]), four(rounds), lp(kdf), lp(this.org), lp(this.login)]);
  }
  /** K under a secret, as the server stores it. */
  wrap(secret) {
    const { x, id, by, kdf, rounds } = secret;
    const nonce = randomBytes(12);
    const cipher = createCipheriv("aes-256-gcm", derive(x, "server-wrap"), nonce).setAAD(this.aad(secret));
    const wrapped = plain(Buffer.concat([nonce, cipher.update(this.key), cipher.final(), cipher.getAuthTag()]));
    return { id, by, kdf, rounds, wrapped, stored: plain(sha256(derive(x, "sign-in"))), server: plain(derive(x, "server")) };
  }
  /** K of a wrap. */
  unwrap(secret, wrapped) {
    const decipher = createDecipheriv("aes-256-gcm", derive(secret.x, "server-wrap"), wrapped.subarray(0, 12)).setAAD(this.aad(secret));
    decipher.setAuthTag(wrapped.subarray(-16));
    try {
      return Buffer.concat([decipher.update(wrapped.subarray(12, -16)), decipher.final()]);
    } catch {
      throw new Failure("a wrap that opens under the secret that was proved", this.kit.last);
    }
  }

  /** Sends a request, and returns the exchange. No token of the run goes with it. */
  ask(name, fields, { token, form = this.kit.nextForm() } = {}) {
    // A server behind a proxy counts attempts by this address.
    const headers = { Authorization: token === undefined ? undefined : `Bearer ${token}`, "X-Forwarded-For": addressOf(this.kit.org) };
    return this.kit.exchange({ org: this.org, path: "account", form, headers, message: { p: 1, do: name, ...fields } });
  }
  /** Sends a request that has to succeed, and returns the answer. */
  async answer(name, fields, options) {
    const exchange = await this.ask(name, fields, options);
    this.kit.expect(exchange.status === 200 && isMap(exchange.reply), `an answer to ${name} with status 200, not ${exchange.status}`, exchange);
    return exchange.reply;
  }

  /** The bytes that a proof covers. */
  auth(name, { id, rounds, kdf }, challenge, nonce, other) {
    const head = Buffer.concat(["escale/1/auth", lp(name), lp(this.org), lp(this.login), lp(id)].map((part) => Buffer.from(part)));
    return Buffer.concat([head, challenge, nonce, four(rounds), lp(kdf), sha256(msgpack.encode(ordered(other)))]);
  }
  /** The fields of a sign-up with the proof of a key: that of the account, if no other is given. */
  async signingUp(wraps, { key = this.key, pub = this.pub } = {}) {
    const { challenge, serverKey } = await this.answer("start", { login: this.login });
    this.kit.expect(isKey(challenge) && isKey(serverKey), "a challenge and a key of the server, of 32 bytes each", this.kit.last);
    const [nonce, other] = [plain(randomBytes(32)), { pub, wraps }];
    const auth = this.auth("sign-up", { id: "", rounds: 0, kdf: "none" }, challenge, nonce, other);
    return { login: this.login, ...other, challenge, nonce, proof: plain(hmac(sharedOf(key, serverKey, "sign-up"), auth)) };
  }
  async signUp(wraps) {
    return this.answer("sign-up", await this.signingUp(wraps));
  }
  /** Signs up with the proof of a key, and returns the exchange. */
  async triesToSignUp(wraps, keys) {
    return this.ask("sign-up", await this.signingUp(wraps, keys));
  }
  start(wrap = "passphrase") {
    return this.answer("start", { login: this.login, wrap });
  }
  /** The fields of a request with a proof. `auth` is for the check of a signature. */
  prove(name, secret, challenge, other = {}) {
    const nonce = plain(randomBytes(32));
    const auth = this.auth(name, secret, challenge, nonce, other);
    const key = derive(secret.x, "sign-in");
    const mask = hmac(sha256(key), auth);
    const proof = plain(key.map((byte, place) => byte ^ mask[place]));
    return { auth, fields: { login: this.login, wrap: secret.id, challenge, nonce, proof, ...other } };
  }
  /** Sends a request with a fresh proof, and returns the exchange. */
  async proven(name, secret, other, options) {
    const { challenge } = await this.start(secret.id);
    const { auth, fields } = this.prove(name, secret, challenge, other);
    return Object.assign(await this.ask(name, fields, options), { auth });
  }
  /** Signs in as a new device, or as that one. */
  async signIn(secret, device = {}) {
    const exchange = await this.proven("sign-in", secret, { device });
    this.kit.expect(exchange.status === 200 && isMap(exchange.reply), `a sign-in with status 200, not ${exchange.status}`, exchange);
    const { auth, reply } = exchange;
    return Object.assign(reply, { auth, token: this.opened(reply, auth) });
  }
  /** The token that the server has sealed to the account's key. */
  opened({ serverKey, token }, auth) {
    const isSealed = isKey(serverKey) && token instanceof Uint8Array && token.length > 28;
    this.kit.expect(isSealed, "a sealed token and a key of the server", this.kit.last);
    try {
      const decipher = createDecipheriv("aes-256-gcm", sharedOf(this.key, serverKey, "token"), token.subarray(0, 12)).setAAD(auth);
      decipher.setAuthTag(token.subarray(-16));
      return Buffer.concat([decipher.update(token.subarray(12, -16)), decipher.final()]).toString();
    } catch {
      throw new Failure("a token that opens by the account's key", this.kit.last);
    }
  }
  /** The signature that the server owes for a sign-in. */
  signature({ auth, pub, wrapped }, secret) {
    return plain(hmac(derive(secret.x, "server"), auth, pub, wrapped));
  }
}
