/** X of each kind of secret, the wrap of K under it, and the proof that it is known (R73, R74). */

import {
  derive,
  fourBytes,
  fromPassphrase,
  hmac,
  join,
  lengthAnd,
  pack,
  ROUNDS,
  saltOf,
  seal,
  sha256,
  toText,
  unseal,
  utf8,
  type Bytes,
} from "./formulas.js";

/** The owner of an account: the org and the login. */
export interface Owner {
  readonly org: string;
  readonly login: string;
}

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
export async function passphraseSecret({ org, login }: Owner, passphrase: string, rounds: number = ROUNDS.least): Promise<Secret> {
  const x = await fromPassphrase(passphrase, await saltOf(org, login), rounds);
  return { x, by: "passphrase", id: "passphrase", rounds };
}

/** The secret of a recovery code: 20 bytes. */
export async function codeSecret({ org, login }: Owner, code: Bytes): Promise<Secret> {
  const salt = await saltOf(org, login);
  const id = toText((await derive(code, "code-id", salt)).slice(0, 16));
  return { x: await derive(code, "code", salt), by: "code", id, rounds: 0 };
}

/** The secret of a passkey: the output of its PRF. */
export async function passkeySecret({ org, login }: Owner, id: Bytes, output: Bytes): Promise<Secret> {
  return { x: await derive(output, "passkey", await saltOf(org, login)), by: "passkey", id: toText(id), rounds: 0 };
}

const kdfOf = ({ by }: Secret): "pbkdf2" | "none" => (by === "passphrase" ? "pbkdf2" : "none");

/** The place that a sealed K is bound to. */
const aadOf = (secret: Secret, { org, login }: Owner): Bytes =>
  join(
    utf8("escale/1/w"),
    new Uint8Array([KINDS.indexOf(secret.by)]),
    fourBytes(secret.rounds),
    lengthAnd(kdfOf(secret)),
    lengthAnd(org),
    lengthAnd(login),
  );

/** Wraps K for the server. */
export async function wrap(secret: Secret, owner: Owner, key: Bytes): Promise<Wrap> {
  const { id, by, rounds, x } = secret;
  return {
    id,
    by,
    kdf: kdfOf(secret),
    rounds,
    wrapped: await seal(await derive(x, "server-wrap"), key, aadOf(secret, owner)),
    stored: await sha256(await derive(x, "sign-in")),
    server: await derive(x, "server"),
  };
}

/** K of the server's wrap, or undefined if it does not open. */
export const unwrap = async (secret: Secret, owner: Owner, wrapped: Bytes): Promise<Bytes | undefined> =>
  unseal(await derive(secret.x, "server-wrap"), wrapped, aadOf(secret, owner));

/** Wraps K for this device. The server never gets these bytes, and they open under the same X alone. */
export const wrapHere = async (secret: Secret, owner: Owner, plain: Bytes): Promise<Bytes> =>
  seal(await derive(secret.x, "device-wrap"), plain, aadOf(secret, owner));

/** The plain bytes of {@link wrapHere}, or undefined. */
export const unwrapHere = async (secret: Secret, owner: Owner, sealed: Bytes): Promise<Bytes | undefined> =>
  unseal(await derive(secret.x, "device-wrap"), sealed, aadOf(secret, owner));

/** The proof of a secret, and the check of the server's signature. */
export interface Proof {
  readonly proof: Bytes;
  /** Whether the server has signed with the value of this account's wrap. */
  isSigned(by: Bytes, publicKey: Bytes, wrapped: Bytes): Promise<boolean>;
}

/** Proves a secret for a request (R74). `other` has the fields that the proof covers besides those given here. */
export async function prove(
  secret: Secret,
  owner: Owner,
  request: { name: string; challenge: Bytes; nonce: Bytes; other: object },
): Promise<Proof> {
  const { name, challenge, nonce, other } = request;
  const auth = join(
    utf8("escale/1/auth"),
    ...[name, owner.org, owner.login, secret.id].map(lengthAnd),
    challenge,
    nonce,
    fourBytes(secret.rounds),
    lengthAnd(kdfOf(secret)),
    await sha256(pack(other)),
  );
  const key = await derive(secret.x, "sign-in");
  const mask = await hmac(await sha256(key), auth);
  const server = await derive(secret.x, "server");
  return {
    proof: key.map((byte, place) => byte ^ (mask[place] ?? 0)),
    async isSigned(by, publicKey, wrapped) {
      const expected = await hmac(server, join(auth, publicKey, wrapped));
      return by.length === expected.length && expected.every((byte, place) => byte === by[place]);
    },
  };
}
