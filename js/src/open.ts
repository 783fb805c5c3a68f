import { Application, settlesBy } from "./application.js";
import type { CoreOptions, CoreStatus, OperationNews } from "./core.js";
import { Device, type DeviceHost } from "./device.js";
import { Documents } from "./documents.js";
import { raise, toEscaleError, type EscaleError } from "./errors.js";
import { Living } from "./living.js";
import type { Operations } from "./operation-types.js";
import { checkOptions, type OpenOptions, type TokenSource } from "./options.js";
import { report } from "./report.js";
import type { SchemaDeclaration } from "./schema-types.js";
import { Session } from "./session.js";
import { LiveStatus } from "./status.js";
import { Views } from "./views.js";
import type { Wasm } from "./wasm.js";

/** Opens a session on the given wasm; `databases` are those of a rehearsal. */
export async function openWith<S extends SchemaDeclaration, O extends Operations<S> = Operations<S>>(
  wasm: Pick<Wasm, "take">,
  options: OpenOptions<S, O>,
  databases?: IDBFactory,
): Promise<Session<S, O>> {
  const checked: CoreOptions = { ...checkOptions(options as unknown as OpenOptions), ...(databases && { databases }) };
  const status = new LiveStatus(checked.mode);
  const { schema, operations, conflicts } = options as unknown as OpenOptions;
  const host = new SessionHost(status, options.token, new Application(schema, operations, conflicts), checked);
  try {
    const device = new Device(wasm, host);
    const opened = await device.open();
    // From here on nothing that a session keeps names `options` or `checked`: a passphrase is in them.
    const living = new Living(opened, {
      reopen: () => device.reopen(),
      recovered: () => session.recovered(),
      ended: (error) => session.died(error),
    });
    const { core } = living;
    const onError = (error: unknown): void => status.fail(error);
    const documents = new Documents(core, options.schema, onError);
    const views = new Views(core, options.schema.classes, documents, onError);
    const session: Session<S, O> = new Session<S, O>({
      core,
      living,
      schema: options.schema,
      settles: settlesBy(checked.policies),
      status,
      documents,
      views,
      device,
      forget: () => host.forget(),
    });
    host.follow(views, session);
    device.watch(living);
    return session;
  } catch (error) {
    host.forget();
    status.close();
    throw toEscaleError(error);
  }
}

/** What a session is told of by the core. */
interface Followed {
  /** News of an operation. */
  heard(news: OperationNews): void;
  /** The core has closed. */
  ended(): void;
}

/** What the core calls. Nothing thrown here may reach it: it could be in the middle of anything. */
class SessionHost implements DeviceHost {
  /** Set once the session is open; before, nobody listens. */
  #views: Views | undefined;
  #session: Followed | undefined;
  readonly #status: LiveStatus;
  #token: string | TokenSource | undefined;
  readonly #application: Application;
  /** Why nothing is on the device, for now. */
  #refusal: EscaleError | undefined;
  /** How the core is opened, until the session ends. */
  #options: CoreOptions | undefined;

  constructor(
    status: LiveStatus,
    token: string | TokenSource | undefined,
    application: Application,
    options: CoreOptions,
  ) {
    this.#status = status;
    this.#token = token;
    this.#application = application;
    this.#options = options;
  }

  /** Tells them from now on. */
  follow(views: Views, session: Followed): void {
    this.#views = views;
    this.#session = session;
  }

  derived(x: Uint8Array): void {
    const options = this.#options;
    // What an application's own key yields is that key.
    if (!options || options.key !== undefined) return void x.fill(0);
    options.derived?.fill(0);
    this.#options = { ...options, passphrase: undefined, derived: x };
  }

  /** What opens the core is forgotten: nothing is opened again. */
  forget(): void {
    this.#options?.derived?.fill(0);
    this.#options?.key?.fill(0);
    this.#options = this.#token = undefined;
  }

  /** How to open, in the mode of the moment. */
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
      const status = JSON.parse(json) as CoreStatus;
      if (this.#refusal) Object.assign(status, { storage: "memory", error: status.error ?? errorOf(this.#refusal) });
      this.#status.update(status);
      this.#views?.refused(this.#status.faults);
      // The core can close by itself: the store deleted under it, or taken over by a newer version.
      if (status.phase === "closed") this.#session?.ended();
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

  // The core awaits what these two throw, as it does a failure of the application's own.
  optimistic(name: string, args: string, known: string): string | undefined {
    return this.#application.optimistic(name, args, known);
  }

  settle(className: string, base: string, mine: string, theirs: string): string | undefined {
    return this.#application.settle(className, base, mine, theirs);
  }

  async token(refused: boolean): Promise<string | undefined> {
    try {
      if (typeof this.#token !== "function") return refused ? undefined : this.#token;
      return await this.#token({ refused });
    } catch (cause) {
      this.#status.fail(raise("unauthorized", "the token function of the application failed", cause));
      return undefined;
    }
  }
}

/** An error as the core would tell it. */
function errorOf({ code, kind, retryable, message, cure }: EscaleError): CoreStatus["error"] {
  return { code, kind, retryable, message, cure };
}
