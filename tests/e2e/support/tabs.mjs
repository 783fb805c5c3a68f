// Several tabs of one browser, each with a session on the same store.
import { openWriter } from "./writing.mjs";

/** Opens `count` tabs, each with a session called `main`; `prepare` runs in each page before. */
export async function openTabs(world, count, prepare) {
  const pages = [];
  for (let n = 0; n < count; n++) {
    const page = n === 0 ? world.page : await world.browser.page(world.site.url);
    if (prepare) await page.evaluate(prepare);
    await openWriter(page, world.session, { classes: ["Counter"] });
    pages.push(page);
  }
  return pages;
}

/** Adds 1 to each of these counters from a tab. Resolves once that is saved; `window.accepted` reports the rest. */
export function add(page, ids) {
  return page.evaluate(async (list) => {
    const { session } = window.page.sessions.main;
    const writes = list.map((id) => session.run("counter.add", { key: [id], by: 1 }));
    window.accepted = Promise.all(writes.map(({ accepted }) => accepted)).then(() => true);
    await Promise.all(writes.map(({ saved }) => saved));
  }, ids);
}

export const accepted = (page) => page.evaluate(() => window.accepted);

/** Resolves once a tab shows these counters. */
export function counters(page, wanted) {
  return page.evaluate((counts) => {
    const shows = (docs) => Object.entries(counts).every(([id, n]) => docs.find((doc) => doc.id === id)?.n === n);
    return window.page.whenDocs("main", "Counter", {}, shows).then(() => {});
  }, wanted);
}

/** Resolves once a tab's session is in that phase. */
export function inPhase(page, phase) {
  return page.evaluate((wanted) => window.page.whenStatus("main", (status) => status.phase === wanted).then(() => {}), phase);
}

/** The leading tab, once there is one. */
export async function leader(pages) {
  return Promise.any(
    pages.map(async (page) => {
      await page.evaluate(() => window.page.whenStatus("main", ({ leads }) => leads).then(() => {}));
      return page;
    }),
  );
}

/**
 * Stops the scripts of a tab between two tasks, as a browser does when it freezes the tab. Returns a function that lets
 * them go on.
 */
export async function freeze(context, page) {
  const { frozen, thaw } = await freezeWhere(context, page, (debug) => void setTimeout(debug, 0));
  await frozen;
  return thaw;
}

/**
 * Stops the scripts of a tab at a point that `prepare` chooses: it runs in the tab, and receives the function that
 * stops the scripts. `frozen` resolves once they are stopped; `thaw` lets them go on.
 */
export async function freezeWhere(context, page, prepare) {
  const cdp = await context.newCDPSession(page);
  await cdp.send("Debugger.enable");
  const frozen = new Promise((resolve) => cdp.once("Debugger.paused", () => resolve()));
  await page.evaluate(`(${prepare})(new Function("debugger"))`);
  const thaw = async () => {
    await cdp.send("Debugger.resume");
    await cdp.detach();
  };
  return { frozen, thaw };
}

/** Kills a tab's process. */
export async function crash(context, page) {
  const cdp = await context.newCDPSession(page);
  const crashed = new Promise((resolve) => page.once("crash", resolve));
  // Nobody is left to answer.
  cdp.send("Page.crash").catch(() => {});
  await crashed;
}
