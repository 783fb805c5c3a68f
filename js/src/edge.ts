/**
 * `escale` for servers at the edge, which take compiled wasm alone. They are told by conditions in the package's `exports`.
 * Their tools compile a file that is imported in this form.
 */

import module from "./escale_bg.wasm?module";
import { carry } from "./index.js";

carry(() => Promise.resolve(module), true);

export * from "./index.js";
