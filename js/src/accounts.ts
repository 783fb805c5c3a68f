/**
 * The entry `escale/accounts`: accounts on the server's endpoint `account`. The passphrase, the code and the keys never
 * leave the device.
 */

import { enter } from "./accounts/entry.js";
import { loginOf } from "./accounts/formulas.js";
import {
  addCode,
  close,
  devices,
  forget,
  recover,
  removeWrap,
  revoke,
  signUp,
  wraps,
} from "./accounts/manage.js";

/**
 * Sign-up, sign-in, devices and recovery. Pass it to `open` as `accounts`, instead of a token.
 *
 * @example
 * ```js
 * import { defineSchema, open } from "escale";
 * import { accounts } from "escale/accounts";
 *
 * const schema = defineSchema({ Note: { key: ["id"] } });
 * const place = { server: "http://localhost:7700", org: "demo", account: "ada" };
 * const { code } = await accounts.signUp({ ...place, passphrase, recoveryCode: true });
 * const session = await open({ ...place, schema, passphrase, accounts });
 * show(code, session.identity.fingerprint); // the user keeps the code
 * await session.unlock(passphrase); // after `passphrase_changed`, with the new one
 * ```
 */
export const accounts = /* @__PURE__ */ Object.freeze({
  /** @internal */
  enter,
  loginOf,
  signUp,
  recover,
  addCode,
  wraps,
  removeWrap,
  devices,
  revoke,
  close,
  forget,
});

export type { AccountPlace } from "./accounts/manage.js";
export type { AccountDevice, WrapInfo } from "./accounts/wire.js";
/** @internal */
export { addPasskey } from "./accounts/manage.js";
