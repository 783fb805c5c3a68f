import type { Glue } from "./core.js";
import { EscaleError, raise } from "./errors.js";

/** Where the wasm comes from: compiled, as bytes, or by its URL. */
export type InitInput =
  | WebAssembly.Module
  | ArrayBuffer
  | Uint8Array
  | URL
  | string
  | Response
  | PromiseLike<Response>;

/** The smallest module there is: magic number and version. */
const EMPTY_MODULE = Uint8Array.of(0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0);

/**
 * The wasm of this page, started once. A failed start is forgotten, so that the next call tries again; where an instance
 * dies, the next call starts another one of the same module.
 */
export class Wasm {
  readonly #make: () => Glue;
  readonly #defaultUrl: () => URL;
  #started: Promise<Glue> | undefined;
  /** As it was compiled, to start it again with no network. */
  #module: WebAssembly.Module | undefined;

  constructor(make: () => Glue, defaultUrl: () => URL) {
    this.#make = make;
    this.#defaultUrl = defaultUrl;
  }

  /** The same code as it was compiled, for instances of its own. */
  twin(): Wasm {
    const twin = new Wasm(this.#make, this.#defaultUrl);
    twin.#module = this.#module;
    return twin;
  }

  /** Starts it, from `input` or from the file beside this package; the first call that succeeds decides. */
  start(input?: InitInput): Promise<Glue> {
    this.#started ??= this.#start(input).catch((error: unknown) => {
      this.#started = undefined;
      throw error;
    });
    return this.#started;
  }

  async #start(input: InitInput | undefined): Promise<Glue> {
    if (!isAllowed()) throw raise("wasm_forbidden", "this page does not allow WebAssembly to be compiled");
    try {
      this.#module ??= await compile(input ?? this.#defaultUrl());
      const glue = this.#make();
      await glue.default({ module_or_path: this.#module });
      void glue.death?.then(() => (this.#started = undefined));
      return glue;
    } catch (cause) {
      this.#module = undefined;
      if (cause instanceof EscaleError) throw cause;
      throw raise("wasm_failed", "the wasm did not start", cause);
    }
  }
}

/** Whether the page's policy lets wasm run; asked of the engine itself, whose wording differs between browsers. */
function isAllowed(): boolean {
  try {
    return new WebAssembly.Module(EMPTY_MODULE) instanceof WebAssembly.Module;
  } catch {
    return false;
  }
}

async function compile(input: InitInput): Promise<WebAssembly.Module> {
  if (input instanceof WebAssembly.Module) return input;
  if (input instanceof ArrayBuffer || input instanceof Uint8Array) return compileBytes(input, "the bytes given");
  if (typeof input !== "string" && !(input instanceof URL)) {
    const response: unknown = await input;
    if (response instanceof Response) return compileResponse(response);
    throw raise("bad_option", "init takes a WebAssembly.Module, bytes, a URL or a Response");
  }
  const url = new URL(input, globalThis.location?.href);
  return url.protocol === "file:" ? compileFile(url) : compileUrl(url);
}

async function compileUrl(url: URL): Promise<WebAssembly.Module> {
  let response: Response;
  try {
    response = await fetch(url);
  } catch (cause) {
    throw raise("wasm_failed", `${url.href} could not be fetched`, cause);
  }
  return compileResponse(response);
}

async function compileResponse(response: Response): Promise<WebAssembly.Module> {
  const place = response.url || "the response given";
  if (!response.ok) throw raise("wasm_failed", `${place} answered ${response.status}`);
  // Compiled as it arrives where the server names the type rightly; many do not, and bytes do as well.
  if (response.headers.get("content-type") !== "application/wasm") return compileBytes(await response.arrayBuffer(), place);
  try {
    return await WebAssembly.compileStreaming(response);
  } catch (cause) {
    throw raise("wasm_failed", `${place} is not a WebAssembly file that this browser can compile`, cause);
  }
}

async function compileBytes(bytes: ArrayBuffer | Uint8Array, place: string): Promise<WebAssembly.Module> {
  const head = new Uint8Array(bytes instanceof Uint8Array ? bytes.slice(0, 4) : bytes.slice(0, 4));
  if (head.length < 4 || head.some((byte, i) => byte !== EMPTY_MODULE[i])) {
    throw raise("wasm_failed", `${place} is not a WebAssembly file (is it a page that answers in its place?)`);
  }
  try {
    return await WebAssembly.compile(bytes as BufferSource);
  } catch (cause) {
    throw raise("wasm_failed", `${place} cannot be compiled here`, cause);
  }
}

/** Node does not fetch files. The module's name is no literal, or bundlers for browsers would look for it. */
async function compileFile(url: URL): Promise<WebAssembly.Module> {
  const name = ["node", "fs/promises"].join(":");
  let bytes: Uint8Array;
  try {
    const fs = (await import(/* @vite-ignore */ /* webpackIgnore: true */ name)) as {
      readFile(path: URL): Promise<Uint8Array>;
    };
    bytes = await fs.readFile(url);
  } catch (cause) {
    throw raise("wasm_failed", "the .wasm file beside this package could not be read", cause);
  }
  return compileBytes(bytes, "the .wasm file");
}
