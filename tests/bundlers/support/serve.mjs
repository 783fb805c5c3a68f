// Programs that serve a project's page until they are stopped.
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { ROOT } from "../../packaging/project.mjs";
import { OutOfTime, start } from "./run.mjs";

const STARTING_MS = 120_000;
const ANSWER_MS = 60_000;

async function freePort() {
  const probe = createServer().listen(0, "localhost");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  await once(probe, "close");
  return port;
}

/** The command of a plain server of files. Frameworks write scripts into their pages, which a policy would forbid. */
export const serving = (files) => `node ${fileURLToPath(new URL("files.mjs", import.meta.url))} ${files} {port}`;

/** Starts a command, whose `{port}` is replaced; without one, a server of the files in `files`. Resolves when it answers. */
export async function serve(folder, command, files) {
  const port = await freePort();
  const line = command?.replaceAll("{port}", port) ?? `node ${join(ROOT, "scripts/serve-www.mjs")} ${files} ${port}`;
  const { said, stop, isOver } = start(folder, line, { PORT: port });
  const output = () => said.all;
  const url = `http://localhost:${port}/`;
  const until = Date.now() + STARTING_MS;
  while (!isOver() && Date.now() < until) {
    // Development servers build the page for the first request. One that accepts it and never answers must not hold us.
    const answer = await fetch(url, { signal: AbortSignal.timeout(ANSWER_MS) }).then((found) => found.arrayBuffer()).catch(() => undefined);
    if (answer) return { url, stop, output };
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const why = isOver() ? "ended before it answered" : `did not answer within ${STARTING_MS / 1_000} s`;
  await stop();
  throw new OutOfTime(`the server ${why}: ${line}\n${output().slice(-4_000)}`);
}
