// Commands of projects, each within a time: a tool that hangs is a failure of its cell, and not of the whole run.
import { spawn } from "node:child_process";
import { delimiter, join } from "node:path";

/** The environment of a project's commands: its own tools first, and no questions or reports. */
export const environment = (folder, more) => ({
  ...process.env,
  PATH: `${join(folder, "node_modules/.bin")}${delimiter}${process.env.PATH}`,
  CI: "1",
  NG_CLI_ANALYTICS: "false",
  NEXT_TELEMETRY_DISABLED: "1",
  NUXT_TELEMETRY_DISABLED: "1",
  ASTRO_TELEMETRY_DISABLED: "1",
  ...more,
});

/** A failure whose cause is only that a step took too long. */
export class OutOfTime extends Error {
  name = "OutOfTime";
}

/** Starts a command in a process group of its own, because tools start other processes. `stop` ends all of them. */
export function start(folder, command, env) {
  const child = spawn("bash", ["-c", command], { cwd: folder, env: environment(folder, env), detached: true, stdio: ["ignore", "pipe", "pipe"] });
  const said = { out: "", all: "" };
  child.stdout.on("data", (text) => ((said.out += text), (said.all += text)));
  child.stderr.on("data", (text) => (said.all += text));
  const ended = new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code, signal) => resolve(code ?? signal));
  });
  const stop = async () => {
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // Every process of the group has ended.
    }
    await ended;
  };
  return { said, ended, stop, isOver: () => child.exitCode !== null || child.signalCode !== null };
}

/** The result of a step, or `OutOfTime` with its name. `output` tells the step's output until then. */
export async function within(ms, what, work, output = () => "") {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new OutOfTime(`${what} took longer than ${ms / 1_000} s\n${output().slice(-2_000)}`)), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Runs a command to its end, and returns its output. */
export async function run(folder, command, ms, env) {
  const { said, ended, stop } = start(folder, command, env);
  try {
    const code = await within(ms, command, ended, () => said.all);
    if (code !== 0) throw new Error(`${command} failed (${code})\n${said.all}`);
    return said.out;
  } finally {
    await stop();
  }
}
