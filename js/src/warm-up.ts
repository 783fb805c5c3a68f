import { wasm } from "./package.js";
import { warmUpWith } from "./warm-up-with.js";

let running: Promise<boolean> | undefined;

/**
 * Has the browser compile what opening a session runs, in a worker, before it is opened: browsers compile each function of
 * a wasm when it is first called, which is a large part of what a first opening costs. Worth it where the page has something
 * else to do first, such as asking for a passphrase; where a session is opened at once, it is not.
 *
 *     import { warmUp } from "escale/warm-up";
 *     void warmUp();
 *
 * The worker loads this package again, opens a session on an org of its own, with two documents that stand in its code,
 * and deletes what rests of it. Resolves with whether it came to its end; never fails: where there are no workers, or the
 * page's policy forbids them (`worker-src`), sessions open as they do without. Called again, it does nothing more.
 */
export function warmUp(): Promise<boolean> {
  // Bundlers know this form: they make a script of that file and put its address here.
  running ??= warmUpWith(wasm, () => new Worker(new URL("./warm-up-worker.js", import.meta.url), { type: "module" }));
  return running;
}
