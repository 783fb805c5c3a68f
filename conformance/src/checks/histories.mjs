// Random histories.
import { check } from "../check.mjs";
import { play } from "../history/play.mjs";

export const histories = [
  check("histories.end-equal", {
    at: "rows-and-departures",
    says: "The server sends every change at or after the asked `v`.",
    hint: "Something was lost, doubled or kept. The seed repeats the choices; the timing is the machine's.",
    rule: "R9",
  }, async (kit) => {
    const { histories: count, steps, seed, run } = kit.options;
    const own = kit.org;
    for (let i = 0; i < count; i++) {
      // Each history needs an org of its own: with tokens, all of them are played in the org that the token opens.
      if (kit.options.token === undefined) kit.org = i ? `${own}-${i}` : own;
      else if (i) kit.org = kit.otherOrg;
      if (i > 1 && kit.options.token !== undefined) break;
      await play(kit, seed + i, steps, run);
    }
  }),
];
