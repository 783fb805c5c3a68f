/** Connects a session with the module of its files, which is loaded on use. */

import type { Core } from "../wasm/core.js";
import { raise, toEscaleError } from "../base/errors.js";
import type { FilesHost, FilesSource, OpenFiles } from "./files.js";
import type { LiveStatus, Phase } from "./status.js";
import type { Stop } from "../views/view.js";

/** The means of a session that its files use. */
export type FileMeans = Pick<FilesHost, "databases" | "org" | "server" | "token" | "follow" | "fileProperties">;

const KEY_BYTES = 32;
/** The pause after a module that could not be loaded, while operations wait for it. */
const AGAIN_MS = 30_000;

/** Loads the module once, and tells it which objects the core waits for. */
export class FileLink {
  readonly #source: FilesSource;
  readonly #status: LiveStatus;
  #connect: (() => Promise<FilesHost>) | undefined;
  #opening: Promise<OpenFiles> | undefined;
  #open: OpenFiles | undefined;
  #needed: readonly string[] = [];
  #stop: Stop | undefined;
  #again: ReturnType<typeof setTimeout> | undefined;
  /** The phase at which the session that leads last asked for the module: a failure alone is no reason to try again. */
  #asked: Phase | undefined;

  constructor(source: FilesSource, status: LiveStatus) {
    this.#source = source;
    this.#status = status;
  }

  /** The session is open. The one that leads keeps its rules and tidies up: it loads the module once it has loaded. */
  start(core: Core, means: FileMeans): void {
    this.#connect = async () => ({
      ...means,
      name: this.#status.mode === "incognito" ? undefined : `${(await core.inspect(0)).name}-files`,
      status: this.#status,
      keys: () => {
        const keys = core.fileKeys() as Uint8Array<ArrayBuffer>;
        if (keys.length === 0) return undefined;
        const both = { seal: keys.slice(0, KEY_BYTES), index: keys.slice(KEY_BYTES) };
        keys.fill(0);
        return both;
      },
      settle: (shas, word, epoch) => core.settleFiles([...shas], word, epoch && JSON.stringify(epoch)),
      referenced: () => core.files(false),
      local: () => core.files(true),
      fail: (error) => this.#status.fail(error),
    });
    this.#stop = this.#status.subscribe(({ leads, phase }) => {
      if (!leads || phase === "opening" || phase === "loading" || phase === this.#asked) return;
      this.#asked = phase;
      this.#loadLater();
    });
    this.needed(this.#needed);
  }

  /** The core waits for a word on these objects, and on no others. */
  needed(shas: readonly string[]): void {
    this.#needed = shas;
    if (this.#open) this.#open.needed(shas);
    else if (shas.length) this.#loadLater();
  }

  /** The module. If it cannot be loaded, the next call tries again. */
  async load(): Promise<OpenFiles> {
    this.#opening ??= this.#load();
    try {
      return await this.#opening;
    } catch (error) {
      this.#opening = undefined;
      throw error;
    }
  }

  end(): void {
    this.#stop?.();
    this.#open?.end();
    clearTimeout(this.#again);
    this.#needed = [];
    this.#open = this.#connect = undefined;
  }

  #loadLater(): void {
    if (this.#connect && !this.#opening) {
      clearTimeout(this.#again);
      this.load().catch((error: unknown) => {
        this.#status.fail(error);
        // Operations wait for it, and nothing else may ever ask again.
        if (this.#needed.length) this.#again = setTimeout(() => this.needed(this.#needed), AGAIN_MS);
      });
    }
  }

  async #load(): Promise<OpenFiles> {
    const connect = this.#connect;
    if (!connect) throw raise("closed", "the session is closed");
    let module;
    try {
      module = await this.#source();
    } catch (cause) {
      throw raise("not_loaded", "files: the module escale/files could not be loaded", cause);
    }
    let open;
    try {
      open = await module.openFiles(await connect());
    } catch (error) {
      throw toEscaleError(error);
    }
    if (!this.#connect) {
      open.end();
      throw raise("closed", "the session is closed");
    }
    this.#open = open;
    open.needed(this.#needed);
    return open;
  }
}
