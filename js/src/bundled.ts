/**
 * `escale` for tools that bundle modules and copy no other files. They are told by conditions in the package's `exports`.
 * The wasm is in a module that is loaded when it is needed; tools that do not split their output put it inside.
 */

import { carry } from "./index.js";

carry(() => import("./carried.js").then(({ load }) => load()), true);

export * from "./index.js";
