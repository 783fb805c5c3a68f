/** A failure of this package. */
export declare class ServerError extends Error {
  readonly code: "no_server_binary" | "server_ended";
  readonly cure: string;
}

/** A server that runs. */
export interface RunningServer {
  /** Its address, such as `http://127.0.0.1:7700`. */
  readonly url: string;
  /** Resolves with its exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>;
  /** Ends it, and resolves once it has ended. */
  stop(): Promise<void>;
}

/** The path of the server's binary. Throws `no_server_binary` if this platform has none. */
export declare function binary(): string;

/** Starts `escale-server serve` with these arguments, and resolves once it listens. */
export declare function start(args: readonly string[]): Promise<RunningServer>;
