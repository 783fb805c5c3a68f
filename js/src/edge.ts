/**
 * `escale` for servers at the edge, which take compiled wasm alone. Conditions in `exports` tell such tools here.
 * Their tools compile a file that is imported in this form.
 */

import module from "./escale_bg.wasm?module";
import { carry } from "./index.js";

carry(() => Promise.resolve(module), true);

export * from "./index.js";
