// The application that each tool builds: it lists the server's notes, writes one, and reads both from the device.
import { defineSchema, open } from "escale";

import { makePageServer } from "./page-server.js";

const org = "bundlers";
const schema = defineSchema({ Note: { key: ["id"], properties: { id: "string" } } });
const key = new Uint8Array(32).fill(7);

async function ids(session) {
  const notes = session.collection("Note", {});
  await notes.whenReady();
  return notes.docs.map(({ id }) => id);
}

/** A first visit. Without a device, as on a server, `mode` is `incognito`. */
export async function first(mode = "synced") {
  const { adapter: server } = makePageServer();
  const other = await open({ org, schema, server, mode: "incognito" });
  await other.put("Note", { id: "theirs" }).accepted;
  await other.close();
  const session = await open({ org, schema, server, mode, ...(mode === "synced" && { key }) });
  const listed = await ids(session);
  const write = session.put("Note", { id: "ours" });
  const saved = await write.saved;
  await write.accepted;
  await session.flush();
  await session.close();
  return { listed, saved };
}

/** A later visit, with no network: the notes are read from the device. */
export async function again() {
  const session = await open({ org, schema, mode: "avion", key });
  const listed = await ids(session);
  await session.close();
  return { listed };
}
