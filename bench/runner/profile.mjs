// Shows where the time of one of Escale's figures is spent, with Chromium's sampling profiler:
//
// `node runner/profile.mjs [--what first|all|arrive|read|update|index|lists] [--system escale:cold] [--documents 10000] [--top 25]`
//
// Run `scripts/bench` first: it builds the pages. `--dist` takes other pages, for example with a wasm that kept its
// functions' names. `lists` are updates while 50 lists are open, `index` is the first ordered query; their documents are
// those of SET=queries.
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { ask, inBrowser, withProfile } from "./measure.mjs";
import { serve } from "./site.mjs";

const { values } = parseArgs({
  options: {
    what: { type: "string", default: "first" },
    system: { type: "string", default: "escale" },
    documents: { type: "string", default: "10000" },
    top: { type: "string", default: "25" },
    dist: { type: "string", default: fileURLToPath(new URL("../dist", import.meta.url)) },
  },
});
const count = Number(values.documents);
const INTERVAL_US = 200;

/** The kind of work that a sample's function belongs to. */
function kindOf({ functionName, url }) {
  if (functionName === "(idle)") return "waiting";
  if (functionName === "(program)") return "the browser's own, compiling included";
  if (functionName === "(garbage collector)") return "collecting garbage";
  if (functionName.startsWith("wasm-") || /\.wasm\b|^wasm:/.test(url)) return "wasm";
  return url === "" ? "the browser's functions" : "JavaScript";
}

/** Milliseconds by kind and by function, of a profile in the form of DevTools. */
function timesOf({ nodes, samples, timeDeltas }) {
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  const [kinds, functions] = [new Map(), new Map()];
  const add = (map, key, ms) => map.set(key, (map.get(key) ?? 0) + ms);
  for (const [at, id] of samples.entries()) {
    const frame = frames.get(id);
    const ms = timeDeltas[at] / 1_000;
    add(kinds, kindOf(frame), ms);
    add(functions, frame.functionName || `(no name, line ${frame.lineNumber})`, ms);
  }
  const sorted = (map) => [...map].sort(([, a], [, b]) => b - a);
  return { kinds: sorted(kinds), functions: sorted(functions) };
}

async function profiled(page, context) {
  if (values.what === "read" || values.what === "update") await ask(page, "all", count);
  if (values.what === "lists") {
    await ask(page, "open");
    await page.evaluate((n) => window.bench.openLists(n).then(() => {}), count);
    // Others have compiled the code.
    await ask(page, "updateLists", count);
  }
  const devtools = await context.newCDPSession(page);
  await devtools.send("Profiler.enable");
  await devtools.send("Profiler.setSamplingInterval", { interval: INTERVAL_US });
  await devtools.send("Profiler.start");
  const ms = await ask(page, values.what === "lists" ? "updateLists" : values.what, count);
  const { profile } = await devtools.send("Profiler.stop");
  await ask(page, "close");
  return { ms, ...timesOf(profile) };
}

const site = await serve(values.dist);
try {
  await withProfile(async (folder) => {
    const url = `${site.url}?system=${values.system}&set=${["index", "lists"].includes(values.what) ? "queries" : "documents"}`;
    if (values.what !== "arrive") {
      await inBrowser(folder, url, async (page) => {
        await ask(page, "arrive", count);
        await ask(page, "close");
      });
    }
    const { ms, kinds, functions } = await inBrowser(folder, url, profiled);
    const told = (list) => list.map(([name, took]) => `${took.toFixed(1).padStart(8)}  ${name}`).join("\n");
    console.log(`${values.what}, ${count} documents: ${ms.toFixed(0)} ms while it is profiled\n\n${told(kinds)}\n\n${told(functions.slice(0, Number(values.top)))}`);
  });
} finally {
  site.stop();
}
