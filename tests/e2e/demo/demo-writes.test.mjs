// The demonstration's writes, as a visitor makes them, on a desktop and on a phone. Without a server the visitor edits,
// deletes and restores; the writes wait, and are accepted later. A write is refused, and the visitor decides.
import assert from "node:assert/strict";

import { closes, edits, foundAlone, opens } from "../support/editing.mjs";
import { byName, inSection } from "../support/packages.mjs";
import { startProxy } from "../support/proxy.mjs";
import { packagesServer } from "../support/server.mjs";
import { serveDemonstration, visit, Visitor } from "../support/visitor.mjs";

const SECTION = "games";
const followed = inSection(SECTION).sort(byName);
const COUNT = followed.length;
const alone = foundAlone(followed);
const [edited, deleted, moved, disputed, first] = [alone[3], alone[5], alone[7], alone[9], alone[11]];
const WORDS = "What a visitor wrote with no network";
const MINE = "What the visitor wrote in the air";
const THEIRS = "What somebody else wrote meanwhile";

const badge = (visitor, text) => visitor.on("pending").filter({ hasText: text }).waitFor();
const noBadge = (visitor) => visitor.on("pending").waitFor({ state: "hidden" });
const states = (visitor) => visitor.on("history").locator("li").evaluateAll((list) => list.map(({ dataset }) => dataset.state));
const past = (visitor, state) => visitor.on("history").locator(`li[data-state="${state}"]`).first().waitFor();

