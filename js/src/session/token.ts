/** Asks the application for a token, again and again while its function fails. */

import { raise, type EscaleError } from "../base/errors.js";

/** How long the function may take before the status says so. Its answer counts all the same, however late it comes. */
const SILENT_MS = 10_000;
/** The pause before it is asked again. Each is twice the one before. */
const PAUSE_MS = 1_000;

type Token = string | undefined;

/**
 * Fetches a token. `refused` is true if the server refused the last one. Returning undefined leaves the session paused.
 * If it throws, rejects, or takes more than 10 s, `status.error` says so, and it is called again at growing intervals. An
 * answer that comes late counts.
 */
export type TokenSource = (why: { readonly refused: boolean }) => string | undefined | Promise<string | undefined>;

/** Refuses a token that no header can carry. */
export function checkToken(token: Token): void {
  if (token && !/^[!-~]+$/.test(token)) throw raise("bad_option", "token: a header cannot carry it");
}

export class Asker {
  /** Hears why the function fails, and nothing once it gives a token again. */
  readonly #fail: (error?: EscaleError) => void;
  #source: TokenSource | undefined;
  #answer: Promise<Token> | undefined;
  /** Resolves it. */
  #resolve: ((token: Token) => void) | undefined;
  /** Ends the pause before the next attempt, if there is one. */
  #hurry: (() => void) | undefined;

  constructor(source: TokenSource, fail: (error?: EscaleError) => void) {
    this.#source = source;
    this.#fail = fail;
  }

  /** Asks, or hurries the question that is open: there is a reason to ask. */
  ask(refused: boolean): Promise<Token> {
    this.#hurry?.();
    return (this.#answer ??= new Promise((resolve) => {
      this.#resolve = resolve;
      void this.#attempt(resolve, refused, PAUSE_MS);
    }));
  }

  /** The session is over: nothing more is asked. */
  end(): void {
    this.#source = undefined;
    this.#hurry?.();
  }

  async #attempt(resolve: (token: Token) => void, refused: boolean, pause: number): Promise<void> {
    if (this.#resolve !== resolve) return;
    let hasFailed = false;
    const failed = (cause: unknown): void => {
      clearTimeout(timer);
      if (hasFailed || this.#resolve !== resolve) return;
      hasFailed = true;
      this.#fail(raise("unauthorized", "the token function failed", cause));
      const again = (): void => {
        clearTimeout(timer);
        this.#hurry = undefined;
        void this.#attempt(resolve, refused, 2 * pause);
      };
      this.#hurry = again;
      // The same token would be the same mistake: another attempt needs a reason.
      if ((cause as EscaleError).code !== "bad_option") timer = setTimeout(again, pause);
    };
    let timer = setTimeout(() => failed(new Error("no answer in 10 s")), SILENT_MS);
    try {
      const token = await this.#source?.({ refused });
      checkToken(token);
      clearTimeout(timer);
      this.#fail();
      resolve(token);
      if (this.#resolve === resolve) this.#hurry = this.#answer = this.#resolve = undefined;
    } catch (cause) {
      failed(cause);
    }
  }
}
