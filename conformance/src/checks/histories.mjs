// Random histories.
import { check } from "../check.mjs";
import { History } from "../history/play.mjs";

const says = "The server sends every change at or after the asked `v`.";
const at = "rows-and-departures";

/** The org of a history. With tokens there are two, those that the token opens. */
function orgOf(kit, i) {
  if (kit.options.token === undefined) return i ? `${kit.org}-${i}` : kit.org;
  return [kit.org, kit.otherOrg][i];
}

/** Plays histories, each in an org of its own. */
async function playAll(kit, count, act) {
  const { seed, steps } = kit.options;
  for (let i = 0; i < count; i++) {
    const org = orgOf(kit, i);
    if (org === undefined) break;
    const history = new History(kit, { org, seed: seed + i });
    await history.begin();
    await act(history, steps);
    await history.end();
  }
}

/** A server keeps tombstones for far longer than `delta`: the purge waits until each write is as old as that. */
async function purge(kit, history) {
  await history.settle();
  const { reply } = await history.reader.sync({});
  await kit.wait(reply.delta + 200);
  await kit.hooks.purge();
}

export const histories = [
  check("histories.end-equal", {
    at,
    says,
    hint: "Something was lost, doubled or kept. The seed repeats the choices; the timing is the machine's.",
    rule: "R9",
  }, (kit) => playAll(kit, kit.options.histories, (history, steps) => history.play(steps))),
  check("histories.through-restarts", {
    at,
    says,
    hint: "The state after a restart is the state before it. With --purge, sessions from before the horizon need present.",
    rule: "R9",
    needs: ["restart"],
    isAlone: true,
  }, (kit) => playAll(kit, 2, async (history, steps) => {
    const third = Math.ceil(steps / 3);
    await history.play(third);
    await kit.hooks.restart();
    await history.play(third);
    if (kit.hooks.purge) await purge(kit, history);
    await history.play(third);
  })),
  check("histories.through-a-restored-backup", {
    at: "the-epoch",
    says: "Sessions drop replies of an earlier epoch. In a later epoch they load everything again.",
    hint: "Nothing of the lost epoch is left, neither documents nor numbers nor ids.",
    rule: "R8",
    needs: ["backup", "restore"],
    isAlone: true,
  }, (kit) => playAll(kit, 1, async (history, steps) => {
    const half = Math.ceil(steps / 2);
    await history.play(half);
    await history.settle();
    const kept = history.copy();
    await kit.hooks.backup();
    await history.play(half);
    await kit.hooks.restore();
    history.restored(kept);
    await history.play(half);
  })),
];
