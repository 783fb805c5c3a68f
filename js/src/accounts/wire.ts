/** Requests of the endpoint `account` (docs/protocol.md). */

import type { Adapter } from "../wasm/core.js";
import { fault, faultOfServer } from "./faults.js";
import type { EscaleError } from "../index.js";
import type { Refusal } from "../base/faults.js";
import type { Identity } from "../session/entry.js";
import { identityOf, random, ROUNDS, toBytes, toText, type Bytes } from "./formulas.js";
import { prove, unwrap, type Owner, type Secret, type Wrap } from "./secret.js";

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
  readonly until: number;
  readonly device: string;
}

type Answer = Record<string, unknown>;

/** Sends a request, and gives the answer. */
export async function ask({ server, org }: Server, request: object, token?: string): Promise<Answer> {
  const body = JSON.stringify({ p: 1, ...request }, (_, value: unknown) =>
    value instanceof Uint8Array ? { $bytes: toText(value) } : value,
  );
  let text: string;
  if (typeof server === "object" && !(server instanceof URL)) {
    if (!server.account) throw fault("bad_option", "server: the adapter has no method account");
    try {
      const answer = await server.account(JSON.parse(body) as object, token);
      text = typeof answer === "string" ? answer : JSON.stringify(answer);
    } catch (cause) {
      throw refusalOf((cause as { status?: number }).status ?? 0, cause) ?? fault("offline", "the adapter failed", cause);
    }
  } else {
    if (server === "") throw fault("bad_option", "server: missing");
    text = await post(`${String(server).replace(/\/+$/, "")}/${encodeURIComponent(org)}/account`, body, token);
  }
  const answer = read(text);
  if (!answer) throw fault("bad_reply", NO_MESSAGE);
  return answer;
}

async function post(url: string, body: string, token: string | undefined): Promise<string> {
  const headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
  let response: Response;
  let text: string;
  try {
    const signal = AbortSignal.timeout(REQUEST_MS);
    response = await fetch(url, { method: "POST", headers, body, signal, credentials: "omit", cache: "no-store" });
    text = await response.text();
  } catch (cause) {
    throw fault("offline", "no answer of the server", cause);
  }
  const { ok, status } = response;
  if (ok) return text;
  // Without a message of the protocol, something answers in the server's place.
  throw refusalOf(status, read(text)) ?? fault(status >= 500 || status === 429 || status === 408 ? "offline" : "bad_reply", `${status}: ${NO_MESSAGE}`);
}

const NO_MESSAGE = "the answer is no message of the protocol";

/** The error for the fault of a server or an adapter, if it is one. */
const refusalOf = (status: number, given: unknown): EscaleError | undefined => {
  const refusal = given as Refusal | undefined;
  return typeof refusal?.code === "string" ? faultOfServer(status, refusal) : undefined;
};

function read(text: string): Answer | undefined {
  try {
    const parsed: unknown = JSON.parse(text, (_, value: { $bytes?: unknown } | null) =>
      typeof value?.$bytes === "string" ? toBytes(value.$bytes) : value,
    );
    if (typeof parsed === "object" && parsed !== null) return parsed as Answer;
  } catch {
    // No message.
  }
  return undefined;
}

const isBytesOf = (value: unknown, length?: number): value is Bytes =>
  value instanceof Uint8Array && (length === undefined || value.length === length);

/** Proves a secret for a request, and sends it. `other` has the further fields of the request. */
export async function proven(
  at: Server,
  source: SecretSource,
  name: string,
  other: object,
  token?: string,
): Promise<{ answer: Answer; secret: Secret; check: Awaited<ReturnType<typeof prove>> }> {
  const { login } = at;
  const { id } = source;
  for (let tries = 1; ; tries++) {
    const { challenge, kdf, rounds } = await ask(at, { do: "start", login, wrap: id });
    // The kind of secret is the user's choice, and its parameters are checked before any work (R74).
    const isFine = id === "passphrase" ? kdf === "pbkdf2" && isRounds(rounds) : kdf === "none" && rounds === 0;
    if (!isBytesOf(challenge, 32) || !isFine) throw fault("bad_reply", "start: parameters of no such wrap");
    const secret = await source.of(rounds as number);
    const nonce = random(32);
    const check = await prove(secret, at, { name, challenge, nonce, other });
    try {
      const answer = await ask(at, { do: name, login, wrap: id, challenge, nonce, proof: check.proof, ...other }, token);
      return { answer, secret, check };
    } catch (error) {
      if (codeOf(error) !== "contention" || tries === CHALLENGES_MAX) throw error;
    }
  }
}

/** The code of an error. */
export const codeOf = (error: unknown): unknown => (error as { code?: unknown }).code;

const isRounds = (rounds: unknown): boolean =>
  typeof rounds === "number" && Number.isInteger(rounds) && rounds >= ROUNDS.least && rounds <= ROUNDS.most;

/** A secret that may have to be made for other rounds. */
export interface SecretSource {
  /** The id of its wrap. */
  readonly id: string;
  of(rounds: number): Promise<Secret>;
}

/** Signs in. Errors: `wrong_passphrase`, `device_revoked`, `account_closed`, `offline`, `bad_reply`. */
export async function signIn(
  at: Server,
  source: SecretSource,
  device: { id?: string | undefined; label?: string | undefined },
  token?: string,
): Promise<SignedIn & { secret: Secret }> {
  const { answer, secret, check } = await proven(at, source, "sign-in", { device }, token);
  const { pub, wrapped, signature, token: given, until, device: id } = answer;
  if (!isBytesOf(pub, 32) || !isBytesOf(wrapped) || !isBytesOf(signature) || !(await check.isSigned(signature, pub, wrapped))) {
    throw fault("bad_reply", "sign-in: the signature does not fit");
  }
  const key = await unwrap(secret, at, wrapped);
  const identity = key && (await identityOf(key, at.org));
  if (!key || !identity || toText(identity.publicKey) !== toText(pub)) {
    throw fault("bad_reply", "sign-in: the key is not the account's");
  }
  if (typeof given !== "string" || typeof until !== "number" || typeof id !== "string") {
    throw fault("bad_reply", "sign-in: a field is missing");
  }
  return { key, identity, token: given, until, device: id, secret };
}

/** Changes the wraps, with a proof. */
export const changeWraps = (
  at: Server,
  source: SecretSource,
  change: { put?: Wrap[]; remove?: string[]; revoke?: "others" },
  token: string,
): Promise<unknown> => proven(at, source, "wraps", change, token);
