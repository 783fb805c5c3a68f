/** The entry `escale/vite`: a plugin for Vite 5 to 8 that lets the built application open with no network. */

import { join, resolve } from "node:path";

import { WORKER } from "./offline/list.js";
import { addressOf, preloadWasm, type Bundle } from "./offline/preload.js";
import { keepOffline, removeOffline, removingWorker, type KeepOptions } from "./offline-build.js";

/** The options of {@link escale}. */
export interface EscaleOptions extends KeepOptions {
  /**
   * `true`, the default, registers the worker from every page. With `false` the application calls `register` of
   * `escale/offline` itself, for example because an incognito session must leave nothing behind. `"remove"` removes the
   * workers of earlier builds.
   */
  register?: boolean | "remove" | undefined;
  /**
   * Whether a page whose scripts import `escale` asks for the wasm with its scripts; the default is `true`. Otherwise the
   * wasm is asked for once they have run. `false` is for pages that open no session at first.
   */
  preload?: boolean | undefined;
}

/** The part of Vite's configuration that the plugin reads. */
interface Config {
  readonly root: string;
  readonly base: string;
  readonly command: string;
  readonly build: { readonly outDir: string; readonly ssr?: unknown };
  readonly experimental?: { readonly renderBuiltUrl?: unknown };
  readonly logger: { info(text: string): void };
}

interface Server {
  readonly middlewares: {
    use(handle: (request: { url?: string }, response: Answer, next: (error?: unknown) => void) => void): void;
  };
}

interface Answer {
  setHeader(name: string, value: string): void;
  end(text: string): void;
}

/** The part of Rollup's context that the plugin uses. */
interface Graph {
  getModuleInfo(id: string): { readonly importedIds: readonly string[] } | null;
}

interface Tag {
  tag: string;
  attrs: { [name: string]: string };
  injectTo: "head";
}

/** The plugin, in the part of Vite's form that it uses: the package needs no types of Vite. */
export interface EscalePlugin {
  name: string;
  config(): { optimizeDeps: { exclude: string[] } };
  configResolved(config: Config): void;
  configureServer(server: Server): void;
  resolveId(id: string): string | undefined;
  load(id: string): string | undefined;
  transformIndexHtml: { order: "pre"; handler(html: string, context: { path: string }): Tag[] };
  generateBundle: { order: "post"; handler(this: unknown, options: unknown, bundle: Bundle): void };
  writeBundle(): void;
  closeBundle: { order: "post"; sequential: true; handler(error?: Error): Promise<void> };
}

const REGISTRATION = "virtual:escale-offline";

/**
 * Makes the plugin. Each build gets the worker of `escale/offline`, with the list of all its files, and its pages
 * register it. A development server keeps nothing, and removes a worker that a build has left on its address.
 *
 *     export default defineConfig({ plugins: [escale()] });
 */
export function escale({ register = true, preload = true, ...options }: EscaleOptions = {}): EscalePlugin {
  if (typeof register !== "boolean" && register !== "remove") throw new Error('escale: register must be true, false or "remove"');
  if (typeof preload !== "boolean") throw new Error("escale: preload must be true or false");
  const worker = options.worker ?? WORKER;
  let config: Config | undefined;
  let isWritten = false;
  return {
    name: "escale",
    config: () => ({
      // The development servers up to Vite 7 do not copy the wasm of a package that they bundle ahead.
      optimizeDeps: { exclude: ["escale"] },
    }),
    configResolved(resolved) {
      config = resolved;
    },
    configureServer({ middlewares }) {
      const address = new URL(worker, new URL(config?.base ?? "/", "http://localhost/")).pathname;
      middlewares.use((request, response, next) => {
        if (request.url?.split("?")[0] !== address) {
          next();
          return;
        }
        removingWorker().then((code) => {
          response.setHeader("Content-Type", "text/javascript");
          response.end(code);
        }, next);
      });
    },
    // The id says how many folders the page is below the worker.
    resolveId: (id) => (id.startsWith(REGISTRATION) ? `\0${id}` : undefined),
    load(id) {
      if (!id.startsWith(`\0${REGISTRATION}`)) return undefined;
      const address = addressOf(worker, config?.base, Number(id.split("?up=")[1] ?? 0));
      return `import { register } from "escale/offline";\nregister({ worker: ${JSON.stringify(address)} });\n`;
    },
    transformIndexHtml: {
      order: "pre",
      handler(_html, { path }) {
        if (register !== true || config?.command !== "build") return [];
        const up = path.split("/").length - 2;
        return [{ tag: "script", attrs: { type: "module", src: `${REGISTRATION}?up=${up}` }, injectTo: "head" }];
      },
    },
    generateBundle: {
      // After Vite has written the pages.
      order: "post",
      handler(this: unknown, _options, bundle) {
        // An application that computes the addresses of its files does so for the wasm as well.
        if (!preload || config?.experimental?.renderBuiltUrl !== undefined) return;
        const graph = this as Graph;
        // The registration imports `escale` for its errors alone.
        const importsOf = (id: string): readonly string[] => (id.startsWith(`\0${REGISTRATION}`) ? [] : (graph.getModuleInfo(id)?.importedIds ?? []));
        preloadWasm(bundle, config?.base, importsOf);
      },
    },
    writeBundle() {
      isWritten = true;
    },
    closeBundle: {
      // After everything is written, also by other plugins.
      order: "post",
      sequential: true,
      async handler(this: unknown, error) {
        const { environment } = this as { environment?: { name: string } };
        // Vite reports an error by itself: older versions do not pass it. A build for a server has no pages of its own.
        if (error || !isWritten || config?.command !== "build" || config.build.ssr) return;
        if (environment && environment.name !== "client") return;
        const folder = resolve(config.root, config.build.outDir);
        if (register === "remove") {
          await removeOffline(folder, options);
          return;
        }
        const { files, bytes, version } = await keepOffline(folder, options);
        const size = bytes < 1_000_000 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
        config.logger.info(`escale: ${files.length} files (${size}) open offline, version ${version}: ${join(config.build.outDir, worker)}`);
      },
    },
  };
}

export default escale;
