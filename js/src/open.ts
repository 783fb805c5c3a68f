import type { CoreStatus, Host } from "./core.js";
import { Documents } from "./documents.js";
import { raise, toEscaleError } from "./errors.js";
import { checkOptions, type OpenOptions, type TokenSource } from "./options.js";
import { report } from "./report.js";
import type { SchemaDeclaration } from "./schema-types.js";
import { Session } from "./session.js";
import { LiveStatus } from "./status.js";
import { Views } from "./views.js";
import type { Wasm } from "./wasm.js";

/** Opens a session on the given wasm. */
export async function openWith<S extends SchemaDeclaration>(
  wasm: Pick<Wasm, "start">,
  options: OpenOptions<S>,
): Promise<Session<S>> {
  const checked = checkOptions(options);
  const status = new LiveStatus(checked.mode);
  const host = new SessionHost(status, options.token);
  try {
    const glue = await wasm.start();
    const core = await glue.open(checked, host);
    const onError = (error: unknown): void => status.fail(error);
    const documents = new Documents(core, options.schema, onError);
    const views = new Views(core, options.schema.classes, documents, onError);
    host.views = views;
    return new Session<S>({ core, schema: options.schema, status, documents, views });
  } catch (error) {
    status.close();
    throw toEscaleError(error);
  }
}

/** What the core calls. Nothing thrown here may reach it: it could be in the middle of anything. */
class SessionHost implements Host {
  /** Set once the session is open; before, nobody listens. */
  views: Views | undefined;
  readonly #status: LiveStatus;
  readonly #token: string | TokenSource | undefined;

  constructor(status: LiveStatus, token: string | TokenSource | undefined) {
    this.#status = status;
    this.#token = token;
  }

  changed(defs: string[], gone: Uint32Array): void {
    try {
      this.views?.changed(defs, gone);
    } catch (error) {
      report(error);
    }
  }

  status(json: string): void {
    try {
      const status = JSON.parse(json) as CoreStatus;
      this.#status.update(status);
      // The core can close by itself: the store deleted under it, or taken over by a newer version.
      if (status.phase === "closed") this.views?.endAll();
    } catch (error) {
      report(error);
    }
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
