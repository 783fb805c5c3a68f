// One transaction after another, for a storage with one connection.
import { isPromise } from "../engine/run.mjs";

/**
 * Makes a function that runs calls in turn. A call runs at once, and its result is returned, if none is running. A call
 * whose result is a promise runs until that is settled.
 */
export function inTurns() {
  let last;
  return (call) => {
    const result = last === undefined ? call() : last.then(call);
    if (!isPromise(result)) return result;
    const end = () => {
      if (last === mine) last = undefined;
    };
    const mine = result.then(end, end);
    last = mine;
    return result;
  };
}
