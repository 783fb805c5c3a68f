// The glue that wasm-bindgen writes beside the compiled files of this folder; its shape is the contract in core.ts.
import type { Core, CoreOptions, Host } from "./core.js";

export default function init(input: { module_or_path: unknown }): Promise<unknown>;
export function open(options: CoreOptions, host: Host): Promise<Core>;
export function wipe(org: string, account: string): Promise<void>;
