// Measures two builds of the server on SQLite in turns: `node bench/servers.mjs BEFORE AFTER [ROUNDS]`, each the path of a
// binary. Prints the medians of each work, and of the ratios of neighbouring turns.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [before, after, rounds = "7"] = process.argv.slice(2);
if (!after) {
  console.error("node bench/servers.mjs BEFORE AFTER [ROUNDS]: the paths of two binaries of the server");
  process.exit(2);
}

const SCHEMA = { Note: { key: ["id"], collections: { shelf: { key: ["shelf"], mutable: true } } } };
const TEXT = "a line that says nothing new ".repeat(16);
const agent = new Agent({ keepAlive: true, maxSockets: 8 });

async function serve(binary) {
  const folder = await mkdtemp(join(tmpdir(), "escale-servers-"));
  const schema = join(folder, "schema.json");
  await writeFile(schema, JSON.stringify(SCHEMA));
  const args = ["serve", "--schema", schema, "--data", join(folder, "data"), "--listen", "127.0.0.1:0"];
  const child = spawn(binary, args, { stdio: ["ignore", "pipe", "ignore"] });
  const { value: line } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
  const port = Number(/:(\d+)/.exec(line.replace("http://", ""))[1]);
  const stop = async () => {
    child.kill("SIGKILL");
    await rm(folder, { recursive: true });
  };
  return { port, stop };
}

/** One request as a session sends it; the reply's bytes are read whole. */
function sync(port, body) {
  const text = JSON.stringify({ p: 1, ...body });
  const options = { port, path: "/o/sync", method: "POST", agent, headers: { "content-type": "application/json", "content-length": Buffer.byteLength(text) } };
  return new Promise((resolve, reject) => {
    const sent = request(options, (response) => {
      const parts = [];
      response.on("data", (part) => parts.push(part));
      response.on("end", () => resolve({ status: response.statusCode, text: Buffer.concat(parts).toString() }));
    });
    sent.on("error", reject);
    sent.end(text);
  });
}

/** Sends `count` writes of a session in requests of `each`. */
async function write(port, session, count, each) {
  for (let seq = 1; seq <= count; seq += each) {
    const ops = Array.from({ length: each }, (_, i) => {
      const id = `${session}-${seq + i}`;
      return { id, seq: seq + i, name: "doc.put", at: 0, args: { class: "Note", data: { id, shelf: `s${(seq + i) % 100}`, text: TEXT } } };
    });
    const { status, text } = await sync(port, { session, ops });
    if (status !== 200 || /"fault"/.test(text)) throw new Error(`${status} ${text.slice(0, 300)}`);
  }
}

const shelf = (n) => `Note/shelf@${createHash("sha256").update(`s${n}`).digest().subarray(3, 19).toString("base64url")}`;

const WORKS = {
  "2,000 writes, one a request": (port) => write(port, "one", 2_000, 1),
  "20,000 writes of four sessions, 25 a request": (port) => Promise.all([1, 2, 3, 4].map((n) => write(port, `s${n}`, 5_000, 25))),
  "200 lists of 220 documents": async (port) => {
    for (let n = 0; n < 200; n++) {
      const { text } = await sync(port, { session: "reader", subs: [[shelf(n % 100), 0]] });
      if (JSON.parse(text).parts[0].rows.length !== 220) throw new Error(text.slice(0, 300));
    }
  },
  "the whole class, twice": async (port) => {
    for (let n = 0; n < 2; n++) {
      for (let cursor; ; ) {
        const { text } = await sync(port, { session: "reader", subs: [cursor === undefined ? ["Note", 0] : ["Note", 0, cursor]] });
        cursor = JSON.parse(text).parts[0].next;
        if (cursor === undefined) break;
      }
    }
  },
};

const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
const times = Object.fromEntries(Object.keys(WORKS).map((work) => [work, { before: [], after: [] }]));
for (let round = 0; round < Number(rounds); round++) {
  // Each is first in every second round.
  const turn = Object.entries({ before, after });
  for (const [build, binary] of round % 2 ? turn.reverse() : turn) {
    const server = await serve(binary);
    for (const [work, run] of Object.entries(WORKS)) {
      const began = performance.now();
      await run(server.port);
      times[work][build].push(performance.now() - began);
    }
    await server.stop();
  }
}
console.log("| work | before | after | ratio |\n|---|---|---|---|");
for (const [work, { before: b, after: a }] of Object.entries(times)) {
  const ratio = median(a.map((ms, i) => ms / b[i]));
  console.log(`| ${work} | ${median(b).toFixed(0)} ms | ${median(a).toFixed(0)} ms | ${ratio.toFixed(2)} |`);
}
agent.destroy();
