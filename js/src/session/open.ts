/** Opens a session: connects its parts, and receives the calls of the core on its behalf. */

import { Application, resolvesBy } from "../writes/application.js";
import type { CoreOptions, CoreStatus, Ending, OperationNews } from "../wasm/core.js";
import { Device, type DeviceHost } from "../wasm/device.js";
import { Documents } from "../views/documents.js";
import { raise, toEscaleError, type EscaleError } from "../base/errors.js";
import { Supervisor } from "../wasm/supervisor.js";
import type { Operations } from "../writes/operation-types.js";
import { checkOptions, type OpenOptions } from "./options.js";
import { report } from "../base/report.js";
import type { MatchOf, SchemaDeclaration } from "../schema/schema-types.js";
import { Session } from "./session.js";
import { LiveStatus } from "./status.js";
import { Asker, type TokenSource } from "./token.js";
import { FileLink, type FileMeans } from "./file-link.js";
import { Views } from "../views/views.js";
import type { Wasm } from "../wasm/wasm.js";

/** Opens a session on the given wasm. Only a rehearsal passes `databases`. */
export async function openWith<S extends SchemaDeclaration, O extends Operations<S> = Operations<S>>(
  wasm: Pick<Wasm, "take">,
  options: OpenOptions<S, O>,
  databases?: IDBFactory,
): Promise<Session<S, O>> {
  const checked: CoreOptions = { ...checkOptions(options as unknown as OpenOptions), ...(databases && { databases }) };
  const { server } = checked;
  const { schema, operations, conflicts, accounts, passkey, device: label, files } = options as unknown as OpenOptions;
  const entry = await accounts?.enter({ ...checked, passkey, device: label });
  if (entry) Object.assign(checked, { passphrase: undefined, key: entry.key });
  const status = new LiveStatus(checked.mode);
  const link = files && new FileLink(files, status);
  const host = new SessionHost(status, entry?.token ?? options.token, new Application(schema, operations, conflicts), checked, link);
  if (typeof server === "object") checked.server = status.watched(server);
  try {
    const device = new Device(wasm, host);
    const opened = await device.open();
    // From here on nothing that a session keeps refers to `options` or `checked`, because they hold a passphrase.
    const supervisor = new Supervisor(opened, {
      reopen: () => device.reopen(),
      recovered: () => session.recovered(),
      ended: (error) => session.died(error),
    });
    const { core } = supervisor;
    const onError = (error: unknown): void => status.fail(error);
    const documents = new Documents(core, options.schema, onError);
    const views = new Views(core, options.schema.classes, documents, status, onError, {
      leave: (def) => session.leave(def),
      guard: (call) => session.guard(call),
    });
    const session: Session<S, O> = new Session<S, O>({
      core,
      supervisor,
      schema: options.schema,
      resolvesConflicts: resolvesBy(checked.policies),
      status,
      documents,
      views,
      device,
      entry,
      files: link,
      forgetSecrets: () => {
        host.forget();
        entry?.end();
      },
    });
    entry?.follow(session, status);
    host.follow(views, session);
    link?.start(core, meansOf(session as unknown as Session, host, checked, server));
    device.watch(supervisor);
    return session;
  } catch (error) {
    host.forget();
    entry?.end();
    status.close("closed");
    const thrown = toEscaleError(error);
    throw entry && thrown.code === "wrong_passphrase" ? entry.mismatch(thrown) : thrown;
  }
}

/** The means of a session that its files use. */
function meansOf(session: Session, host: SessionHost, { org, databases }: CoreOptions, server: CoreOptions["server"]): FileMeans {
  return {
    org,
    databases: databases ?? globalThis.indexedDB,
    server,
    token: (refused) => host.bearer(refused),
    fileProperties: (className) => {
      const properties = Object.entries(session.classes[className]?.properties ?? {});
      return properties.filter(([, of]) => (typeof of === "string" ? of : of.type).startsWith("file")).map(([name]) => name);
    },
    follow: (className, match, callback) => session.collection(className, match as MatchOf<SchemaDeclaration[string]>).subscribe(callback),
  };
}

