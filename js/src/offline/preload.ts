/**
 * Lets a built page ask for the wasm together with its scripts. The scripts would ask for it only once they have arrived
 * and run. It changes the pages of a build by Vite, and knows no other tool.
 */

import { fileURLToPath } from "node:url";

/** The files of a build, by their names: the part of Rollup's form that is read here. */
export interface Bundle {
  readonly [fileName: string]: Asset | Chunk;
}

interface Asset {
  readonly type: "asset";
  readonly fileName: string;
  readonly names?: readonly string[];
  /** Before Rollup 4.23. */
  readonly name?: string | undefined;
  source: string | Uint8Array;
}

interface Chunk {
  readonly type: "chunk";
  readonly fileName: string;
  /** The module that the chunk was made for: that of the page, if the chunk is a page's script. */
  readonly facadeModuleId: string | null;
}

const WASM = "escale_bg.wasm";

/** The address of a file of the build, in a page that is `up` folders below the build's own. */
export function addressOf(file: string, base = "/", up = 0): string {
  const isRelative = base === "" || base === "./";
  return isRelative ? `${up === 0 ? "./" : "../".repeat(up)}${file}` : `${base}${file}`;
}

/** The modules of this package, as bundlers name them. */
const ours = (name: string): string => fileURLToPath(new URL(name, import.meta.url)).replaceAll("\\", "/");

/**
 * Adds the line to each page whose scripts import `escale` from the start. `importsOf` has a module's imports, without
 * those by `import()`, which a page may never call.
 */
export function preloadWasm(bundle: Bundle, base: string | undefined, importsOf: (id: string) => readonly string[]): void {
  const files = Object.values(bundle);
  const chunks = files.filter((file) => file.type === "chunk");
  const wasm = files.find((file) => file.type === "asset" && (file.names ?? [file.name]).includes(WASM))?.fileName;
  if (wasm === undefined) return;
  const [main, carried] = [ours("./index.js"), ours("./carried.js")];
  for (const page of files) {
    if (page.type !== "asset" || !page.fileName.endsWith(".html") || typeof page.source !== "string") continue;
    const { source } = page;
    const scripts = [...source.matchAll(/<script\b[^>]*\bsrc="([^"]*)"/g)].map(([, src]) => src ?? "");
    const own = chunks.filter(({ fileName }) => scripts.some((src) => src.endsWith(fileName)));
    const modules = reached(own.map(({ facadeModuleId }) => facadeModuleId ?? ""), importsOf);
    // With `escale/inline` nothing asks for the file.
    if (!modules.has(main) || modules.has(carried)) continue;
    const address = addressOf(wasm, base, page.fileName.split("/").length - 1);
    // After the scripts: they are needed first. Without a head the browser makes one around the line.
    const line = `<link rel="preload" as="fetch" type="application/wasm" crossorigin href="${address}">`;
    page.source = source.includes("</head>") ? source.replace("</head>", () => `  ${line}\n  </head>`) : source.replace(/(?=<script\b)/, () => `${line}\n`);
  }
}

/** The modules that these ones import, and those that they import in turn. */
function reached(from: readonly string[], importsOf: (id: string) => readonly string[]): Set<string> {
  const found = new Set(from);
  for (const id of found) for (const next of importsOf(id)) found.add(next);
  return found;
}
