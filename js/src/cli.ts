#!/usr/bin/env node
/** The command `escale`, for builds without Vite. */

import { keepOffline, packageFiles, removeOffline, type KeepOptions } from "./offline-build.js";

const HELP = `npx escale offline FOLDER [options]
                                  let the application built in FOLDER open with no network
    --worker NAME      the worker's name in FOLDER (escale-offline.js)
    --include PATTERN  keep these files only; may be repeated, as the next three
    --exclude PATTERN  leave these files out
    --altered PATTERN  do not compare these with the build: the server alters them
    --network PATH     addresses that begin with this are the server's, such as api/
    --fallback PAGE    the page for every address that is no file, such as index.html
    --remove           write a worker that removes itself and all that earlier ones kept
npx escale files                  print the files that a page loads of this package
npx escale schema check FILE      say whether a schema can be used
npx escale schema types FILE      write it as TypeScript; \`npx escale schema --help\` says more
npx escale schema json FILE       print it as JSON`;

const LISTS: readonly string[] = ["include", "exclude", "altered", "network"] satisfies (keyof KeepOptions)[];
const TEXTS: readonly string[] = ["worker", "fallback"] satisfies (keyof KeepOptions)[];

async function main([command, ...args]: string[]): Promise<void> {
  if (command === "files") {
    say((await packageFiles()).join("\n"));
    return;
  }
  if (command === "--help" || command === "-h") { say(HELP); return; }
  if (command === "schema") {
    // Not bundled: it loads the wasm.
    const part = "./schema-command.js";
    await import(part);
    return;
  }
  if (command !== "offline") throw new Error(command === undefined ? HELP : `escale: no command is called ${command}\n\n${HELP}`);
  const texts: { [name: string]: string } = {};
  const lists: { [name: string]: string[] } = {};
  const folders: string[] = [];
  let isRemoval = false;
  for (let at = 0; at < args.length; at++) {
    const arg = args[at] ?? "";
    const name = arg.replace(/^--/, "");
    if (arg === name) folders.push(arg);
    else if (name === "remove") isRemoval = true;
    else if (LISTS.includes(name)) lists[name] = [...(lists[name] ?? []), valueOf(arg, args[++at])];
    else if (TEXTS.includes(name)) texts[name] = valueOf(arg, args[++at]);
    else throw new Error(`escale: no option is called ${arg}\n\n${HELP}`);
  }
  const [folder, ...others] = folders;
  if (folder === undefined || others.length > 0) throw new Error(`escale: name one folder\n\n${HELP}`);
  const options: KeepOptions = { ...texts, ...lists };
  if (isRemoval) {
    await removeOffline(folder, options);
    say(`escale: ${folder} removes its worker from all devices that open it`);
    return;
  }
  const { files, bytes, version, worker } = await keepOffline(folder, options);
  say(`escale: ${files.length} files (${bytes} bytes) open offline, version ${version}: ${worker}`);
}

function valueOf(option: string, value: string | undefined): string {
  if (value === undefined) throw new Error(`escale: ${option} needs a value`);
  return value;
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

main(process.argv.slice(2)).catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
