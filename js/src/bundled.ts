/**
 * `escale` for tools that bundle modules and copy no other files. Conditions in `exports` tell such tools here.
 * The wasm is in a module that is loaded when it is needed; tools that do not split their output put it inside.
 */

import { internal } from "./index.js";

internal.carry(() => import("./carried.js").then(({ load }) => load()), true);

export * from "./index.js";
