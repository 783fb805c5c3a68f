/** Passkeys: the output of WebAuthn's PRF is one more secret. */

import { EscaleError } from "../index.js";

/** The output of a passkey's PRF, and the id of the passkey. */
export interface PasskeyOutput {
  readonly id: Uint8Array<ArrayBuffer>;
  readonly output: Uint8Array<ArrayBuffer>;
}

/** A passkey to make: `others` are those of the account, one of which an authenticator may have already. */
interface NewPasskey {
  readonly salt: Uint8Array<ArrayBuffer>;
  readonly login: string;
  readonly label: string;
  readonly others: readonly Uint8Array<ArrayBuffer>[];
}

/** The algorithms of a passkey's signature, which nobody checks: ES256, RS256. */
const ALGORITHMS = [-7, -257];

const unsupported = (cause?: unknown): EscaleError => {
  const message = "this browser, or its authenticator, gives no secret for a passkey: use the passphrase";
  return new EscaleError(
    { code: "not_supported", kind: "A", retryable: false, message, cure: "This version of Escale does not do that yet; see the CHANGELOG." },
    cause,
  );
};

const random = (): Uint8Array<ArrayBuffer> => crypto.getRandomValues(new Uint8Array(32));

/** Asks the user for a passkey of this account: one of `ids`, or any of the page if there are none. */
export async function usePasskey(salt: Uint8Array<ArrayBuffer>, ids: readonly Uint8Array<ArrayBuffer>[]): Promise<PasskeyOutput> {
  const allowCredentials = ids.map((id) => ({ id, type: "public-key" as const }));
  const extensions = { prf: { eval: { first: salt } } };
  const publicKey = { challenge: random(), allowCredentials, userVerification: "required" as const, extensions };
  const found = await credential(() => navigator.credentials.get({ publicKey }));
  const output = outputOf(found);
  if (!output) throw unsupported();
  return { id: new Uint8Array(found.rawId), output };
}

/** Makes a passkey, and gives its output. */
export async function makePasskey({ salt, login, label, others }: NewPasskey): Promise<PasskeyOutput> {
  const publicKey = {
    challenge: random(),
    rp: { name: label },
    user: { id: salt, name: login, displayName: login },
    pubKeyCredParams: ALGORITHMS.map((alg) => ({ type: "public-key" as const, alg })),
    authenticatorSelection: { residentKey: "required" as const, userVerification: "required" as const },
    extensions: { prf: { eval: { first: salt } } },
    excludeCredentials: others.map((id) => ({ id, type: "public-key" as const })),
  };
  const made = await credential(() => navigator.credentials.create({ publicKey }));
  const id = new Uint8Array(made.rawId);
  const output = outputOf(made);
  if (output) return { id, output };
  // Many authenticators give the output only when they are used.
  if (!made.getClientExtensionResults().prf?.enabled) throw unsupported();
  return usePasskey(salt, [id]);
}

async function credential(ask: () => Promise<Credential | null>): Promise<PublicKeyCredential> {
  if (typeof navigator === "undefined" || !("credentials" in navigator)) throw unsupported();
  try {
    const found = await ask();
    if (found) return found as PublicKeyCredential;
  } catch (cause) {
    const message = "no passkey was given: the user refused, or has none for this page";
    const cure = "Ask for the passphrase instead.";
    throw new EscaleError({ code: "wrong_passphrase", kind: "S", retryable: false, message, cure }, cause);
  }
  throw unsupported();
}

function outputOf(found: PublicKeyCredential): Uint8Array<ArrayBuffer> | undefined {
  const first = found.getClientExtensionResults().prf?.results?.first;
  if (!first) return undefined;
  return ArrayBuffer.isView(first)
    ? Uint8Array.from(new Uint8Array(first.buffer, first.byteOffset, first.byteLength))
    : new Uint8Array(first);
}
