// Hooks: commands or addresses by which the kit does to a server something that no client can do.
import { spawn } from "node:child_process";

import { send } from "./client/http.mjs";

/** The hooks, each with its task. `docs/conformance.md` explains them. */
export const HOOKS = {
  restart: "stop the server as an administrator would, and start it again on its data",
  renew: "give all orgs a new epoch",
  backup: "copy the data",
  restore: "put the copy in the place of the data, with a new epoch",
  purge: "forget all tombstones and departures up to now",
  forget: "forget the results of all operations up to now, and keep their ids",
  clock: "set the server's clock: KIT_OFFSET_MS is its distance from the true time",
  withdraw: "withdraw the token of --token-ends",
};

const TIMEOUT_MS = 60_000;

function runCommand(command, env) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, { shell: true, stdio: ["ignore", "inherit", "inherit"], env: { ...process.env, ...env } });
    const timer = setTimeout(() => {
      child.kill();
      reject(new Error(`the hook took more than ${TIMEOUT_MS / 1000} s: ${command}`));
    }, TIMEOUT_MS);
    child.on("error", reject);
    child.on("exit", (code) => {
      clearTimeout(timer);
      if (code === 0) resolve();
      else reject(new Error(`the hook ended with ${code}: ${command}`));
    });
  });
}

async function post(url, env) {
  const target = new URL(url);
  for (const [name, value] of Object.entries(env)) target.searchParams.set(name, value);
  const answer = await send({ url: target.href, method: "POST", headers: {}, timeoutMs: TIMEOUT_MS });
  if (answer.status >= 300) throw new Error(`the hook answered ${answer.status}: ${url}`);
}

/** Calls the hook that an option names: an address gets a POST, anything else is a command of the shell. */
export function callersOf(options) {
  const callers = {};
  for (const name of Object.keys(HOOKS)) {
    const hook = options[name];
    if (hook === undefined) continue;
    callers[name] = (env = {}) => (typeof hook === "function" ? hook(env) : /^https?:/.test(hook) ? post(hook, env) : runCommand(hook, env));
  }
  return callers;
}
