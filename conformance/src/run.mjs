// Runs checks against a server, several at once, and gathers the results.
import { Failure, Skip } from "./check.mjs";
import { describe } from "./client/exchange.mjs";
import { closeConnections } from "./client/http.mjs";
import { callersOf } from "./hooks.mjs";
import { Kit } from "./kit.mjs";
import { Watcher, WATCHES } from "./watch/index.mjs";

const LIMIT_MS = 120_000;

const optionOf = (need) => `--${need.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

/** Why a check cannot run with these options, or nothing. */
function whySkipped(check, options) {
  const missing = check.needs.filter((need) => options[need] === undefined);
  const lacking = check.parts.filter((part) => options.without.includes(part));
  if (lacking.length) return `left out by --without ${lacking.join(",")}`;
  if (missing.length) return `needs ${missing.map(optionOf).join(" and ")}`;
  return check.isSlow && options.quick ? "left out by --quick" : undefined;
}

const hash = (text) => [...text].reduce((sum, letter) => (Math.imul(sum, 31) + letter.charCodeAt(0)) >>> 0, 7);

function within(promise, check) {
  const { limitMs = LIMIT_MS } = check;
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Failure(`an end of the check within ${limitMs / 1000} s`)), limitMs);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function runOne(check, { options, watcher, hooks }) {
  const skipped = whySkipped(check, options);
  if (skipped) return { check, outcome: "skipped", reason: skipped };
  const kit = new Kit({ options, watcher, hooks, check, seed: (options.seed ^ hash(check.id)) >>> 0 });
  const began = Date.now();
  try {
    await within(check.run(kit), check);
    return { check, outcome: "passed", tookMs: Date.now() - began };
  } catch (error) {
    if (error instanceof Skip) return { check, outcome: "skipped", reason: error.message };
    const tookMs = Date.now() - began;
    if (!(error instanceof Failure)) {
      // The server closed the connection, or its answer had a shape that no reader expects.
      const lines = kit.last ? describe(kit.last) : [];
      return { check, outcome: "failed", wanted: `an answer that can be used: ${error.message}`, lines, stack: error.stack, tookMs };
    }
    const shown = error.exchange ?? kit.last;
    return { check, outcome: "failed", wanted: error.message, lines: shown ? describe(shown) : [], tookMs };
  } finally {
    kit.close();
  }
}

/** The result of each watch: it needs at least one answer that it concerns. */
function watched(watcher, wanted) {
  return WATCHES.filter(wanted).map((check) => {
    const { seen, failures } = watcher.found.get(check.id);
    if (failures.length) {
      const more = failures.length > 1 ? ` (and ${failures.length - 1} answers more)` : "";
      return { check, outcome: "failed", wanted: `${check.says} Found: ${failures[0].message}${more}`, lines: failures[0].exchange.lines };
    }
    return seen ? { check, outcome: "passed" } : { check, outcome: "skipped", reason: "no answer concerned it" };
  });
}

/** Whether a name is chosen by `--only`: a check's id, or the beginning of it. */
const isChosen = ({ only }) => ({ id }) => !only?.length || only.some((one) => id === one || id.startsWith(`${one}.`));

/** Runs checks, tells each result, and returns them all in the order of the checks. */
export async function runChecks(checks, options, tell = () => {}) {
  const watcher = new Watcher();
  const world = { options, watcher, hooks: callersOf(options) };
  const chosen = checks.filter(isChosen(options));
  const results = new Map();
  const run = async (check) => {
    const result = await runOne(check, world);
    results.set(check, result);
    tell(result);
  };
  // First come those that stop the server, while it has little data to copy and to start with.
  for (const check of chosen) if (check.isAlone) await run(check);
  // Then the slow ones begin, because they mostly wait.
  const together = chosen.filter(({ isAlone }) => !isAlone).sort((a, b) => b.isSlow - a.isSlow);
  const worker = async () => {
    while (together.length) await run(together.shift());
  };
  await Promise.all(Array.from({ length: options.parallel }, worker));
  closeConnections();
  const ends = watched(watcher, isChosen({ only: options.only?.filter((one) => one.startsWith("watch")) }));
  ends.forEach(tell);
  return [...chosen.map((check) => results.get(check)), ...ends];
}
