import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

import type { Handler } from "./index.js";

/** The listeners of a server of Node. `webSockets` is a `WebSocketServer` of `ws` with `noServer`. */
export declare function toNode(
  handler: Handler,
  webSockets: { handleUpgrade(request: IncomingMessage, stream: Duplex, head: Buffer, made: (socket: any) => void): void },
): {
  request(request: IncomingMessage, response: ServerResponse): void;
  upgrade(request: IncomingMessage, stream: Duplex, head: Buffer): void;
};

export interface ServeOptions {
  /** 7700 by default; 0 takes any. */
  port?: number | undefined;
  /** 127.0.0.1 by default. */
  host?: string | undefined;
  /** Every hour by default. */
  purgeEveryMs?: number | undefined;
}

/** Serves a handler, with sockets by `ws`. Resolves once it listens. `close` ends the requests, and closes all. */
export declare function serve(
  handler: Handler,
  options?: ServeOptions,
): Promise<{ readonly url: string; readonly port: number; readonly server: Server; close(): Promise<void> }>;
