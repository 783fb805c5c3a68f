/** Requests of the endpoint `account` (docs/protocol.md). */

import type { Adapter } from "../wasm/core.js";
import { fault, faultOf } from "./faults.js";
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
  /** Its first and its last sign-in, in milliseconds since 1970. */
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
  if (server === "") throw fault("bad_option", "server: the account needs it for this");
  const body = JSON.stringify({ p: 1, ...request }, (_, value: unknown) =>
    value instanceof Uint8Array ? { $bytes: toText(value) } : value,
  );
  let text: string;
  if (typeof server === "object" && !(server instanceof URL)) {
    if (!server.account) throw fault("bad_option", "server: the adapter has no method account");
    const answer = await server.account(JSON.parse(body) as object, token).catch((cause: unknown) => {
      const given = cause as { status?: number; code?: unknown };
      throw typeof given.code === "string" ? faultOf(given.status ?? 0, given) : fault("offline", "the adapter failed", cause);
    });
    text = typeof answer === "string" ? answer : JSON.stringify(answer);
  } else {
    text = await post(`${String(server).replace(/\/+$/, "")}/${encodeURIComponent(org)}/account`, body, token);
  }
  return read(text);
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
    throw fault("offline", "the server could not be reached", cause);
  }
  if (response.ok) return text;
  const { status } = response;
  try {
    const given = JSON.parse(text) as { code?: unknown };
    if (typeof given.code === "string") throw faultOf(status, given);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  // Something answers in the server's place.
  throw fault(status >= 500 || status === 429 || status === 408 ? "offline" : "bad_reply", `the answer was ${status}, and no message of the protocol`);
}

function read(text: string): Answer {
  try {
    const isBytes = (value: unknown): value is { $bytes: string } =>
      typeof value === "object" && value !== null && typeof (value as { $bytes?: unknown }).$bytes === "string";
    const parsed: unknown = JSON.parse(text, (_, value: unknown) => (isBytes(value) ? toBytes(value.$bytes) : value));
    if (typeof parsed === "object" && parsed !== null) return parsed as Answer;
  } catch {
    // Below.
  }
  throw fault("bad_reply", "the answer is no message of the protocol");
}

const isBytesOf = (value: unknown, length?: number): value is Bytes =>
  value instanceof Uint8Array && (length === undefined || value.length === length);

/** Proves the secret for a request, and sends it. `make` gets the secret of the wrap's rounds. */
async function proven(
  at: Server,
  make: (rounds: number) => Promise<Secret>,
  sent: { name: string; id: string; other: object; token?: string | undefined },
): Promise<{ answer: Answer; secret: Secret; check: Awaited<ReturnType<typeof prove>> }> {
  const { name, id, other, token } = sent;
  for (let tries = 1; ; tries++) {
    const { challenge, kdf, rounds } = await ask(at, { do: "start", login: at.login, wrap: id });
    // The kind of secret is the user's choice, and its parameters are checked before any work (R74).
    const isFine = id === "passphrase" ? kdf === "pbkdf2" && isRounds(rounds) : kdf === "none" && rounds === 0;
    if (!isBytesOf(challenge, 32) || !isFine) throw fault("bad_reply", "start: parameters that no wrap of this kind has");
    const secret = await make(rounds as number);
    const nonce = random(32);
    const check = await prove(secret, at, { name, challenge, nonce, other });
    try {
      const request = { do: name, login: at.login, wrap: id, challenge, nonce, proof: check.proof, ...other };
      return { answer: await ask(at, request, token), secret, check };
    } catch (error) {
      const { code } = error as { code?: string };
      if (code !== "contention" || tries === CHALLENGES_MAX) throw error;
    }
  }
}

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
  const other = { device };
  const { answer, secret, check } = await proven(at, (rounds) => source.of(rounds), { name: "sign-in", id: source.id, other, token });
  const { pub, wrapped, signature, token: given, until, device: id } = answer;
  if (!isBytesOf(pub, 32) || !isBytesOf(wrapped) || !isBytesOf(signature) || !(await check.isSigned(signature, pub, wrapped))) {
    throw fault("bad_reply", "sign-in: the server's signature does not fit");
  }
  const key = await unwrap(secret, at, wrapped);
  const identity = key && (await identityOf(key, at.org));
  if (!key || !identity || toText(identity.publicKey) !== toText(pub)) {
    throw fault("bad_reply", "sign-in: the key is not the account's");
  }
  if (typeof given !== "string" || typeof until !== "number" || typeof id !== "string") {
    throw fault("bad_reply", "sign-in: token, until or device is missing");
  }
  return { key, identity, token: given, until, device: id, secret };
}

/** Changes the wraps, with a proof. */
export async function changeWraps(
  at: Server,
  source: SecretSource,
  change: { put?: Wrap[]; remove?: string[]; revoke?: "others" },
  token: string,
): Promise<void> {
  await proven(at, (rounds) => source.of(rounds), { name: "wraps", id: source.id, other: change, token });
}

/** Closes the account, with a proof. */
export async function closeAccount(at: Server, source: SecretSource, other: { force?: boolean }, token: string): Promise<void> {
  await proven(at, (rounds) => source.of(rounds), { name: "close", id: source.id, other, token });
}
