/**
 * The inner module `shared`: the parts of `platform` and `base` that `escale/accounts` and `escale/files` have in common. No
 * application names it. These entries do not contain it, so a page loads it once.
 */

export { fourBytes, isBytes, join, random, sha256, textOf, toBytes, toText, utf8, type Bytes } from "./base/binary.js";
export { COMMON } from "./base/faults.js";
export { aes, HMAC, hmac, importKey, seal, unseal, use } from "./platform/cipher.js";
export { openDatabase, settled, transact } from "./platform/database.js";
export { codeOf, faultOf, refused, type Refusal } from "./platform/errors.js";
export { backOff, inTime, sleep, wake, type Sleepers } from "./platform/retry.js";
