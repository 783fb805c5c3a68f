// The demonstration's notes on packages: items that arrive and leave live, wait with no network, and end with their
// package.
import assert from "node:assert/strict";
import { test } from "node:test";

import { foundAlone, opens } from "../support/editing.mjs";
import { byName, inSection } from "../support/packages.mjs";
import { packagesServer } from "../support/server.mjs";
import { serveDemonstration, visit, Visitor } from "../support/visitor.mjs";

const SECTION = "games";
const followed = inSection(SECTION).sort(byName);
const PACKAGE = foundAlone(followed)[4];

async function adds(visitor, text) {
  await visitor.on("note-text").fill(text);
  await visitor.on("note-add").click();
}

const note = (visitor, text, state) =>
  visitor.page.locator(`[data-testid="note"]${state ? `[data-state="${state}"]` : ""}`, { hasText: text }).waitFor();
const noNote = (visitor, text) => visitor.page.locator('[data-testid="note"]', { hasText: text }).waitFor({ state: "detached" });
const empty = (visitor) => visitor.on("notes-state").filter({ hasText: "None yet" }).waitFor();

visit("a desk", "a note arrives in another tab, waits with no server, and leaves both", { timeout: 120_000 }, async (t, options) => {
  const server = await packagesServer(t);
  const site = await serveDemonstration(t);
  const visitor = await Visitor.at(t, site.of(server.url), options);
  await visitor.openFirst("synced");
  await visitor.choose(`section-${SECTION}`);
  await visitor.seesFollowed(`section-${SECTION}`, followed.length);
  await visitor.sees("Live");
  await opens(visitor, PACKAGE);
  await empty(visitor);
  await visitor.look("a package without notes");

  const other = await visitor.another();
  await other.open("synced");
  await other.sees("Live");
  await opens(other, PACKAGE);
  await adds(visitor, "It runs on my old machine");
  await note(visitor, "It runs on my old machine", "accepted");
  await note(other, "It runs on my old machine", "accepted");

  // With no server it shows at once, in both tabs, and waits.
  await server.stop("SIGKILL");
  await visitor.sees("Offline");
  await adds(visitor, "Written on the train");
  await note(visitor, "Written on the train", "waiting");
  await note(other, "Written on the train", "waiting");
  await visitor.look("a note that waits");
  await server.start();
  await visitor.sees("Live");
  await note(visitor, "Written on the train", "accepted");
  await note(other, "Written on the train", "accepted");

  // It leaves both tabs.
  await other.page.locator('[data-testid="note"]', { hasText: "my old machine" }).getByTestId("note-delete").click();
  await noNote(visitor, "my old machine");
  await note(visitor, "Written on the train");

  // The other one is there after a reload with no server.
  await visitor.on("detail-close").click();
  await other.page.close();
  await server.stop("SIGKILL");
  await visitor.page.reload();
  await visitor.open("synced");
  await opens(visitor, PACKAGE);
  await note(visitor, "Written on the train", "accepted");
  assert.deepEqual(visitor.errors, []);
});

test("the notes of a package end with it", { timeout: 120_000 }, async (t) => {
  const server = await packagesServer(t);
  const site = await serveDemonstration(t);
  const visitor = await Visitor.at(t, site.of(server.url));
  await visitor.openFirst("synced");
  await visitor.choose(`section-${SECTION}`);
  await visitor.seesFollowed(`section-${SECTION}`, followed.length);
  await opens(visitor, PACKAGE);
  await adds(visitor, "Soon gone");
  await note(visitor, "Soon gone", "accepted");
  await visitor.on("delete").click();
  await visitor.on("taken").waitFor();
  await visitor.on("restore").click();
  await visitor.on("detail-summary").waitFor();
  await noNote(visitor, "Soon gone");
  await empty(visitor);
  assert.deepEqual(visitor.errors, []);
});
