/** X of each kind of secret, the wrap of K under it, and the proof that it is known (R73, R74). */

import { fourBytes, hmac, join, seal, sha256, toText, unseal, utf8, type Bytes } from "../shared.js";
import { LONE_SURROGATE } from "../base/unicode.js";
import { fault } from "./faults.js";
import { derive, fromPassphrase, lengthAnd, pack, saltOf, sharedKey, type Owner } from "./formulas.js";

/** Rounds of PBKDF2: the bounds of `src/limits.rs`. A new wrap has the least. */
export const ROUNDS_MIN = 600_000;
export const ROUNDS_MAX = 10_000_000;

/** The kinds of secret, in the order of their bytes in a wrap. */
const KINDS = ["passphrase", "key", "code", "passkey"] as const;

/** A kind of secret that accounts have. */
export type SecretKind = "passphrase" | "code" | "passkey";

/** K under one secret, as the server stores it. */
export interface Wrap {
  id: string;
  by: SecretKind;
  kdf: "pbkdf2" | "none";
  rounds: number;
  wrapped: Bytes;
  stored: Bytes;
  server: Bytes;
}

/** X, and its place among the wraps. */
export interface Secret {
  readonly x: Bytes;
  readonly by: SecretKind;
  /** The id of its wrap. */
  readonly id: string;
  readonly rounds: number;
}

/** The secret of a passphrase. It takes a third of a second. */
export const passphraseSecret = async (owner: Owner, passphrase: string, rounds = ROUNDS_MIN): Promise<Secret> => {
  // Half of a surrogate pair would arrive as U+FFFD, and `open` refuses it.
  if (LONE_SURROGATE.test(passphrase)) throw fault("bad_option", "passphrase: not well-formed Unicode");
  return { x: await fromPassphrase(passphrase, await saltOf(owner), rounds), by: "passphrase", id: "passphrase", rounds };
};

/** The secret of a recovery code: 20 bytes. */
export const codeSecret = async (owner: Owner, code: Bytes): Promise<Secret> => {
  const salt = await saltOf(owner);
  const id = toText((await derive(code, "code-id", salt)).slice(0, 16));
  return { x: await derive(code, "code", salt), by: "code", id, rounds: 0 };
};

/** The secret of a passkey: the output of its PRF. */
export const passkeySecret = async (owner: Owner, id: Bytes, output: Bytes): Promise<Secret> => {
  return { x: await derive(output, "passkey", await saltOf(owner)), by: "passkey", id: toText(id), rounds: 0 };
};

/** How X is made: a passphrase alone has rounds. */
export const kdfOf = (rounds: number): "pbkdf2" | "none" => (rounds ? "pbkdf2" : "none");

/** The parameters of a secret, as a wrap and a proof are bound to them. */
const parameters = ({ rounds }: Pick<Secret, "rounds">): Bytes => join(fourBytes(rounds), lengthAnd(kdfOf(rounds)));

/** The place that a sealed K is bound to. */
const aadOf = (secret: Secret, { org, login }: Owner): Bytes =>
  join(utf8("escale/1/w"), [KINDS.indexOf(secret.by)], parameters(secret), lengthAnd(org), lengthAnd(login));

/** Where a sealed K is. The server never gets the bytes of a device, and both open under the same X alone. */
type Place = "device" | "server";

/** Seals K for a place. */
export const sealKey = async (place: Place, secret: Secret, owner: Owner, key: Bytes): Promise<Bytes> =>
  seal(await derive(secret.x, `${place}-wrap`), key, aadOf(secret, owner));

/** K of {@link sealKey}, or undefined if it does not open. */
export const unsealKey = async (place: Place, secret: Secret, owner: Owner, sealed: Bytes): Promise<Bytes | undefined> =>
  unseal(await derive(secret.x, `${place}-wrap`), sealed, aadOf(secret, owner));

/** Wraps K for the server. */
export const wrap = async (secret: Secret, owner: Owner, key: Bytes): Promise<Wrap> => {
  const { x, ...place } = secret;
  return {
    ...place,
    kdf: kdfOf(place.rounds),
    wrapped: await sealKey("server", secret, owner, key),
    stored: await sha256(await derive(x, "sign-in")),
    server: await derive(x, "server"),
  };
};

/** A request with a proof. */
interface Asked {
  readonly do: string;
  readonly challenge: Bytes;
  readonly nonce: Bytes;
}

/** The bytes that a proof covers. `other` has the request's fields besides those of `asked`. */
const authOf = async (asked: Asked, owner: Owner, of: Pick<Secret, "id" | "rounds">, other: object): Promise<Bytes> =>
  join(
    utf8("escale/1/auth"),
    ...[asked.do, owner.org, owner.login, of.id].map(lengthAnd),
    asked.challenge,
    asked.nonce,
    parameters(of),
    await sha256(pack(other)),
  );

/** The proof that a sign-up has the key of its account. */
export const proveKey = async (key: Bytes, serverKey: unknown, owner: Owner, asked: Asked, other: object): Promise<Bytes> =>
  hmac(await sharedKey(key, serverKey, "sign-up"), await authOf(asked, owner, { id: "", rounds: 0 }, other));

/** The proof of a secret, and the proof that the server gives in turn. */
export interface Proof {
  readonly proof: Bytes;
  /** The token that the server has sealed to the account's key. Undefined if it does not open. */
  readonly token: (key: Bytes, serverKey: unknown, sealed: Bytes) => Promise<Bytes | undefined>;
  /** The signature of a server that has the value of this account's wrap. */
  readonly signature: (publicKey: Bytes, wrapped: Bytes) => Promise<Bytes>;
}

/** Proves a secret for a request (R74). */
export const prove = async (
  secret: Secret,
  owner: Owner,
  asked: Asked,
  other: object,
): Promise<Proof> => {
  const auth = await authOf(asked, owner, secret, other);
  const key = await derive(secret.x, "sign-in");
  const mask = await hmac(await sha256(key), auth);
  const server = await derive(secret.x, "server");
  return {
    proof: key.map((byte, place) => byte ^ (mask[place] ?? 0)),
    token: async (key, serverKey, sealed) => unseal(await sharedKey(key, serverKey, "token"), sealed, auth),
    signature: (publicKey, wrapped) => hmac(server, join(auth, publicKey, wrapped)),
  };
};