visit("a phone", "a visitor writes with no server, comes back, and decides about what is refused", { timeout: 120_000 }, async (t, options) => {
  const server = await packagesServer(t);
  const [proxy, site] = [await startProxy(t, server), await serveDemonstration(t)];
  const visitor = await Visitor.at(t, site.of(proxy.url), options);
  await visitor.openFirst("synced");
  await visitor.choose(`section-${SECTION}`);
  await visitor.seesFollowed(`section-${SECTION}`, COUNT);
  await visitor.sees("Live");
  await noBadge(visitor);

  // With the server: an accepted write is in the history at once, without another poll.
  await edits(visitor, first, { summary: WORDS });
  await past(visitor, "accepted");
  assert.deepEqual(await states(visitor), ["accepted"]);
  await closes(visitor);

  // No server: an edit, a move out of the list and back, a deletion and a restoration. All of it shows at once.
  await server.stop("SIGKILL");
  await visitor.sees("Offline");
  await edits(visitor, edited, { summary: WORDS });
  await visitor.on("detail-summary").filter({ hasText: WORDS }).waitFor();
  await visitor.on("detail-pill").filter({ hasText: "Waiting for the server" }).waitFor();
  await past(visitor, "waiting");
  await visitor.look("a package that waits");
  await closes(visitor);
  await badge(visitor, "1 write waiting");
  await visitor.page.locator(`[data-testid="row"][data-name="${edited.name}"]:not([hidden]) .row-pending`).waitFor();
  await opens(visitor, deleted);
  await visitor.on("delete").click();
  await visitor.on("taken").filter({ hasText: "You deleted this package" }).waitFor();
  await visitor.look("a deleted package");
  await visitor.on("restore").click();
  await visitor.on("detail-summary").filter({ hasText: deleted.summary }).waitFor();
  await closes(visitor);
  await edits(visitor, moved, { section: "fonts" });
  await visitor.on("taken").filter({ hasText: "You moved this package to fonts" }).waitFor();
  await closes(visitor);
  await visitor.seesListed(COUNT - 1);
  await badge(visitor, "4 writes waiting");

  await visitor.on("pending").click();
  const drawn = visitor.on("writes-drawer").locator(".write");
  assert.deepEqual(
    await drawn.evaluateAll((list) => list.map((row) => [row.querySelector("strong").textContent, row.querySelector(".write-package").textContent, row.dataset.state])),
    [["Edit", edited.name, "waiting"], ["Delete", deleted.name, "waiting"], ["Put back", deleted.name, "waiting"], ["Move", moved.name, "waiting"], ["Edit", first.name, "accepted"]],
  );
  await visitor.look("the writes that wait");
  await visitor.on("writes-close").click();
  await visitor.act("wipe");
  await visitor.page.locator("dialog", { hasText: "4 changes were not accepted by the server" }).waitFor();
  await visitor.look("the question before wiping what waits");
  await visitor.on("wipe-cancel").click();

  // All writes are still there after the page was closed, and are sent when the server is back.
  await visitor.page.reload();
  await visitor.open("synced");
  await badge(visitor, "4 writes waiting");
  await visitor.seesListed(COUNT - 1);
  await server.start();
  await visitor.sees("Live");
  await noBadge(visitor);
  await opens(visitor, edited);
  await visitor.on("detail-summary").filter({ hasText: WORDS }).waitFor();
  await past(visitor, "accepted");
  assert.deepEqual(await states(visitor), ["accepted"]);
  await visitor.look("what was written to a package");
  await closes(visitor);

  // Somebody else writes while the visitor writes in avion: the visitor decides.
  await visitor.on("go-avion").click();
  await visitor.sees("Avion");
  await edits(visitor, disputed, { summary: MINE });
  await visitor.on("detail-summary").filter({ hasText: MINE }).waitFor();
  await closes(visitor);
  await badge(visitor, "1 write waiting");
  await server.import("demo", "Package", [{ ...disputed, summary: THEIRS }]);
  await visitor.on("go-synced").click();
  await badge(visitor, "1 refused");
  await visitor.act("writes");
  const refused = visitor.on("refused");
  const text = await refused.textContent();
  for (const part of [disputed.name, MINE, THEIRS, "Someone else has changed the package", "version_conflict"]) {
    assert.ok(text.includes(part), `${part} is not in ${text}`);
  }
  await visitor.look("a refused write");
  await visitor.on("refused-discard").click();
  await refused.waitFor({ state: "detached" });
  await visitor.on("writes-close").click();
  await noBadge(visitor);
  await opens(visitor, disputed);
  await visitor.on("detail-summary").filter({ hasText: THEIRS }).waitFor();
  await closes(visitor);

  // The same once more, and the visitor's own write replaces theirs.
  await visitor.on("go-avion").click();
  await visitor.sees("Avion");
  await edits(visitor, disputed, { summary: MINE });
  await closes(visitor);
  await server.import("demo", "Package", [{ ...disputed, summary: `${THEIRS}, again` }]);
  await visitor.on("go-synced").click();
  await badge(visitor, "1 refused");
  await visitor.act("writes");
  await visitor.on("refused-mine").click();
  await refused.waitFor({ state: "detached" });
  await visitor.on("writes-close").click();
  await noBadge(visitor);
  await opens(visitor, disputed);
  await visitor.on("detail-summary").filter({ hasText: MINE }).waitFor();
  await closes(visitor);

  // A deletion that failed removed nothing: there is nothing to restore.
  await visitor.on("go-avion").click();
  await visitor.sees("Avion");
  await opens(visitor, disputed);
  await visitor.on("delete").click();
  await visitor.on("taken").waitFor();
  await closes(visitor);
  await server.import("demo", "Package", [{ ...disputed, summary: `${THEIRS}, and again` }]);
  await visitor.on("go-synced").click();
  await badge(visitor, "1 refused");
  await visitor.act("writes");
  await visitor.on("refused-discard").click();
  await refused.waitFor({ state: "detached" });
  const gone = visitor.on("writes-drawer").locator('.write[data-state="gone"]').first();
  assert.match(await gone.textContent(), /^Delete/);
  assert.equal(await gone.locator('[data-testid="write-restore"]').count(), 0);
  await visitor.on("writes-close").click();
  await opens(visitor, disputed);
  await visitor.on("detail-summary").filter({ hasText: `${THEIRS}, and again` }).waitFor();
  assert.deepEqual(visitor.errors, []);
});
