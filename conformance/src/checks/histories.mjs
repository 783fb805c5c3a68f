// Random histories.
import { check } from "../check.mjs";
import { History } from "../history/play.mjs";
import { WORLDS } from "../history/worlds.mjs";

const says = "The server sends every change at or after the asked `v`.";
const at = "rows-and-departures";

/** The org of a history. With tokens there are two, those that the token opens. */
function orgOf(kit, i) {
  if (kit.options.token === undefined) return i ? `${kit.org}-${i}` : kit.org;
  return [kit.org, kit.otherOrg][i];
}

/** Plays histories, each in an org of its own, of these worlds by turns. */
async function playAll(kit, count, worlds, act) {
  const { seed, steps, without } = kit.options;
  const able = worlds.map((name) => WORLDS[name]).filter(({ parts }) => !parts.some((part) => without.includes(part)));
  for (let i = 0; i < count; i++) {
    const org = orgOf(kit, i);
    if (org === undefined) break;
    const history = new History(kit, { org, seed: seed + i, world: able[i % able.length] });
    await history.begin();
    await act(history, steps);
    await history.end();
  }
}

export const histories = [
  check("histories.end-equal", {
    at,
    says,
    hint: "Something was lost, doubled or kept. The seed repeats the choices; the timing is the machine's.",
    rule: "R9",
  }, (kit) => playAll(kit, kit.options.histories, ["notes"], (history, steps) => history.play(steps))),
  check("histories.of-items", {
    at: "items",
    says: "If a write deletes a parent, all items end with it.",
    hint: "An item was kept over the end of its parent, or was lost after it. The seed repeats the choices.",
    rule: "R17",
    parts: ["items"],
  }, (kit) => playAll(kit, kit.options.histories, ["items"], (history, steps) => history.play(steps))),
  check("histories.of-numbers", {
    at: "numbers",
    says: "The collection's new `v` is `first`. `now` and `delta` do not count for it.",
    hint: "A change had a number that a session already knew, or was not above it. The seed repeats the choices.",
    rule: "R21",
    parts: ["items", "numbers"],
  }, (kit) => playAll(kit, kit.options.histories, ["numbers"], (history, steps) => history.play(steps))),
  check("histories.through-restarts", {
    at,
    says,
    hint: "The state after a restart is the state before it. With --purge, sessions from before the horizon need present.",
    rule: "R9",
    needs: ["restart"],
    isAlone: true,
  }, (kit) => playAll(kit, 3, ["notes", "numbers", "items"], async (history, steps) => {
    const third = Math.ceil(steps / 3);
    await history.play(third);
    await kit.hooks.restart();
    await history.play(third);
    if (kit.hooks.purge) {
      await history.settle();
      await kit.purge(history.reader);
    }
    await history.play(third);
  })),
  check("histories.through-a-restored-backup", {
    at: "the-epoch",
    says: "Sessions drop replies of an earlier epoch. In a later epoch they load everything again.",
    hint: "Nothing of the lost epoch is left, neither documents nor numbers nor ids.",
    rule: "R8",
    needs: ["backup", "restore"],
    isAlone: true,
  }, (kit) => playAll(kit, 1, ["notes"], async (history, steps) => {
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
