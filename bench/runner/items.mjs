// The figures of items. The peers' pages write for themselves; Escale's page hears of the changes from the reference
// server, on which the runner makes them.
import { makeServer } from "../../tests/e2e/support/server.mjs";
import { documentAt, NOTE } from "../page/data.js";
import { ask, inBrowser, withProfile } from "./measure.mjs";
import { Run } from "./live.mjs";

const ORG = "bench";
const SCHEMA = { Note: { key: ["id"] }, Doc: { in: "Note", key: ["note", "id"] } };

/** A server with the note and its items. */
async function servedItems(run, count) {
  const server = await makeServer(run, { schema: SCHEMA });
  await server.import(ORG, "Note", [{ id: NOTE }]);
  await server.import(ORG, "Doc", Array.from({ length: count }, (_, index) => documentAt(index, count)));
  await server.start();
  await server.whenSettled(ORG);
  return server;
}

/** Writes as another session. Gives the milliseconds of each request. */
class Writer {
  #seq = 0;
  constructor(server) {
    this.server = server;
  }
  async run(name, args) {
    this.#seq += 1;
    const op = { id: `w${this.#seq}`, seq: this.#seq, name, args, at: Date.now() };
    const body = JSON.stringify({ p: 1, session: "writer", ops: [op], subs: [] });
    const start = performance.now();
    const response = await fetch(`${this.server.url}/${ORG}/sync`, { method: "POST", headers: { "content-type": "application/json" }, body });
    const reply = await response.json();
    const ms = performance.now() - start;
    if (!reply.results?.[0]?.ok) throw new Error(`the server refused ${name}: ${JSON.stringify(reply)}`);
    return ms;
  }
  put(documents) {
    return this.run("batch", { ops: documents.map((data) => ({ name: "doc.put", args: { class: "Doc", data } })) });
  }
  end(note) {
    return this.run("doc.delete", { class: "Note", key: [note] });
  }
}

/** Every figure of items of a system: milliseconds, records and bytes. */
export async function measureItems(system, set, count, site) {
  const run = new Run();
  try {
    const server = system.isServed ? await servedItems(run, count) : undefined;
    const writer = server && new Writer(server);
    const figures = {};
    await withProfile(async (profile) => {
      const url = `${site.url}?system=${system.id}&set=${set}${server ? `&server=${server.url}` : ""}`;
      await inBrowser(profile, url, async (page) => {
        await ask(page, "arrive", count);
        await ask(page, "close");
      });
      await inBrowser(profile, url, async (page) => {
        if (writer) {
          await page.exposeFunction("putOnServer", (documents) => writer.put(documents));
          await page.exposeFunction("endOnServer", async (note) => {
            figures.request = await writer.end(note);
          });
        }
        await ask(page, "listItems", count);
        Object.assign(figures, await ask(page, "ten", count), await ask(page, "end", count));
        await ask(page, "close");
      });
    });
    return figures;
  } finally {
    await run.end();
  }
}