/** The part of a session that the core's calls reach. */
interface Followed {
  /** An operation has news. */
  heard(news: OperationNews): void;
  /** The core has closed. */
  ended(by: Ending): void;
}

/**
 * Receives the calls of the core. It must never let an error escape to the core, which may be in the middle of any
 * work.
 */
class SessionHost implements DeviceHost {
  /** Set once the session is open. Calls before that reach nobody. */
  #views: Views | undefined;
  #session: Followed | undefined;
  readonly #status: LiveStatus;
  #token: string | Asker | undefined;
  readonly #application: Application;
  /** The reason why the device refuses to open, while it does. */
  #refusal: EscaleError | undefined;
  /** The options to open the core with, until the session ends. */
  #options: CoreOptions | undefined;
  readonly #files: FileLink | undefined;
  /** The token that was given last. */
  #given: string | undefined;

  constructor(
    status: LiveStatus,
    token: string | TokenSource | undefined,
    application: Application,
    options: CoreOptions,
    files: FileLink | undefined,
  ) {
    this.#status = status;
    this.#token = typeof token === "function" ? new Asker(token, (error) => status.pause(error)) : token;
    this.#application = application;
    this.#options = options;
    this.#files = files;
  }

  /** From now on the calls of the core reach these two. */
  follow(views: Views, session: Followed): void {
    this.#views = views;
    this.#session = session;
  }

  derived(x: Uint8Array): void {
    const options = this.#options;
    // For a store opened by an application's key, X is that key: nothing more to keep.
    if (!options || options.key !== undefined) return void x.fill(0);
    options.derived?.fill(0);
    this.#options = { ...options, passphrase: undefined, derived: x };
  }

  /** Clears every secret that could open the core: nothing is opened again. */
  forget(): void {
    this.#options?.derived?.fill(0);
    this.#options?.key?.fill(0);
    if (this.#token instanceof Asker) this.#token.end();
    this.#options = this.#token = this.#given = undefined;
  }

  /** The options to open the core with, in the current mode. */
  how(): CoreOptions {
    if (!this.#options) throw raise("closed", "the session is closed");
    return { ...this.#options, mode: this.#status.mode };
  }

  refuses(reason: EscaleError | undefined): void {
    this.#refusal = reason;
  }

  fail(error: unknown): void {
    this.#status.fail(error);
  }

  changed(defs: string[], gone: Uint32Array): void {
    try {
      this.#views?.changed(defs, gone);
    } catch (error) {
      report(error);
    }
  }

  status(json: string): void {
    try {
      const status = JSON.parse(json) as CoreStatus | Ending;
      if (typeof status === "string") return this.#session?.ended(status);
      if (this.#refusal) Object.assign(status, { storage: "memory", error: status.error ?? this.#refusal });
      this.#status.update(status);
      this.#views?.heard();
    } catch (error) {
      report(error);
    }
  }

  operation(json: string): void {
    try {
      this.#session?.heard(JSON.parse(json) as OperationNews);
    } catch (error) {
      report(error);
    }
  }

  files(needed: string[]): void {
    this.#files?.needed(needed);
  }

  // The core expects these two to throw if the application's function throws.
  optimistic(name: string, args: string, known: string): string | undefined {
    return this.#application.optimistic(name, args, known);
  }

  settle(className: string, base: string, mine: string, theirs: string): string | undefined {
    return this.#application.settle(className, base, mine, theirs);
  }

  async token(refused: boolean): Promise<string | undefined> {
    if (!(this.#token instanceof Asker)) return refused ? undefined : this.#token;
    return (this.#given = await this.#token.ask(refused));
  }

  /** The token for a request about files. With `refused`, another one than that, or none. */
  async bearer(refused?: string): Promise<string | undefined> {
    if (!(this.#token instanceof Asker)) return refused === undefined ? this.#token : undefined;
    if (this.#given !== undefined && this.#given !== refused) return this.#given;
    return this.token(refused !== undefined);
  }
}
