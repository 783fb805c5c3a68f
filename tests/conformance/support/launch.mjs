// Starts one of the servers as a process, with the hooks by which the kit does to it something that no client can do.
//
// All servers are started on a folder of their own. Each hook stops the process, does its work and starts it again on
// the same port, or calls the command that an administrator would call.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";

import { CHECKS, SCHEMA, orgsOf } from "../../../conformance/src/index.mjs";
import { ROOT, SERVER } from "../../e2e/support/paths.mjs";
import { startPostgres } from "../../servers/handler/support.mjs";

/** The reference server with another clock (server/examples/shifted_clock.rs). */
const SHIFTED = join(dirname(SERVER), "examples/shifted_clock");
const PYTHON = process.env.ESCALE_PYTHON ?? join(ROOT, "target/python/bin/python");

const NODE = [join(ROOT, "examples/servers/node/server.mjs"), "--synchronous", "OFF"];

/** The command of each server, with the flags of one start. */
const COMMANDS = {
  node: ({ folder, flags }) => [process.execPath, [...NODE, "--data", join(folder, "data.sqlite"), ...flags]],
  postgresql: ({ database, flags }) => [process.execPath, [...NODE, "--data", database, ...flags]],
  python: ({ folder, flags }) => [PYTHON, ["-B", join(ROOT, "examples/servers/python/server.py"), "--data", join(folder, "data.sqlite"), ...flags]],
  reference: ({ folder, flags }) => [SERVER, ["serve", "--data", folder, ...flags]],
};

const TWO_DAYS_MS = 2 * 86_400_000;

class Process {
  constructor(kind, folder, more, database) {
    Object.assign(this, { kind, folder, more, database, port: 0 });
  }
  async start(flags = []) {
    if (typeof flags === "number") return this.startShifted(flags);
    const listens = this.kind === "reference" ? ["--listen", `127.0.0.1:${this.port}`] : ["--port", String(this.port)];
    return this.run(...COMMANDS[this.kind]({ folder: this.folder, database: this.database, flags: [...listens, ...this.more, ...flags] }));
  }
  startShifted(offsetMs) {
    const [, schema, , tokens] = this.more;
    return this.run(SHIFTED, [schema, this.folder, `127.0.0.1:${this.port}`, String(offsetMs), ...(tokens ? [tokens] : [])]);
  }
  async run(command, args) {
    this.child = spawn(command, args, { stdio: ["ignore", "pipe", this.kind === "reference" ? "ignore" : "inherit"] });
    const ended = once(this.child, "exit").then(([code]) => {
      throw new Error(`${command} ended with ${code}`);
    });
    ended.catch(() => {});
    const [line] = await Promise.race([once(createInterface(this.child.stdout), "line"), ended]);
    this.port = Number(/:(\d+)$/.exec(line)[1]);
  }
  async stop() {
    if (!this.child || this.child.exitCode !== null) return;
    this.child.kill("SIGTERM");
    await once(this.child, "exit");
  }
  /** Stops, lets `act` change the data, and starts with these flags. */
  async again(act = () => {}, flags = []) {
    await this.stop();
    act();
    await this.start(flags);
  }
}

function renewEpoch(folder) {
  const { status, stderr } = spawnSync(SERVER, ["epoch", "--renew", "--data", folder], { encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
}

function hooksOf(server, backup) {
  const { folder, kind } = server;
  const isReference = kind === "reference";
  const copy = (from, to) => {
    rmSync(to, { recursive: true, force: true });
    cpSync(from, to, { recursive: true });
  };
  /** One start with these flags, which changes the data, and another one without them. A number is an offset of the clock. */
  const passing = async (flags) => {
    await server.again(undefined, flags);
    await server.again();
  };
  const renew = isReference ? () => renewEpoch(folder) : () => server.again(undefined, ["--renew-epoch"]);
  return {
    restart: () => server.again(),
    renew,
    // The data of a database is no folder.
    ...(kind === "postgresql" ? {} : {
      backup: () => server.again(() => copy(folder, backup)),
      async restore() {
        const put = () => {
          copy(backup, folder);
          if (isReference) renewEpoch(folder);
        };
        await server.again(put, isReference ? [] : ["--renew-epoch"]);
      },
    }),
    ...(isReference && !existsSync(SHIFTED) ? {} : {
      purge: () => passing(isReference ? TWO_DAYS_MS : ["--retention-ms", "0"]),
      forget: () => passing(isReference ? TWO_DAYS_MS : ["--results-ms", "0"]),
      clock: ({ KIT_OFFSET_MS }) => server.again(undefined, isReference ? Number(KIT_OFFSET_MS) : [`--clock-offset-ms=${KIT_OFFSET_MS}`]),
    }),
  };
}

/** A file of tokens for the orgs of a run, and the options that name them. */
function tokensOf(file, run) {
  const orgs = [...CHECKS.flatMap(({ id }) => orgsOf(run, id)), "ROOT"];
  const tokens = {
    "kit-write": { account: "a", orgs, role: "write" },
    "kit-other": { account: "b", orgs, role: "write" },
    "kit-read": { account: "a", orgs, role: "read" },
    "kit-foreign": { account: "a", orgs: ["elsewhere"], role: "write" },
    "kit-ends": { account: "a", orgs, role: "write" },
  };
  const write = () => writeFileSync(file, JSON.stringify(tokens));
  write();
  const withdraw = () => {
    delete tokens["kit-ends"];
    write();
  };
  return { token: "kit-write", tokenOther: "kit-other", tokenRead: "kit-read", tokenForeign: "kit-foreign", tokenEnds: "kit-ends", withdraw };
}

/** Starts a server, and returns the options of a run of the kit, and `stop`. */
export async function launch(kind, { run, hasTokens = false, hasSecond = false, hasAccounts = false }) {
  const root = mkdtempSync(join(tmpdir(), "escale-conformance-"));
  const [folder, schema, tokens] = [join(root, "data"), join(root, "schema.json"), join(root, "tokens.json")];
  mkdirSync(folder);
  writeFileSync(schema, JSON.stringify(SCHEMA));
  const options = { run, ...(hasTokens && tokensOf(tokens, run)), ...(hasAccounts && { accounts: true }) };
  const ofAccounts = ["--sign-up", "open", "--trusted-proxy", "127.0.0.0/8"];
  const more = ["--schema", schema, ...(hasTokens ? ["--tokens", tokens] : []), ...(hasAccounts ? ofAccounts : [])];
  const postgresql = kind === "postgresql" ? startPostgres() : undefined;
  const database = postgresql && `postgres://postgres@${encodeURIComponent(postgresql.folder)}/postgres`;
  const servers = Array.from({ length: hasSecond ? 2 : 1 }, () => new Process(kind, folder, more, database));
  for (const server of servers) await server.start();
  const [url, secondUrl] = servers.map(({ port }) => `http://127.0.0.1:${port}`);
  // A hook that replaces the data cannot run under a second process.
  const hooks = hasSecond ? {} : hooksOf(servers[0], join(root, "backup"));
  const stop = async () => {
    for (const server of servers) await server.stop();
    await postgresql?.stop();
    rmSync(root, { recursive: true, force: true });
  };
  return { options: { url, ...hooks, ...options, ...(hasSecond && { secondUrl }) }, stop };
}
