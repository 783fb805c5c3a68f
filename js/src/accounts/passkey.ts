/** Passkeys: the output of WebAuthn's PRF is one more secret. */

import { fault } from "./faults.js";
import { random, saltOf, toBytes, type Bytes } from "./formulas.js";
import { passkeySecret, type Owner, type Secret } from "./secret.js";

const unsupported = (cause?: unknown): Error =>
  fault("not_supported", "this browser, or its authenticator, gives no PRF: use the passphrase", cause);

/** Asks the user for a passkey of this account. With `ids`, one of these. */
export async function usePasskey(owner: Owner, ids: readonly string[] = []): Promise<Secret> {
  const salt = await saltOf(owner.org, owner.login);
  const allowCredentials = ids.map((id) => ({ id: toBytes(id), type: "public-key" as const }));
  const found = await credential(() =>
    navigator.credentials.get({
      publicKey: { challenge: random(32), allowCredentials, userVerification: "required", extensions: { prf: { eval: { first: salt } } } },
    }),
  );
  const output = outputOf(found);
  if (!output) throw unsupported();
  return passkeySecret(owner, new Uint8Array(found.rawId), output);
}

/** Makes a passkey for this account, and gives its secret. */
export async function makePasskey(owner: Owner, label: string): Promise<Secret> {
  const salt = await saltOf(owner.org, owner.login);
  const made = await credential(() =>
    navigator.credentials.create({
      publicKey: {
        challenge: random(32),
        rp: { name: label },
        user: { id: salt, name: owner.login, displayName: owner.login },
        pubKeyCredParams: [{ type: "public-key", alg: -7 }, { type: "public-key", alg: -257 }],
        authenticatorSelection: { residentKey: "required", userVerification: "required" },
        extensions: { prf: { eval: { first: salt } } },
      },
    }),
  );
  const output = outputOf(made);
  const id = new Uint8Array(made.rawId);
  if (output) return passkeySecret(owner, id, output);
  // Many authenticators give the output only when they are used.
  if (!made.getClientExtensionResults().prf?.enabled) throw unsupported();
  return usePasskey(owner, [made.id]);
}

async function credential(ask: () => Promise<Credential | null>): Promise<PublicKeyCredential> {
  if (typeof navigator === "undefined" || !("credentials" in navigator)) throw unsupported();
  let found: Credential | null;
  try {
    found = await ask();
  } catch (cause) {
    throw fault("wrong_passphrase", "no passkey was given: it was refused, or there is none for this page", cause);
  }
  if (!found) throw unsupported();
  return found as PublicKeyCredential;
}

function outputOf(found: PublicKeyCredential): Bytes | undefined {
  const first = found.getClientExtensionResults().prf?.results?.first;
  if (!first) return undefined;
  return ArrayBuffer.isView(first) ? new Uint8Array(first.buffer.slice(first.byteOffset, first.byteOffset + first.byteLength) as ArrayBuffer) : new Uint8Array(first);
}
