// The command line.
import { parseArgs } from "node:util";

import { CHECKS } from "./checks/index.mjs";
import { HOOKS } from "./hooks.mjs";
import { orgsOf } from "./kit.mjs";
import { PARTS, fresh, schemaWithout } from "./names.mjs";
import { lastLines, linesOf, count } from "./report.mjs";
import { runChecks } from "./run.mjs";
import { WATCHES } from "./watch/index.mjs";

const HELP = `escale-conformance: checks a server of the Escale protocol from outside

  escale-conformance schema > kit.schema.json   the schema that the server needs
  escale-conformance URL [options]              checks the server at {URL}/{org}/sync
  escale-conformance list                       every check, with the words that it checks
  escale-conformance orgs --run NAME            the orgs of a run, for the file of tokens

  --only ID,ID         only these checks, or those whose ids begin so
  --quick              without the checks that wait for seconds
  --form json|msgpack  one form only; both take turns by default
  --seed N             the choices of a run before
  --histories N        random histories (3), each of --steps N rounds (60)
  --parallel N         checks at once (6)
  --run NAME           the orgs are kit-NAME-...; random by default
  --no-socket          the server has no socket
  --accounts           the server has accounts, and anyone may sign up
  --without PART,PART  the server lacks these parts of the schema language: ${Object.keys(PARTS).join(", ")}
  --verbose            passed checks, too

  --token T            a token that may write; without it the server has none
  --token-other T      a token of another account, for the same orgs
  --token-read T       a token that may only read
  --token-foreign T    a token that opens no org of the kit
  --token-ends T       a token that --withdraw withdraws
  --origin URL         an origin that the server allows (http://localhost:5173)
  --second-url URL     another instance on the same data
  --slack MS           added to each limit of time, for a busy machine (0)
  --skew MS            how far the clocks of instances may disagree (0)

Hooks, each a command of the shell, or an address that gets a POST:
${Object.entries(HOOKS).map(([name, does]) => `  --${name.padEnd(12)} ${does}`).join("\n")}
`;

const TEXTS = ["only", "form", "seed", "histories", "steps", "parallel", "run", "token", "token-other", "token-read", "token-foreign", "token-ends", "origin", "second-url", "slack", "skew", "without", ...Object.keys(HOOKS)];
const FLAGS = ["quick", "no-socket", "accounts", "verbose", "help"];

const camel = (name) => name.replace(/-(.)/g, (_, letter) => letter.toUpperCase());

function number(value, name, fallback) {
  if (value === undefined) return fallback;
  if (!/^\d+$/.test(value)) throw new TypeError(`--${name} is a number, not ${value}`);
  return Number(value);
}

/** The options of a run, with their defaults. */
export function optionsOf(given) {
  const options = { ...given };
  options.url = options.url?.replace(/\/+$/, "");
  options.run ??= fresh("").slice(0, 10);
  options.seed = number(given.seed, "seed", Math.floor(Math.random() * 2 ** 31));
  options.histories = number(given.histories, "histories", given.quick ? 1 : 3);
  options.steps = number(given.steps, "steps", given.quick ? 30 : 60);
  options.parallel = Math.max(1, number(given.parallel, "parallel", 6));
  options.slack = number(given.slack, "slack", 0);
  options.skew = number(given.skew, "skew", 0);
  options.form ??= "both";
  options.origin ??= "http://localhost:5173";
  options.without = given.without?.split(",").filter(Boolean) ?? [];
  options.only = given.only?.split(",").filter(Boolean);
  if (!["both", "json", "msgpack"].includes(options.form)) throw new TypeError("--form is json or msgpack");
  for (const one of options.without) {
    if (!Object.hasOwn(PARTS, one)) throw new TypeError(`--without: no part is called ${one}`);
  }
  for (const one of options.only ?? []) {
    const isKnown = [...CHECKS, ...WATCHES].some(({ id }) => id === one || id.startsWith(`${one}.`));
    if (!isKnown) throw new TypeError(`--only: no check is called ${one}`);
  }
  return options;
}

function parse(args) {
  const options = Object.fromEntries([...TEXTS.map((name) => [name, { type: "string" }]), ...FLAGS.map((name) => [name, { type: "boolean" }])]);
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
  return { command: positionals, given: Object.fromEntries(Object.entries(values).map(([name, value]) => [camel(name), value])) };
}

const say = (lines) => lines.length && console.log(lines.join("\n"));

/** The commands that only print. */
const LISTS = {
  schema: ({ without }) => [JSON.stringify(schemaWithout(without), null, 2)],
  orgs: ({ run }) => [...CHECKS.flatMap(({ id }) => orgsOf(run, id)), "ROOT"],
  list: () => [...CHECKS, ...WATCHES].map(({ id, at, says }) => `${id}\n    docs/protocol.md#${at}: "${says}"`),
};

/** Returns the exit code: 0 if nothing failed, 1 if something did, 2 if nothing was checked. */
export async function main(args) {
  let command, options;
  try {
    const parsed = parse(args);
    command = parsed.command;
    if (parsed.given.help || command.length !== 1) {
      console.log(HELP);
      return parsed.given.help ? 0 : 2;
    }
    options = optionsOf({ ...parsed.given, url: command[0] });
  } catch (error) {
    console.error(`${error.message}\nescale-conformance --help lists the options.`);
    return 2;
  }
  if (Object.hasOwn(LISTS, command[0])) {
    say(LISTS[command[0]](options));
    return 0;
  }
  if (!/^https?:\/\//.test(command[0])) {
    console.error(`${command[0]} is neither an address nor a command\nescale-conformance --help lists them.`);
    return 2;
  }
  console.log(`${options.url}, --seed ${options.seed}, --run ${options.run}`);
  const results = await runChecks(CHECKS, options, (result) => say(linesOf(result, { isVerbose: options.verbose })));
  say(lastLines(results, options));
  const { passed, failed } = count(results);
  return failed ? 1 : passed ? 0 : 2;
}
