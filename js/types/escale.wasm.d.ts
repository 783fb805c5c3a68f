// The type of `import wasm from "escale/escale.wasm"`, for `init`: tools give an address, bytes or a compiled module.
import type { InitInput } from "./index.js";
declare const wasm: InitInput;
export default wasm;
