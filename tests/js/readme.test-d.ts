// The example of README.md and js/README.md, checked by `tsc` against the finished package, never run. The two hold
// the lines below `README:` word for word; the tests of `tests/tidy` compare them.
declare const passphrase: string;
declare function render(docs: readonly { name: string; size?: number | undefined }[], isWhole: boolean): void;
declare function show(...what: unknown[]): void;

// README:
import { defineSchema, EscaleError, open, wipe } from "escale";
import { advice } from "escale/advice";

const schema = defineSchema({
  Package: {
    key: ["name"],
    collections: {
      section: { key: ["section"], mutable: true },
      tags: { key: ["tags"], list: true, mutable: true },
    },
    indexes: { size: "integer" },
  },
});

// Opens the data stored on the device; never waits for the network.
const session = await open({ org: "demo", schema, server: "http://localhost:7700", passphrase });

// Subscribes. Calls back with the documents on the device, then at every change. `docs` are typed by the schema.
const stop = session.live("Package", { section: "games" }, (docs, { ready }) => render(docs, ready));

// The same as an object: frozen documents, ascending by key, the same objects until their version changes. It subscribes
// once somebody listens or waits; `{ keep: "forever" }` subscribes at once, and for good.
const viewers = session.collection("Package", { tags: "use::viewing" });
await viewers.whenReady(); // it has been loaded completely at least once, in this session or in an earlier one
show(viewers.docs.length, viewers.ready);
await viewers.whenReady({ signal: AbortSignal.timeout(5_000), offline: "reject" }); // the same, with an end

// Questions about the documents on the device.
show(await session.get("Package", ["0ad"]));
show(await session.query("Package").where("size", ">=", 10_000_000).docs());

// The ten largest, and again whenever these change. Indexes in memory answer it.
session.query("Package").orderBy("size", "desc").limit(10).live((largest) => show(largest));

// Writes: shown at once, saved on the device, then executed by the server at most once; the network can come later.
const edit = session.patch("Package", ["0ad"], { summary: "A game of ancient warfare" });
await edit.saved; // in the sealed journal: it survives a crash from here on
edit.accepted.then(({ v }) => show(v), (error) => show(advice(error))); // nobody needs to wait for this
session.put("Package", { name: "1ad", section: "games" });
session.delete("Package", ["0ad"], { ifVersion: edit });
session.refused.subscribe((refused) => refused.forEach(({ error, discard }) => show(advice(error), discard)));

// The state of the session and of the device. `updates` says whether changes are pushed, or polled every 30 s.
session.status.subscribe(({ phase, updates, pending, storage, error }) => show(phase, updates, pending, storage, error && advice(error)));

await session.flush(); // all loaded documents are on the device: it opens with no network from now on
show(await session.requestPersistence()); // asks the browser to keep it: granted, denied or unsupported
await session.setMode("avion"); // no network call from here on
await session.setMode("synced"); // asks for the changes only

stop(); // ends the callback; the subscription stays for 30 days, or as `keep` says, across openings too
session.unsubscribe("Package", { section: "games" }); // ends it now, and frees the documents that only it held

try {
  await session.changePassphrase(passphrase, "another one"); // wraps the key again, encrypts no document again
} catch (error) {
  if (error instanceof EscaleError && error.code === "wrong_passphrase") show(advice(error));
}
await session.lock(); // forgets keys and memory, in every tab; `session.wipe()` deletes the store as well, unless that loses writes
show(session.status.reason); // "locked", in every tab; null as long as the session is open
await wipe({ org: "demo" }); // deletes the store without opening it: for a forgotten passphrase or a damaged store
