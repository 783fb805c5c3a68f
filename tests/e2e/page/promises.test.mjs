// Every promise of the package settles: random histories of two tabs in which writes
// are refused, amended and discarded, and the leading tab is killed. `ESCALE_SEED` plays one again, `ESCALE_CASES` more.
import assert from "node:assert/strict";
import { test } from "node:test";

import { startSeed } from "../../../testkit/effort.mjs";
import { randomFrom } from "../support/in-page/random.js";
import { crash, leader } from "../support/tabs.mjs";
import { openWriter, writingWorld } from "../support/writing.mjs";

const SEED = startSeed();
const HISTORIES = Number(process.env.ESCALE_CASES || 2);
const STEPS = 14;

/** Opens a session, and notes the promises that the steps of this tab make. */
async function openTab(page, session) {
  await openWriter(page, session, { classes: ["Note"] });
  await page.evaluate(() => {
    window.promises = [];
    window.follow = (what, promise) => {
      const entry = { what, state: "waits" };
      window.promises.push(entry);
      promise.then(
        () => (entry.state = "done"),
        ({ code }) => (entry.state = code),
      );
    };
    window.issue = (make) => {
      try {
        const { id, saved, accepted } = make(window.page.sessions.main.session);
        window.follow(`saved ${id}`, saved);
        window.follow(`accepted ${id}`, accepted);
      } catch (error) {
        // Another tab has decided first.
        if (error.code !== "not_found" && error.code !== "bad_option") throw error;
      }
    };
  });
}

const STEPS_OF = {
  write: (page, n) =>
    page.evaluate((id) => window.issue((session) => session.put("Note", { id, box: "b", text: "t", size: 1, code: id })), `note${n}`),
  "write what is refused": (page, n) =>
    page.evaluate((id) => window.issue((session) => session.put("Note", { id, box: "b", text: "t", size: 1, code: "taken" })), `note${n}`),
  discard: (page) =>
    page.evaluate(() => {
      window.page.sessions.main.session.refused.value[0]?.discard();
    }),
  amend: (page, n) =>
    page.evaluate((code) => {
      const [entry] = window.page.sessions.main.session.refused.value;
      if (!entry) return;
      const { class: of, data } = entry.args;
      window.issue(() => entry.amend({ class: of, data: { ...data, code } }));
    }, `code${n}`),
  read: (page, n) =>
    page.evaluate((what) => {
      const view = window.page.sessions.main.session.collection("Note", { box: "b" });
      window.follow(`ready ${what}`, view.whenReady());
      window.follow(`whenReady ${what}`, view.whenReady());
    }, n),
};
const KINDS = ["write", "write", "write what is refused", "write what is refused", "discard", "amend", "read"];

/** The tab's application discards all that is refused, until nothing is pending or refused. */
const decide = (page) =>
  page.evaluate(async () => {
    const { session } = window.page.sessions.main;
    const isOver = () => session.status.pending === 0 && session.refused.value.length === 0;
    await new Promise((resolve) => {
      const look = () => {
        for (const entry of session.refused.value) {
          try {
            entry.discard();
          } catch (error) {
            // Another tab has decided first.
            if (error.code !== "not_found") throw error;
          }
        }
        if (isOver()) resolve();
      };
      session.refused.subscribe(look);
      session.status.subscribe(look);
      look();
    });
  });

test(`every promise settles in ${HISTORIES} histories of two tabs`, { timeout: 60_000 + HISTORIES * 30_000 }, async (t) => {
  const world = await writingWorld(t);
  const { context } = world.browser;
  let pages = [world.page, await world.browser.page(world.site.url)];
  for (const page of pages) await openTab(page, world.session);
  await pages[0].evaluate(() => window.page.sessions.main.session.put("Note", { id: "first", box: "b", text: "", size: 0, code: "taken" }).accepted.then(() => {}));
  let [settled, next] = [0, 0];
  for (let seed = SEED; seed < SEED + HISTORIES; seed++) {
    console.log(`# ESCALE_SEED=${seed}`);
    const below = randomFrom(seed);
    const killed = below(STEPS);
    for (let step = 0; step < STEPS; step++) {
      if (step === killed) {
        const lead = await leader(pages);
        await crash(context, lead);
        await lead.close();
        const page = await world.browser.page(world.site.url);
        await openTab(page, world.session);
        pages = [...pages.filter((one) => one !== lead), page];
      }
      await STEPS_OF[KINDS[below(KINDS.length)]](pages[below(2)], next++);
    }
    // No promise waits for somebody to decide.
    for (const page of pages) {
      const isOver = () => window.promises.every(({ state }) => state !== "waits");
      await page.waitForFunction(isOver).catch(async () => {
        const left = await page.evaluate(() => [window.promises.filter(({ state }) => state === "waits"), window.page.sessions.main.log.slice(-2)]);
        assert.fail(`seed ${seed}: ${JSON.stringify(left)}`);
      });
      const all = await page.evaluate(() => window.promises.splice(0));
      settled += all.length;
      const known = all.filter(({ state }) => !["done", "not_unique", "not_found"].includes(state));
      assert.deepEqual(known, [], "each ends as the server and the applications decided");
    }
    await Promise.all(pages.map(decide));
  }
  assert.ok(settled > 0);
  console.log(`proof: promises | every promise of two tabs settles | ${settled} promises, ${HISTORIES} leaders killed | violations 0`);
});
