/** The entry `escale/offline-build`, for tools in Node: writes the worker of `escale/offline` into a finished build. */

import { createHash } from "node:crypto";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";

import { WORKER, type FileList } from "./offline/list.js";

/** The options of {@link keepOffline}. Paths are those of files in the folder, with `/`; `*` and `**` are wildcards. */
export interface KeepOptions {
  /** The worker's name in the folder; the default is `escale-offline.js`. */
  worker?: string | undefined;
  /** The files to keep; the default is all. */
  include?: readonly string[] | undefined;
  /** Files to leave out. Maps, compressed copies and files whose names begin with `.` or `_` are never kept. */
  exclude?: readonly string[] | undefined;
  /** Files that the server alters, such as a page with a nonce. Their bytes are not compared with those of the build. */
  altered?: readonly string[] | undefined;
  /** The page that answers for every address that is no file: for an application with routes, `index.html`. */
  fallback?: string | undefined;
  /** Beginnings of paths that the server alone answers, such as `api/`. */
  network?: readonly string[] | undefined;
}

/** The worker that was written, and the files that it keeps. */
export interface Kept {
  readonly worker: string;
  readonly version: string;
  readonly files: readonly string[];
  readonly bytes: number;
}

const NEVER = ["**/*.map", "**/*.gz", "**/*.br", "**/.*", "**/.*/**", "_*"];
const KNOWN = new Set(["worker", "include", "exclude", "altered", "fallback", "network"]);

/**
 * Writes the worker of `escale/offline` into the folder of a finished build, with the list of its files and their hashes.
 * The version of the list depends on the bytes of these files only.
 */
export async function keepOffline(folder: string, options: KeepOptions = {}): Promise<Kept> {
  check(options);
  const { worker = WORKER, include = ["**"], exclude = [], altered = [], fallback, network } = options;
  const isIn = (patterns: readonly string[]): ((file: string) => boolean) => {
    const all = patterns.map(patternOf);
    return (file) => all.some((pattern) => pattern.test(file));
  };
  const [isWanted, isUnwanted, isAltered] = [isIn(include), isIn([...NEVER, ...exclude, worker]), isIn(altered)];
  const names = (await filesOf(folder)).filter((file) => isWanted(file) && !isUnwanted(file));
  if (names.length === 0) throw new Error(`escale: ${folder} has no file to keep offline. Build the application first.`);
  if (fallback !== undefined && !names.includes(fallback)) {
    throw new Error(`escale: the fallback ${fallback} is no file that is kept of ${folder}. Name one of its pages.`);
  }
  const code = await workerCode();
  const version = createHash("sha256").update(code);
  const files: { [path: string]: string } = {};
  let bytes = 0;
  for (const name of names) {
    const content = await readFile(join(folder, name));
    bytes += content.length;
    const hash = createHash("sha256").update(content).digest("base64");
    version.update(`${name} ${hash}\n`);
    files[name.split("/").map(encodeURIComponent).join("/")] = isAltered(name) ? "" : hash;
  }
  const rest = { ...(fallback !== undefined && { fallback }), ...(network && { network }) };
  version.update(JSON.stringify([rest, altered]));
  const list: FileList = { version: version.digest("hex").slice(0, 16), files, ...rest };
  await write(join(folder, worker), list, code);
  return { worker, version: list.version, files: names, bytes };
}

/**
 * Writes a worker that removes itself, and all that earlier workers of this name kept. An application that gives up
 * `escale/offline` serves it for as long as devices may have the earlier one.
 */
export async function removeOffline(folder: string, { worker = WORKER }: Pick<KeepOptions, "worker"> = {}): Promise<void> {
  await write(join(folder, worker), { version: "removed", files: {}, remove: true }, await workerCode());
}

/** The text of a worker that only removes itself, for development servers. */
export async function removingWorker(): Promise<string> {
  return textOf({ version: "removed", files: {}, remove: true }, await workerCode());
}

/** The files that a page loads of this package, as paths: its modules and its wasm. For pages without a bundler. */
export async function packageFiles(): Promise<string[]> {
  const here = fileURLToPath(new URL(".", import.meta.url));
  const isTool = (name: string): boolean => /^(offline-build|offline-worker|vite|cli)\.js$/.test(name);
  const names = (await readdir(here)).filter((name) => /\.(js|wasm)$/.test(name) && !isTool(name));
  return names.sort().map((name) => join(here, name));
}

const workerCode = (): Promise<string> => readFile(new URL("./offline-worker.js", import.meta.url), "utf8");

const textOf = (list: FileList, code: string): string =>
  `self.escaleFiles=${JSON.stringify(list)};\n${code.replace(/\n\/\/# sourceMappingURL=.*\n?$/, "\n")}`;

async function write(path: string, list: FileList, code: string): Promise<void> {
  await writeFile(path, textOf(list, code));
}

async function filesOf(folder: string): Promise<string[]> {
  const root = resolve(folder);
  const found = await stat(root).catch(() => undefined);
  if (!found?.isDirectory()) throw new Error(`escale: ${folder} is no folder. Build the application first.`);
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return paths.map((path) => relative(root, path).split(sep).join("/")).sort();
}

/** `*` is any text without a slash, `**` any text. */
function patternOf(glob: string): RegExp {
  const source = glob.split(/(\*\*\/|\*\*|\*)/).map((part) => {
    if (part === "**/") return "(?:.*/)?";
    if (part === "**") return ".*";
    return part === "*" ? "[^/]*" : part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&");
  });
  return new RegExp(`^${source.join("")}$`);
}

function check(options: KeepOptions): void {
  for (const [name, value] of Object.entries(options)) {
    if (!KNOWN.has(name)) throw new Error(`escale: no option of keepOffline is called ${name}`);
    const isList = name !== "worker" && name !== "fallback";
    const isGood = isList ? Array.isArray(value) && value.every((item) => typeof item === "string") : typeof value === "string";
    if (value !== undefined && !isGood) throw new Error(`escale: ${name} must be ${isList ? "a list of texts" : "a text"}`);
  }
}
