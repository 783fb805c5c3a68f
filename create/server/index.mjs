// Finds the server's binary, and runs it for a program. The binary is in a package of its own for each platform: npm
// installs only the one that fits.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(import.meta.url);
/** The platforms that have a package. */
const PACKAGED = Object.keys(require("./package.json").optionalDependencies);

/** A failure of this package. */
export class ServerError extends Error {
  constructor(code, message, cure) {
    super(`${code}: ${message} [${cure}]`);
    this.name = "ServerError";
    this.code = code;
    this.cure = cure;
  }
}

/** The platform, as the packages name it: `linux-x64-gnu`. */
export function platform({ platform: system, arch, report } = process) {
  if (system !== "linux") return `${system}-${arch}`;
  return `linux-${arch}-${report.getReport().header.glibcVersionRuntime ? "gnu" : "musl"}`;
}

/** The path of the server's binary: that of ESCALE_SERVER, or that of this platform's package. */
export function binary(on = platform(), find = require.resolve) {
  const given = process.env.ESCALE_SERVER;
  if (given) {
    if (existsSync(given)) return given;
    throw new ServerError("no_server_binary", `ESCALE_SERVER names ${given}, which does not exist`, "Correct it, or unset it");
  }
  const name = `@escale/server-${on}`;
  const build = "`cargo install --locked --path server` in a clone of Escale, then set ESCALE_SERVER to the path of escale-server";
  if (!PACKAGED.includes(name)) throw new ServerError("no_server_binary", `there is no package of the server for ${on}`, `Build it: ${build}`);
  try {
    return find(`${name}/escale-server`);
  } catch {
    throw new ServerError("no_server_binary", `the package ${name} is not installed`, `Install without --omit=optional, or build it: ${build}`);
  }
}

/** Starts the server with these arguments, and resolves once it listens. It ends with this program. */
export async function start(args) {
  const child = spawn(binary(), ["serve", ...args], { stdio: ["ignore", "pipe", "inherit"] });
  const end = () => child.kill();
  process.once("exit", end);
  const ended = new Promise((resolve) => {
    child.once("exit", (code, signal) => resolve(code ?? signal));
    child.once("error", ({ message }) => resolve(message));
  });
  void ended.then(() => process.off("exit", end));
  const listens = new Promise((resolve) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      const found = /^listening on (http:\S+)/.exec(line);
      if (found) resolve({ url: found[1] });
    });
  });
  const first = await Promise.race([listens, ended.then((how) => ({ how }))]);
  if (!first.url) throw new ServerError("server_ended", `the server ended before it listened: ${first.how}`, "Its own message says why");
  return {
    url: first.url,
    ended,
    async stop() {
      child.kill();
      await ended;
    },
  };
}
