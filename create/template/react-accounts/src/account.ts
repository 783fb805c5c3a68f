// The user's account: how a device gets in, and how it leaves. The server never learns the passphrase, nor any key.
import { accounts } from "escale/accounts";

import { openSession, PLACE, type AppSession } from "./session";

/** The account of a login as it was typed: case and width make no difference. */
const placeOf = (login: string) => ({ ...PLACE, account: accounts.loginOf(login) });

/** Makes an account. The result is its recovery code, which is never shown again. */
export async function signUp(login: string, passphrase: string): Promise<string> {
  const { code = "" } = await accounts.signUp({ ...placeOf(login), passphrase, recoveryCode: true });
  return code;
}

/** Opens the account on this device. The first time needs a network, and later ones do not. */
export function signIn(login: string, passphrase: string): Promise<AppSession> {
  return openSession(passphrase, { account: accounts.loginOf(login), accounts });
}

/** Sets another passphrase by the recovery code. */
export function recover(login: string, code: string, passphrase: string): Promise<void> {
  return accounts.recover({ ...placeOf(login), code, passphrase });
}

/**
 * Removes everything of the account from this device. Fails with `not_saved` while writes or drafts would be lost, unless
 * the user has agreed.
 */
export async function leave(session: AppSession, login: string, hasAgreed: boolean): Promise<void> {
  await session.wipe(hasAgreed ? { drafts: "delete" } : {});
  await accounts.forget(placeOf(login));
}
