// Programs that serve a project's page until they are stopped.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";

import { ROOT } from "../../packaging/project.mjs";

const STARTING_MS = 120_000;

/** The environment of a project's commands: its own tools first, and no questions or reports. */
export const environment = (folder, more) => ({
  ...process.env,
  PATH: `${join(folder, "node_modules/.bin")}:${process.env.PATH}`,
  CI: "1",
  NG_CLI_ANALYTICS: "false",
  NEXT_TELEMETRY_DISABLED: "1",
  NUXT_TELEMETRY_DISABLED: "1",
  ...more,
});

async function freePort() {
  const probe = createServer().listen(0, "localhost");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  await once(probe, "close");
  return port;
}

/** Starts a command, whose `{port}` is replaced; without one, a server of the files in `files`. Resolves when it answers. */
export async function serve(folder, command, files) {
  const port = await freePort();
  const line = command?.replaceAll("{port}", port) ?? `node ${join(ROOT, "scripts/serve-www.mjs")} ${files} ${port}`;
  // A group of its own, because tools start other processes.
  const server = spawn("bash", ["-c", line], { cwd: folder, env: environment(folder, { PORT: port }), detached: true });
  let output = "";
  server.stdout.on("data", (text) => (output += text));
  server.stderr.on("data", (text) => (output += text));
  const ended = once(server, "exit");
  const stop = async () => {
    if (server.exitCode === null) process.kill(-server.pid, "SIGKILL");
    await ended;
  };
  const url = `http://localhost:${port}/`;
  const until = Date.now() + STARTING_MS;
  while (server.exitCode === null && Date.now() < until) {
    const answer = await fetch(url).catch(() => undefined);
    if (answer) {
      await answer.arrayBuffer();
      return { url, stop, output: () => output };
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await stop();
  throw new Error(`the server did not answer\n${output}`);
}
