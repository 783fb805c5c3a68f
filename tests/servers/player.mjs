// Plays histories for tests/e2e/server/second-server.test.mjs, which starts it: `player.mjs SEED HISTORIES`. It reports to its
// parent how each one ended.
import { play } from "./play.mjs";

const [first, histories] = process.argv.slice(2).map(Number);
const tell = (message) => new Promise((resolve) => process.send(message, resolve));

for (let seed = first; seed < first + histories; seed++) {
  const began = Date.now();
  try {
    const counts = await play(seed);
    await tell({ seed, counts, tookMs: Date.now() - began });
  } catch (error) {
    await tell({ seed, error: error.message, tookMs: Date.now() - began });
  }
}
process.disconnect();
