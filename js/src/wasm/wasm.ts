/** Compiles the wasm of the page once, and hands out its instances. */

import { isBuffer, isBytes } from "../base/bytes.js";
import type { Glue } from "./core.js";
import { EscaleError, raise } from "../base/errors.js";

/** The source of the wasm: a compiled module, bytes, a response, or a URL. */
export type InitInput =
  | WebAssembly.Module
  | ArrayBuffer
  | Uint8Array
  | URL
  | string
  | Response
  | PromiseLike<Response>;

/** The smallest possible module: magic number and version. */
const EMPTY_MODULE = Uint8Array.of(0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0);

/** An instance of the wasm, in use until it is given back. */
export interface Lease {
  readonly glue: Glue;
  /** Idempotent. */
  giveBack(this: void): void;
}

/** An instance, and the number of its users. */
interface Shared {
  readonly starting: Promise<Glue>;
  glue?: Glue;
  users: number;
}

/**
 * The wasm of this page, compiled once. A failed start is forgotten, so that the next call tries again.
 *
 * Sessions of one store share an instance, which keeps the list of the sessions that have the store open. Sessions of
 * different stores never share one. An instance ends with its last session. Its memory is then overwritten, because
 * freed keys and documents are still in it.
 */
export class Wasm {
  readonly #make: () => Glue;
  readonly #defaultUrl: () => URL;
  /** An instance that nobody has used. */
  #spare: Promise<Glue> | undefined;
  readonly #shared = new Map<string | symbol, Shared>();
  /** The ends of instances that may still hold locks of their stores. */
  readonly #ending = new Map<string | symbol, Promise<void>>();
  /** The compiled module, to start another instance without a network. */
  #module: WebAssembly.Module | undefined;
  /** Gives the wasm where the application's JavaScript carries it. If there is none, the default URL leads to it. */
  carried: (() => PromiseLike<InitInput>) | undefined;

  constructor(make: () => Glue, defaultUrl: () => URL) {
    this.#make = make;
    this.#defaultUrl = defaultUrl;
  }

  /** Another `Wasm` with the same compiled code, and with separate instances. */
  copy(): Wasm {
    const copy = new Wasm(this.#make, this.#defaultUrl);
    copy.#module = this.#module;
    return copy;
  }

  /**
   * Starts an instance ahead of its use, from `input` or from the file next to this package. The first call that
   * succeeds decides. Once the wasm is compiled, there is nothing to do ahead.
   */
  async start(input?: InitInput): Promise<void> {
    if (this.#module === undefined || this.#spare) await this.#ahead(input);
  }

  /** Takes the instance of a store, and starts one if there is none. */
  async take(store: string | symbol): Promise<Lease> {
    let known = this.#shared.get(store);
    if (!known || known.glue?.isDead?.()) {
      known = { starting: this.#next(store), users: 0 };
      this.#shared.set(store, known);
    }
    const shared = known;
    shared.users += 1;
    let isGiven = false;
    const giveBack = (): void => {
      if (!isGiven) this.#giveBack(store, shared);
      isGiven = true;
    };
    try {
      return { glue: (shared.glue = await shared.starting), giveBack };
    } catch (error) {
      giveBack();
      throw error;
    }
  }

  #giveBack(store: string | symbol, shared: Shared): void {
    shared.users -= 1;
    if (shared.users > 0) return;
    if (this.#shared.get(store) === shared) this.#shared.delete(store);
    const ended = Promise.resolve(shared.glue?.end?.()).finally(() => {
      if (this.#ending.get(store) === ended) this.#ending.delete(store);
    });
    this.#ending.set(store, ended);
  }

  async #next(store: string | symbol): Promise<Glue> {
    await this.#ending.get(store);
    const next = this.#ahead();
    this.#spare = undefined;
    return next;
  }

  #ahead(input?: InitInput): Promise<Glue> {
    const spare = (this.#spare ??= this.#start(input).catch((error: unknown) => {
      if (this.#spare === spare) this.#spare = undefined;
      throw error;
    }));
    return spare;
  }

  async #start(input: InitInput | undefined): Promise<Glue> {
    const known = this.#module;
    try {
      this.#module ??= await compile(input ?? (await this.carried?.()) ?? this.#defaultUrl());
      const glue = this.#make();
      await glue.default({ module_or_path: this.#module });
      return glue;
    } catch (cause) {
      this.#module = known;
      if (cause instanceof EscaleError) throw cause;
      throw raise("wasm_failed", "the wasm did not start", cause);
    }
  }
}

function isModule(input: InitInput): boolean {
  return Object.prototype.toString.call(input) === "[object WebAssembly.Module]";
}

/**
 * Whether the page's policy allows wasm. Tested by compiling, because the wording of the errors differs between
 * browsers.
 */
function isAllowed(): boolean {
  try {
    return new WebAssembly.Module(EMPTY_MODULE) instanceof WebAssembly.Module;
  } catch {
    return false;
  }
}

async function compile(input: InitInput): Promise<WebAssembly.Module> {
  // A module needs no leave to be compiled: servers at the edge have no other wasm. There it is made by another program.
  if (isModule(input)) return input;
  if (!isAllowed()) throw raise("wasm_forbidden", "this page does not allow WebAssembly to be compiled");
  if (isBuffer(input) || isBytes(input)) return compileBytes(input, "the bytes given");
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
  // Streaming compilation needs the right content type. Many servers send another one, and bytes work as well.
  if (response.headers.get("content-type") !== "application/wasm") return compileBytes(await response.arrayBuffer(), place);
  try {
    return await WebAssembly.compileStreaming(response);
  } catch (cause) {
    throw raise("wasm_failed", `${place} is not a WebAssembly file that this browser can compile`, cause);
  }
}

async function compileBytes(bytes: ArrayBuffer | Uint8Array, place: string): Promise<WebAssembly.Module> {
  const head = new Uint8Array(isBytes(bytes) ? bytes.slice(0, 4) : bytes.slice(0, 4));
  if (head.length < 4 || head.some((byte, i) => byte !== EMPTY_MODULE[i])) {
    throw raise("wasm_failed", `${place} is not a WebAssembly file (is it a page that answers in its place?)`);
  }
  try {
    return await WebAssembly.compile(bytes as BufferSource);
  } catch (cause) {
    throw raise("wasm_failed", `${place} cannot be compiled here`, cause);
  }
}

/** The functions of Node that are used here. */
interface Files {
  readFile(path: URL): Promise<Uint8Array>;
}

/**
 * Reads a file: Node's `fetch` does not. The module's name is no literal, or bundlers for browsers would look for it. Jest
 * forbids `import()` in its default form, so Node's own function comes first; Node has it from 20.16 on.
 */
async function compileFile(url: URL): Promise<WebAssembly.Module> {
  const name = ["node", "fs/promises"].join(":");
  const { process } = globalThis as { process?: { getBuiltinModule?(name: string): Files } };
  let bytes: Uint8Array;
  try {
    const fs = process?.getBuiltinModule?.(name) ?? ((await import(/* @vite-ignore */ /* webpackIgnore: true */ name)) as Files);
    bytes = await fs.readFile(url);
  } catch (cause) {
    throw raise("wasm_failed", "the .wasm file beside this package could not be read", cause);
  }
  return compileBytes(bytes, "the .wasm file");
}

/** A name for the store of an org and account. Two stores never share one, because an org has no slash in it. */
export function storeOf({ org, account }: { org: string; account: string }): string {
  return `${org}/${account}`;
}
