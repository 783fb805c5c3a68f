// The demonstration's attachments: files that wait with no network, arrive in another tab and another browser, stay for
// offline, and meet a full device.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import { deflateSync, crc32 } from "node:zlib";

import { foundAlone, opens } from "../support/editing.mjs";
import { byName, inSection } from "../support/packages.mjs";
import { packagesServer } from "../support/server.mjs";
import { SCREENS, serveDemonstration, visit, Visitor } from "../support/visitor.mjs";

const SECTION = "games";
const followed = inSection(SECTION).sort(byName);
const PACKAGE = foundAlone(followed)[4];

/** A PNG of one colour. */
function picture(side) {
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const head = Buffer.alloc(4);
    head.writeUInt32BE(data.length);
    const sum = Buffer.alloc(4);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([head, body, sum]);
  };
  const size = Buffer.alloc(13);
  size.writeUInt32BE(side, 0);
  size.writeUInt32BE(side, 4);
  size.set([8, 2, 0, 0, 0], 8);
  const rows = Buffer.alloc(side * (1 + 3 * side), 90);
  for (let row = 0; row < side; row++) rows[row * (1 + 3 * side)] = 0;
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([signature, chunk("IHDR", size), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))]);
}

/** Bytes that no compression shortens and no other file shares. */
function noise(length) {
  const bytes = Buffer.alloc(length);
  let state = length;
  for (let at = 0; at < length; at += 4) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes.writeUInt32LE(state, Math.min(at, length - 4));
  }
  return bytes;
}

const PICTURE = { name: "screenshot.png", mimeType: "image/png", buffer: picture(64) };
const FILM = { name: "level one.webm", mimeType: "video/webm", buffer: noise(3 * 2 ** 20 + 17) };

const attachment = (visitor, name, state = "") =>
  visitor.page.locator(`[data-testid="attachment"]${state}`, { hasText: name });
const keeps = (visitor) => visitor.page.locator('[data-testid="attachments-keep"]:checked:enabled').waitFor();
const sees = (visitor, name, state) => attachment(visitor, name, state).waitFor();

async function opensPackage(visitor) {
  await visitor.sees("Live");
  await opens(visitor, PACKAGE);
}

async function arrives(t, site, server, options, prepare) {
  const visitor = await Visitor.at(t, site.of(server.url), options, prepare);
  await visitor.openFirst("synced");
  await visitor.choose(`section-${SECTION}`);
  await visitor.seesFollowed(`section-${SECTION}`, followed.length);
  await opensPackage(visitor);
  return visitor;
}

visit("a desk", "files wait with no server, arrive everywhere, and stay for offline", { timeout: 180_000 }, async (t, options) => {
  const server = await packagesServer(t);
  const site = await serveDemonstration(t);
  const visitor = await arrives(t, site, server, options);
  await visitor.on("attachments-state").filter({ hasText: "None yet" }).waitFor();
  await visitor.look("a package without attachments");
  const tab = await visitor.another();
  await tab.open("synced");
  await opensPackage(tab);

  // With no server they are sealed on the device, shown, and wait. The other tab shows them, too.
  await server.stop("SIGKILL");
  await visitor.sees("Offline");
  await visitor.on("attach-file").setInputFiles([PICTURE, FILM]);
  await sees(visitor, PICTURE.name, '[data-state="waiting"]');
  await sees(visitor, FILM.name, '[data-state="waiting"]');
  await attachment(visitor, PICTURE.name).getByTestId("attachment-picture").waitFor();
  await sees(tab, FILM.name, '[data-state="waiting"]');
  await visitor.look("attachments that wait");

  // They are sent, and another browser loads the picture by itself and the film on request.
  await server.start();
  await visitor.sees("Live");
  await sees(visitor, FILM.name, '[data-state="accepted"][data-phase="here"]');
  await sees(tab, PICTURE.name, '[data-state="accepted"]');
  const reader = await arrives(t, site, server, options);
  await attachment(reader, PICTURE.name).getByTestId("attachment-picture").waitFor();
  await attachment(reader, FILM.name).getByTestId("attachment-load").click();
  await sees(reader, FILM.name, '[data-phase="here"]');
  await reader.look("attachments that are here");
  const saved = reader.page.waitForEvent("download");
  await attachment(reader, FILM.name).getByTestId("attachment-save").click();
  const download = await saved;
  assert.equal(download.suggestedFilename(), FILM.name);
  const chunks = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  assert.ok(Buffer.concat(chunks).equals(FILM.buffer), "the same bytes");

  // Kept ones are there after a reload with no server.
  await reader.on("attachments-keep").check();
  await keeps(reader);
  await server.stop("SIGKILL");
  await reader.page.reload();
  await reader.open("synced");
  await reader.sees("Offline");
  await opens(reader, PACKAGE);
  await sees(reader, FILM.name, '[data-phase="here"]');
  await keeps(reader);
  await attachment(reader, PICTURE.name).getByTestId("attachment-picture").waitFor();
  assert.deepEqual([visitor.errors, tab.errors, reader.errors], [[], [], []]);
});

test("a full device says so, keeps what waits, and goes on once there is room", { timeout: 180_000 }, async (t) => {
  const server = await packagesServer(t);
  const site = await serveDemonstration(t);
  const visitor = await arrives(t, site, server);
  const long = { name: "the whole game.webm", mimeType: "video/webm", buffer: noise(24 * 2 ** 20) };
  await visitor.on("attach-file").setInputFiles([long]);
  await sees(visitor, long.name, '[data-state="accepted"]');

  // Chromium remembers for half a minute how much room there is. So the limit holds from the first opening on.
  const origin = new URL(site.origin).origin;
  let devtools;
  const limits = async (context) => {
    devtools = await context.newCDPSession(await context.newPage());
    await devtools.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: 12 * 2 ** 20 });
  };
  const reader = await arrives(t, site, server, SCREENS["a desk"], limits);
  await reader.on("attachments-keep").check();
  await sees(reader, long.name, '[data-phase="full"]');
  await attachment(reader, long.name).getByTestId("attachment-state").filter({ hasText: "no room" }).waitFor();
  await reader.look("a device that is full");

  // A note written meanwhile shows at once, and is accepted once there is room. The file goes on by itself.
  const note = reader.page.locator('[data-testid="note"]', { hasText: "on a full device" });
  await reader.on("note-text").fill("Written on a full device");
  await reader.on("note-add").click();
  await note.waitFor();
  await devtools.send("Storage.overrideQuotaForOrigin", { origin });
  await reader.page.locator('[data-testid="note"][data-state="accepted"]', { hasText: "on a full device" }).waitFor({ timeout: 60_000 });
  await attachment(reader, long.name, '[data-phase="here"]').waitFor({ timeout: 60_000 });
  assert.deepEqual(reader.errors, []);
});
