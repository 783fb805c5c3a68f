// `npm run dev`: the server of Escale and that of Vite, in one terminal. `npm run preview`: the same with the finished
// build, which opens with no network.
import { createInterface } from "node:readline";

import { start } from "escale-server";
import { build, createServer, preview } from "vite";

const port = process.env.ESCALE_PORT ?? "7700";
// The page reads it as `import.meta.env.VITE_ESCALE_SERVER`.
process.env.VITE_ESCALE_SERVER ??= `http://localhost:${port}`;

let server;
async function up() {
  const started = await start(["--schema", "schema.json", "--data", "data", "--listen", `127.0.0.1:${port}`]);
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
  if (process.argv[2] === "preview") {
    await build();
    (await preview()).printUrls();
  } else {
    (await (await createServer()).listen()).printUrls();
  }
  console.log("Return stops the server, and starts it again: the application works on without it.");
  let work = Promise.resolve();
  createInterface({ input: process.stdin }).on("line", () => {
    work = work.then(toggle).catch((error) => fail(error.message));
  });
} catch (error) {
  fail(error.message);
}
