#!/usr/bin/env node
// The command `npm create escale`: asks for the folder and the template if the arguments do not say them, then writes an
// application there.
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";

import { Refused, TEMPLATES, folderOf, packagesOf, templateOf, write } from "./app.mjs";

const HELP = `npm create escale [FOLDER] -- [--template ${TEMPLATES.join("|")}] [--yes] [--from DIR]
    Writes an application that works offline, with the reference server, into a new folder.

    --template NAME  ${TEMPLATES.join(" or ")}
    --yes            asks nothing: the folder is escale-app, and the template ${TEMPLATES[0]}, unless given
    --from DIR       takes Escale's packages from the tarballs of a folder, as \`make create\` leaves them`;

async function run() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      template: { type: "string", short: "t" },
      yes: { type: "boolean", short: "y" },
      from: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) return print(HELP);
  if (positionals.length > 1) throw new Refused("more than one folder is named", "Quote a name that has spaces");
  const packages = packagesOf(values.from);
  // A wrong argument is refused before any question.
  let folder = positionals[0] && folderOf(positionals[0]);
  let template = values.template && templateOf(values.template);
  if (!folder || !template) {
    const ask = asker(values.yes);
    folder ??= folderOf(await ask("Folder", "escale-app"));
    template ??= templateOf(await ask(`Template (${TEMPLATES.join(", ")})`, TEMPLATES[0]));
    ask.end();
  }
  write({ folder, template, packages });
  print(`Written: ${folder.path} (${template}). Next:

    cd ${folder.given}
    npm install
    npm run dev

README.md there says the rest.`);
}

/** A function that asks one question. With `--yes` it gives the usual answer. */
function asker(isSilent) {
  if (isSilent) return Object.assign((_, usual) => usual, { end() {} });
  const input = createInterface({ input: process.stdin });
  const lines = input[Symbol.asyncIterator]();
  const ask = async (question, usual) => {
    process.stdout.write(`${question} [${usual}]: `);
    const { value, done } = await lines.next();
    if (done) throw new Refused("there is nobody to ask", "Give the folder and --template, or --yes");
    return value.trim() || usual;
  };
  return Object.assign(ask, { end: () => input.close() });
}

function print(text) {
  process.stdout.write(`${text}\n`);
}

try {
  await run();
} catch (error) {
  const isUsage = error instanceof Refused || String(error.code).startsWith("ERR_PARSE_ARGS");
  const cure = error.cure ?? `See: npm create escale -- --help`;
  process.stderr.write(`error: ${isUsage ? `${error.message}\n[${cure}]` : error.stack}\n`);
  process.exitCode = 1;
}
