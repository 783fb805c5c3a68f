// Random histories of real sessions on the second server (tests/servers), which was written from docs/protocol.md
// alone. Once the network works again, each session shows the server's documents, no accepted write is lost, and no form
// that is merged loses a property of others.
//
// `HISTORIES` sets how many (5 by default). `ESCALE_SEED` repeats the choices of the first one; the machine decides
// where exactly a session is at each choice.
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { count, startSeed } from "../../../testkit/effort.mjs";

const HISTORIES = count("HISTORIES", 5);
const SEED = startSeed();
const PLAYER = fileURLToPath(new URL("../../servers/player.mjs", import.meta.url));

test(`${HISTORIES} histories on a second server end equal`, { timeout: HISTORIES * 120_000 }, async () => {
  console.log(`# ESCALE_SEED=${SEED} HISTORIES=${HISTORIES}`);
  const began = Date.now();
  // Node 20 has a WebSocket only with this flag.
  const player = fork(PLAYER, [String(SEED), String(HISTORIES)], { execArgv: ["--experimental-websocket", "--no-warnings"] });
  const played = [];
  player.on("message", (one) => {
    played.push(one);
    console.log(`# ${one.seed} ${one.error ? "FAILED" : "ended equal"} in ${(one.tookMs / 1000).toFixed(1)} s`);
  });
  await once(player, "close");
  const failed = played.filter(({ error }) => error);
  const sum = (name) => played.reduce((total, { counts }) => total + (counts?.[name] ?? 0), 0);
  const seconds = ((Date.now() - began) / 1000).toFixed(1);
  const of = `${sum("accepted")} writes accepted, ${sum("merged")} of them of forms, ${sum("refused")} refused, ${sum("restored")} restores`;
  console.log(`# ${played.length - failed.length} of ${HISTORIES} histories ended equal: ${of}`);
  const promise = "a server written from docs/protocol.md alone serves real sessions";
  console.log(`proof: histories | ${promise} | ${HISTORIES} histories, ${of} | violations ${failed.length} | ${seconds} s`);
  assert.deepEqual(failed.map(({ error }) => error), []);
  assert.equal(played.length, HISTORIES, "each history came to its end");
});
