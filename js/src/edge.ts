/**
 * `escale` for servers at the edge, which take compiled wasm alone. Conditions in `exports` tell such tools here.
 * Their tools compile a file that is imported in this form.
 */

import module from "./escale_bg.wasm?module";
import { internal } from "./index.js";

internal.carry(() => Promise.resolve(module), true);

export * from "./index.js";
