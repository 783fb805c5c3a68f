// A server within the page: an adapter object over the engine of `escale-handler`, on a storage in memory.
import { Engine, memory, run, textOfValue, valueOfText } from "../../../../handler/src/engine/index.mjs";

const ORG = "page";
const DELTA = 10;
const CALLER = { account: "", mayWrite: true };

/** Makes `{ adapter, notes, executed }`: `executed` has the ids of the executed operations. */
export function makePageServer({ classes } = { classes: { Note: { key: ["id"] } } }) {
  // The page's own clock may be made to fail. This one moves at each look, so that a later pull brings later writes only.
  let time = 1_700_000_000_000;
  const clock = () => (time += 100 * DELTA);
  const executed = [];
  let hear = () => {};
  const engine = new Engine({ storage: memory(), schema: classes, clock, deltaMs: DELTA, writeMs: Infinity, before: ({ id }) => executed.push(id) });

  const adapter = {
    async sync(request) {
      const { session, epoch, ops, subs } = valueOfText(JSON.stringify(request));
      return JSON.parse(textOfValue(run(engine.sync(ORG, CALLER, { session, epoch, ops, subs }))));
    },
    listen(_defs, on) {
      hear = on;
      return () => {
        if (hear === on) hear = () => {};
      };
    },
  };
  return { adapter, executed, notes: () => run(engine.documents(ORG, "Note")).map(({ data }) => data.id).sort() };
}
