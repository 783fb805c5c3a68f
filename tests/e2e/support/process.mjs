// Processes that print `listening on http://host:port` once they are ready.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** Starts a command and waits for its line; returns the child and its port. */
export async function startListening(command, args) {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
  const log = [];
  child.stderr.on("data", (bytes) => log.push(bytes));
  const failed = (what) => new Error(`${command} ${args.join(" ")}: ${what}\n${Buffer.concat(log)}`);
  const ended = once(child, "exit").then(([code]) => {
    throw failed(`ended with ${code} before it listened`);
  });
  const listening = (async () => {
    for await (const line of createInterface({ input: child.stdout })) {
      const found = /listening on http:\/\/[^:]+:(\d+)/.exec(line);
      if (found) return Number(found[1]);
    }
    throw failed("never listened");
  })();
  // Both outlive the race; neither is an error any more once it is won.
  ended.catch(() => {});
  listening.catch(() => {});
  return { child, port: await Promise.race([listening, ended]) };
}

/** Ends a process, and waits until it has ended. */
export async function stopProcess(child, signal = "SIGTERM") {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill(signal);
  await gone;
}
