// The end of docs/server.md: two instances on PostgreSQL behind nginx serve the demonstration, also while one of them
// stops or is killed. scripts/fresh-machine has made the machine, and runs this.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";

import { closes, edits, finds, foundAlone } from "../support/editing.mjs";
import { inSection } from "../support/packages.mjs";
import { SCREENS, serveDemonstration, Visitor } from "../support/visitor.mjs";

const { MACHINE_PID, MACHINE_TOKEN } = process.env;
const SECTION = "games";
const ALONE = foundAlone(inSection(SECTION));

const run = promisify(execFile);
/** A command on the machine. */
const on = (...command) => run("nsenter", ["--target", MACHINE_PID, "--all", "--", ...command]);

async function enters(t, site, screen) {
  const visitor = await Visitor.at(t, site.of("http://localhost:7700"), screen);
  await visitor.page.locator("details.advanced summary").click();
  await visitor.on("token").fill(MACHINE_TOKEN);
  await visitor.openFirst("synced");
  await visitor.choose(`section-${SECTION}`);
  await visitor.seesFollowed(`section-${SECTION}`, inSection(SECTION).length);
  await visitor.sees("Live");
  return visitor;
}

async function writes(visitor, document, summary) {
  await edits(visitor, document, { summary });
  await visitor.on("pending").waitFor({ state: "hidden" });
  await closes(visitor);
}

async function reads(visitor, document, summary) {
  await (await finds(visitor, document)).filter({ hasText: summary }).waitFor();
  await visitor.on("filter").fill("");
}

test("two people use the demonstration while instances stop, are killed and come back", { timeout: 240_000 }, async (t) => {
  const site = await serveDemonstration(t);
  const [ada, grace] = [await enters(t, site, SCREENS["a desk"]), await enters(t, site, SCREENS["a desk"])];
  const passes = async (at, words) => {
    await writes(ada, ALONE[at], words);
    await reads(grace, ALONE[at], words);
  };
  await passes(0, "With both instances");
  await on("systemctl", "stop", "escale-server@7710");
  await passes(1, "With the second instance alone");
  await on("systemctl", "start", "escale-server@7710");
  await on("systemctl", "kill", "--signal=KILL", "escale-server@7720");
  await passes(2, "After a kill");
  await on("systemctl", "restart", "postgresql");
  await passes(3, "After a restart of the database");
  assert.deepEqual([...ada.errors, ...grace.errors], []);
  // The site key seals documents: a word of a visitor is in no file of the database.
  const { stdout } = await on("bash", "-c", "systemctl stop postgresql; grep -rl 'After a kill' /var/lib/postgresql /var/lib/escale || true");
  assert.equal(stdout, "");
});
