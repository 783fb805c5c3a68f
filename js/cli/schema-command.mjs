// The part of the command `escale` that reads schemas: `npx escale schema check|types|json FILE`. No page loads it.
import { readFile, writeFile } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

import { defineSchema, EscaleError, open } from "./index.js";
import { values as rules } from "./values.js";

const HELP = `npx escale schema check FILE
    Says whether the schema can be used, and names the place of a mistake.
npx escale schema types FILE [--out FILE.ts] [--check]
    Writes a TypeScript module with the classes of a JSON schema: defineSchema(classes) then knows their types.
    --check writes nothing, and fails if the module is not up to date.
npx escale schema json FILE
    Prints the schema of a module (its export \`schema\` or \`classes\`, or the default one) as JSON, for the server.

FILE is JSON, or a JavaScript module. Node from 22.18 on reads TypeScript modules too.`;

const ACTIONS = new Map(Object.entries({ check, types, json }));

/** A failure that the user can cure: no stack is printed. */
class Refused extends Error {}

async function run() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { out: { type: "string" }, check: { type: "boolean" }, help: { type: "boolean", short: "h" } },
  });
  const [subject, action, file, ...others] = positionals;
  if (values.help) return print(HELP);
  const act = ACTIONS.get(action);
  if (subject !== "schema" || !act || !file || others.length > 0) throw new Refused(`a command is missing or unknown\n\n${HELP}`);
  if (action !== "types" && (values.out || values.check)) throw new Refused("--out and --check belong to `schema types`");
  const classes = await read(file);
  await refuseWrong(classes, file);
  await act(classes, file, values);
}

function check(classes, file) {
  print(`${file}: ${Object.keys(classes).sort().join(", ")}`);
}

async function types(classes, file, { out, check: only }) {
  const text = moduleOf(classes, basename(file));
  if (only) {
    if (!out) throw new Refused("--check needs the module that it compares: --out FILE.ts");
    const found = await readFile(out, "utf8").catch(() => "");
    if (found.replaceAll("\r\n", "\n") !== text) {
      throw new Refused(`${out} is not made from the present ${file}\n[Run: npx escale schema types ${file} --out ${out}]`);
    }
  } else if (out) await writeFile(out, text);
  else process.stdout.write(text);
}

function json(classes) {
  print(JSON.stringify(classes, null, 2));
}

/** The classes that a file declares. */
async function read(file) {
  if (!file.endsWith(".json")) return classesOf(await load(file), file);
  const text = await readFile(file, "utf8").catch((error) => {
    throw new Refused(`${file} cannot be read: ${error.code}`);
  });
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Refused(`${file} is no JSON: ${error.message}`);
  }
}

async function load(file) {
  try {
    return await import(pathToFileURL(resolve(file)).href);
  } catch (error) {
    const hint = error.code === "ERR_UNKNOWN_FILE_EXTENSION" ? "\n[Use Node 22.18 or later for TypeScript, or compile it first]" : "";
    throw new Refused(`${file} cannot be imported: ${error.message}${hint}`);
  }
}

function classesOf({ schema, classes, default: usual }, file) {
  const found = schema ?? classes ?? usual;
  if (typeof found !== "object" || found === null) throw new Refused(`${file} exports no \`schema\` and no \`classes\``);
  return JSON.parse(JSON.stringify(found));
}

/**
 * Lets the core and the check of values read the schema: they say the same as in an application. Nothing is stored, and no
 * server is called.
 */
async function refuseWrong(classes, file) {
  const silent = { sync: () => new Promise(() => {}) };
  try {
    const schema = defineSchema(classes);
    const session = await open({ org: "check", schema, server: silent, mode: "incognito" });
    await session.close();
    defineSchema(classes, { values: rules });
  } catch (error) {
    if (!(error instanceof EscaleError)) throw error;
    throw new Refused(`${file}: ${error.code}: ${error.message}\n[${error.cure}]`);
  }
}

/** The module: `as const` keeps each name as a type, which an import of JSON does not. */
function moduleOf(classes, source) {
  const names = Object.keys(classes);
  const documents = names.map((name) => `/** A document of the class. */\nexport type ${name} = DocumentOf<(typeof classes)["${name}"]>;\n`);
  return [
    `// Made by \`npx escale schema types ${source}\`. Change that file, and run the command again.`,
    'import type { DocumentOf } from "escale";\n',
    "/** The classes, for `defineSchema`. */",
    `export const classes = ${JSON.stringify(classes, null, 2)} as const;\n`,
    documents.join("\n"),
  ].join("\n");
}

function print(text) {
  process.stdout.write(`${text}\n`);
}

try {
  await run();
} catch (error) {
  const isUsage = error instanceof Refused || String(error.code).startsWith("ERR_PARSE_ARGS");
  process.stderr.write(`error: ${isUsage ? error.message : error.stack}\n`);
  process.exitCode = 1;
}
