/** The entry `escale/passkeys`: a passkey opens an account, next to its passphrase. */

import { addPasskey } from "./accounts.js";
import { makePasskey, usePasskey } from "./accounts/webauthn.js";

/**
 * Passkeys for accounts. `add` makes one; passed to `open` as `passkey`, it replaces the passphrase. A user who deletes
 * the passkey needs the passphrase or the code.
 *
 * @example
 * ```js
 * import { open } from "escale";
 * import { accounts } from "escale/accounts";
 * import { passkeys } from "escale/passkeys";
 *
 * await passkeys.add(session, passphrase, "My application");
 * const again = await open({ server, org, account: "ada", schema, accounts, passkey: passkeys });
 * ```
 */
export const passkeys = /* @__PURE__ */ Object.freeze({
  /** @internal */
  use: usePasskey,
  /**
   * Makes a passkey on this device, or on the user's phone. `label` names the application to the user. Errors:
   * `not_supported` if the browser gives no secret for passkeys, `wrong_passphrase` if the user refuses.
   */
  async add(session: object, passphrase: string, label: string): Promise<void> {
    await addPasskey(session, passphrase, (salt, login, others) => makePasskey({ salt, login, label, others }));
  },
});
