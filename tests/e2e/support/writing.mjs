// Shared by the tests of writes: a server with an application-defined operation, a schema for each way to write, and a
// page.
import { openBrowser, visit } from "./browser.mjs";
import { COUNTER_SERVER } from "./paths.mjs";
import { startProxy } from "./proxy.mjs";
import { makeServer } from "./server.mjs";
import { startSite } from "./site.mjs";

const versioned = { key: ["id"], properties: { a: "number", b: "number" } };

export const writingSchema = {
  Counter: { key: ["id"], properties: { n: "number" } },
  Note: {
    key: ["id"],
    collections: { box: { key: ["box"], mutable: true } },
    indexes: { size: "integer", code: { type: "hash", unique: true } },
    properties: { box: "string", text: "string", size: "number", code: "string" },
  },
  Asked: versioned,
  Kept: versioned,
  Mine: versioned,
  Merged: versioned,
  Settled: versioned,
  First: { key: ["id"] },
};

/** A started server, whose org exists: a document was written to it. */
export async function writingServer(t) {
  const server = await makeServer(t, { schema: writingSchema, program: COUNTER_SERVER });
  await server.import("demo", "First", [{ id: "first" }]);
  return server.start();
}

/**
 * A server, a proxy in front of it, a site and a page of a browser; `restart` ends the page's sessions as a reload
 * does.
 */
export async function writingWorld(t) {
  const server = await writingServer(t);
  const [proxy, site, browser] = [await startProxy(t, server), await startSite(t), await openBrowser(t)];
  const page = await browser.page(site.url);
  const session = { org: "demo", schema: writingSchema, server: proxy.url };
  return { server, proxy, site, browser, page, session, restart: () => visit(page, site.url) };
}

/**
 * Opens a session of the page, and waits until all of these classes are there; offline, until their stored documents
 * are.
 */
export async function openWriter(page, session, { name = "main", classes = ["Counter", "Note"], offline = false } = {}) {
  await page.evaluate(
    async ([options, called, subscribed, isOffline]) => {
      const { openWriting, loaded, sessions, whenStatus } = window.page;
      await openWriting(called, options);
      for (const one of subscribed) sessions[called].session.live(one, {}, () => {});
      if (isOffline) return;
      await Promise.all(subscribed.map((one) => loaded(called, one, {})));
      await whenStatus(called, ({ phase }) => phase === "live");
    },
    [session, name, classes, offline],
  );
}

/** The server's documents of a class, read by an independent session. */
export function onServer(page, session, className) {
  return page.evaluate(
    async ([options, one]) => {
      const { open, defineSchema } = window.page;
      const reader = await open({ ...options, schema: defineSchema(options.schema), mode: "incognito" });
      const docs = await reader.collection(one, {}).whenReady();
      await reader.close();
      return docs;
    },
    [{ ...session, passphrase: undefined, key: undefined }, className],
  );
}
