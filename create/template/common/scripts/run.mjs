// `npm run dev`: the server of Escale and that of Vite, in one terminal. `npm run preview`: the same with the finished
// build, which opens with no network. `npm run dev -- --port 5199` chooses the page's port, and ESCALE_PORT the server's.
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

import { start } from "escale-server";
import { build, createServer, preview } from "vite";

const { what, page } = readArguments();
/** More options of the server, from `"escale": { "server": [..] }` in package.json. */
const { server: more = [] } = JSON.parse(readFileSync("package.json", "utf8")).escale ?? {};
const port = process.env.ESCALE_PORT ?? "7700";
// The page reads it as `import.meta.env.VITE_ESCALE_SERVER`.
process.env.VITE_ESCALE_SERVER ??= `http://localhost:${port}`;

/** The task, and the options of Vite's server. Vite's own command is not the one that runs here. */
function readArguments() {
  const options = { port: { type: "string" }, host: { type: "string" }, open: { type: "boolean" } };
  try {
    const { positionals, values } = parseArgs({ options, allowPositionals: true });
    const port = values.port === undefined ? undefined : Number(values.port);
    if (port !== undefined && !(Number.isInteger(port) && port >= 0 && port < 65_536)) throw new Error(`--port ${values.port} is no port`);
    // A port that was asked for is that one or none. Without one, Vite takes the next that is free.
    return { what: positionals[0], page: { ...values, port, strictPort: port !== undefined } };
  } catch ({ message }) {
    return fail(`${message.split(". ")[0]}. The options are --port NUMBER, --host ADDRESS and --open.`);
  }
}

let server;
async function up() {
  const started = await start(["--schema", "schema.json", "--data", "data", "--listen", `127.0.0.1:${port}`, ...more]);
  server = started;
  void started.ended.then((how) => {
    if (server === started) fail(`the server ended: ${how}`);
  });
}

async function toggle() {
  const running = server;
  server = undefined;
  if (!running) await up();
  else await running.stop();
  console.log(running ? "The server is stopped. Return starts it." : "The server runs again.");
}

function fail(message) {
  console.error(`error: ${message}`);
  process.exit(1);
}

// The server ends with this process.
process.on("SIGINT", () => process.exit(130));
process.on("SIGTERM", () => process.exit(143));

try {
  await up();
  if (what === "preview") {
    await build();
    (await preview({ preview: page })).printUrls();
  } else {
    (await (await createServer({ server: page })).listen()).printUrls();
  }
  console.log("Return stops the server, and starts it again: the application works on without it.");
  let work = Promise.resolve();
  // Only Return counts: the end of the input, as in a script or in the background, changes nothing.
  process.stdin.on("data", (bytes) => {
    for (const byte of bytes) if (byte === 10) work = work.then(toggle).catch((error) => fail(error.message));
  });
} catch (error) {
  fail(error.message);
}
