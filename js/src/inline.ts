/**
 * The entry `escale/inline`: all of `escale`, with the wasm in its JavaScript. It works with any tool, because there is no
 * file to copy or to find. `import "escale/inline"` anywhere in an application is enough; `escale` then uses it too.
 */

import { load } from "./carried.js";
// The same module as the application's "escale".
import { internal } from "./index.js";

internal.carry(load);

export * from "./index.js";
