/** Requests of the endpoint `account` (docs/protocol.md). */

import { codeOf, inTime, isBytes, random, textOf, toBytes, toText, type Bytes, type Refusal } from "../shared.js";
import type { Adapter, Role } from "../wasm/core.js";
import { fault, refusalOf } from "./faults.js";
import type { Identity } from "../session/entry.js";
import { identityOf, type Owner } from "./formulas.js";
import { kdfOf, passphraseSecret, prove, ROUNDS_MAX, ROUNDS_MIN, unsealKey, type Proof, type Secret } from "./secret.js";

/** How long a request may take. */
const REQUEST_MS = 30_000;

/** How often a challenge is asked for again that the server does not know. */
const CHALLENGES_MAX = 3;

/** Where an account is. */
export interface Server extends Owner {
  readonly server: string | URL | Adapter;
}

/** A device that has signed in. */
export interface AccountDevice {
  readonly id: string;
  readonly label: string;
  /** Its first sign-in and its last use, which is noted once a day, in milliseconds since 1970. */
  readonly first: number;
  readonly last: number;
  /** Whether it is this one. */
  readonly here: boolean;
}

/** A way to open the account. */
export interface WrapInfo {
  readonly id: string;
  readonly by: "passphrase" | "code" | "passkey";
  readonly rounds: number;
  /** When it was added, in milliseconds since 1970. */
  readonly at: number;
}

/** The results of a sign-in. */
export interface SignedIn {
  readonly key: Bytes;
  readonly identity: Identity;
  readonly token: string;
  readonly device: string;
  readonly secret: Secret;
  readonly role: Role | undefined;
}

type Answer = Record<string, unknown>;

/** Sends a request, and gives the answer. */
export const ask = async ({ server, org }: Server, request: object, token?: string): Promise<Answer> => {
  const body = JSON.stringify({ p: 1, ...request }, (_, value: unknown) => (isBytes(value) ? { $bytes: toText(value) } : value));
  let text: string;
  let failed = 0;
  if (typeof server === "object" && !(server instanceof URL)) {
    if (!server.account) throw fault("bad_option", "server: the adapter has no method account");
    try {
      const answer = await inTime(server.account(JSON.parse(body) as object, token), REQUEST_MS);
      text = typeof answer === "string" ? answer : JSON.stringify(answer);
    } catch (cause) {
      throw refusalOf(cause as Refusal & { status?: number }) ?? fault("offline", "the adapter failed", cause);
    }
  } else {
    if (server === "") throw fault("bad_option", "server: missing");
    const url = `${String(server).replace(/\/+$/, "")}/${encodeURIComponent(org)}/account`;
    try {
      const response = await fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) },
        body,
        signal: AbortSignal.timeout(REQUEST_MS),
        credentials: "omit",
        cache: "no-store",
      });
      text = await response.text();
      if (!response.ok) failed = response.status;
    } catch (cause) {
      throw fault("offline", "no answer of the server", cause);
    }
  }
  let answer: unknown;
  try {
    answer = JSON.parse(text, (_, value: { $bytes?: unknown } | null) =>
      typeof value?.$bytes === "string" ? toBytes(value.$bytes) : value,
    );
  } catch {
    // No message.
  }
  const noMessage = "the answer is no message of the protocol";
  if (!failed) {
    if (typeof answer === "object" && answer !== null) return answer as Answer;
    throw fault("bad_reply", noMessage);
  }
  // Without a message of the protocol, something answers in the server's place.
  throw refusalOf(answer as Refusal | undefined, failed) ?? fault(failed >= 500 || failed === 429 || failed === 408 ? "offline" : "bad_reply", `${failed}: ${noMessage}`);
};

/** A way in: a secret, or a passphrase, of which the server names the rounds. */
export type Way = Secret | string;

/** Proves a way in for a request, and sends it. `other` has the further fields of the request. */
export const proven = async (
  at: Server,
  way: Way,
  name: string,
  other: object,
  token?: string,
): Promise<Answer & { secret: Secret; expected: Proof }> => {
  const id = typeof way === "string" ? "passphrase" : way.id;
  const of = { login: at.login, wrap: id };
  for (let tries = 1; ; tries++) {
    const { challenge, kdf, rounds } = (await ask(at, { do: "start", ...of })) as Answer & { rounds: number };
    // The kind of secret is the user's choice, and its parameters are checked before any work (R74).
    const isFine = id === "passphrase" ? Number.isInteger(rounds) && rounds >= ROUNDS_MIN && rounds <= ROUNDS_MAX : rounds === 0;
    if (!isBytes(challenge) || challenge.length !== 32 || !isFine || kdf !== kdfOf(rounds)) throw fault("bad_reply", "start: parameters of no such wrap");
    const secret = typeof way === "string" ? await passphraseSecret(at, way, rounds) : way;
    if (secret.rounds !== rounds) throw fault("wrong_passphrase", "it was stored with other rounds");
    const request = { do: name, ...of, challenge, nonce: random(32) };
    const expected = await prove(secret, at, request, other);
    try {
      return { ...(await ask(at, { ...request, proof: expected.proof, ...other }, token)), secret, expected };
    } catch (error) {
      if (codeOf(error) !== "contention" || tries === CHALLENGES_MAX) throw error;
    }
  }
};

/**
 * Signs in. The server seals the token to the account's key, so the server's records alone bring none. Errors:
 * `wrong_passphrase`, `device_revoked`, `account_closed`, `offline`, `bad_reply`.
 */
export const signIn = async (
  at: Server,
  way: Way,
  device: { id?: string | undefined; label?: string | undefined } = {},
  token?: string,
): Promise<SignedIn> => {
  const answer = await proven(at, way, "sign-in", { device }, token);
  const { secret, expected, pub, wrapped, signature, serverKey, token: sealed, until, device: id, role } = answer;
  if (!isBytes(pub) || !isBytes(wrapped) || !isBytes(signature) || toText(await expected.signature(pub, wrapped)) !== toText(signature)) {
    throw fault("bad_reply", "sign-in: the signature does not fit");
  }
  const key = await unsealKey("server", secret, at, wrapped);
  const identity = key && (await identityOf(key, at.org));
  if (!identity || toText(identity.publicKey) !== toText(pub)) {
    throw fault("bad_reply", "sign-in: the key is not the account's");
  }
  const given = isBytes(sealed) && (await expected.token(key, serverKey, sealed));
  if (!given || typeof until !== "number" || typeof id !== "string") {
    throw fault("bad_reply", "sign-in: a field is missing");
  }
  return { key, identity, token: textOf(given), device: id, secret, role: role as Role | undefined };
};
