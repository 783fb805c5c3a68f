#!/usr/bin/env node
// The command `escale-server`: the binary with the same arguments, output, signals and exit code.
import { spawn } from "node:child_process";

import { binary, ServerError } from "./index.mjs";

try {
  const child = spawn(binary(), process.argv.slice(2), { stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("error", (error) => {
    process.stderr.write(`error: ${error.message}\n`);
    process.exitCode = 1;
  });
  child.on("exit", (code, signal) => {
    // The shell's way to say that a signal ended it.
    process.exitCode = code ?? (signal === "SIGINT" ? 130 : 143);
  });
} catch (error) {
  if (!(error instanceof ServerError)) throw error;
  process.stderr.write(`error: ${error.message}\n`);
  process.exitCode = 1;
}
