// Code that TypeScript must accept or refuse; checked by `tsc`, never run.
import {
  type Accepted,
  defineOperations,
  defineSchema,
  type Document,
  type ErrorCode,
  open,
  type Operation,
  type Query,
  type Session,
  type Value,
  wipe,
} from "../../js/src/index.js";
import { advice, type AdviceTable } from "../../js/src/advice.js";
import type { Files } from "../../js/src/files/types.js";
import type { FileRef } from "../../js/src/session/files.js";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function isTrue<T extends true>(): T | void {}

const schema = defineSchema(
  {
    Package: {
      key: ["name"],
      release: 2,
      collections: {
        section: { key: ["section"], mutable: true },
        tags: { key: ["tags"], list: true, mutable: true },
      },
      indexes: { size: "integer", heavy: { type: "number", property: "weight" }, sha256: { type: "hash", unique: true } },
    },
    Point: {
      key: ["x", "y"],
      collections: { place: { key: ["country", "city"] } },
      indexes: { label: "string", words: "string[]", seen: "boolean" },
      properties: { label: "string", photo: "bytes", marks: { type: "number[]", maxItems: 3 }, rest: "any", city: "string" },
    },
    Task: {
      key: ["id"],
      indexes: { at: "integer" },
      properties: { title: { type: "string", maxLength: 80 }, state: { type: "string", enum: ["open", "done"] }, text: "string" },
      required: ["title", "state", "at"],
      additionalProperties: false,
    },
    Note: { in: "Point", key: ["px", "py", "n"], indexes: { at: "integer" } },
    Scan: { in: "Package", key: ["package"], raw: true },
  },
  { migrate: { Package: { 2: (data) => ({ ...data, size: Number(data["size"]) }) } } },
);

declare const session: Session<(typeof schema)["classes"]>;
type Package = Document<typeof schema, "Package">;
type Point = Document<typeof schema, "Point">;

// Documents: keys, collections, indexes and declared properties.
declare const one: Package;
isTrue<Same<typeof one.name, string>>();
isTrue<Same<typeof one.section, string | undefined>>();
isTrue<Same<typeof one.tags, readonly string[] | undefined>>();
isTrue<Same<typeof one.size, number | undefined>>();
isTrue<Same<typeof one.weight, number | undefined>>();
isTrue<Same<typeof one.sha256, string | undefined>>();
isTrue<Same<(typeof one)["summary"], Value | undefined>>();
isTrue<
  Same<
    Point,
    {
      readonly x: string;
      readonly y: string;
      readonly country?: string | undefined;
      readonly city?: string | undefined;
      readonly words?: readonly string[] | undefined;
      readonly label?: string | undefined;
      readonly seen?: boolean | undefined;
      readonly photo?: Uint8Array | undefined;
      readonly marks?: readonly number[] | undefined;
      readonly rest?: Value | undefined;
    }
  >
>();
// Those that are required are there, and an enum is the union of its values.
declare const task: Document<typeof schema, "Task">;
isTrue<Same<typeof task.title, string>>();
isTrue<Same<typeof task.state, "open" | "done">>();
isTrue<Same<typeof task.at, number>>();
isTrue<Same<typeof task.text, string | undefined>>();
session.put("Task", { id: "1", title: "Milk", state: "open", at: 1 });
session.patch("Task", ["1"], { state: "done" });
// @ts-expect-error the title is missing
session.put("Task", { id: "1", state: "open", at: 1 });
session.patch("Task", ["1"], { text: undefined });
// @ts-expect-error nobody can take it away
session.patch("Task", ["1"], { title: undefined });
session.patch("Task", ["1"], {}, { unset: ["text"] });
// @ts-expect-error nor here
session.patch("Task", ["1"], {}, { unset: ["title"] });
// @ts-expect-error none of the values
session.patch("Task", ["1"], { state: "late" });
// @ts-expect-error documents are frozen
one.name = "x";
declare const point: Point;
// @ts-expect-error `properties` names them all
void point.other;

// Sessions.
session.live("Package", {}, (docs, { ready }) => [docs[0]?.name satisfies string | undefined, ready satisfies boolean]);
session.live("Package", { section: "games" }, (docs: readonly Package[]) => docs);
session.live("Package", { key: ["0ad"] }, () => {});
session.live("Point", { country: "fr", city: "Lyon" }, (docs) => docs[0]?.marks satisfies readonly number[] | undefined);
session.live("Point", { key: ["1", "2"] }, () => {});
// @ts-expect-error no such class
session.live("Pakage", {}, () => {});
// @ts-expect-error no such collection
session.live("Package", { sectoin: "games" }, () => {});
// @ts-expect-error values are strings
session.live("Package", { section: 1 }, () => {});
// @ts-expect-error both key properties are needed
session.live("Point", { key: ["1"] }, () => {});
// @ts-expect-error both properties of the collection are needed
session.live("Point", { country: "fr" }, () => {});

isTrue<Same<Awaited<ReturnType<typeof session.get<"Package">>>, Package | undefined>>();
session.collection("Package", { tags: "x" }).docs satisfies readonly Package[];
void session.collection("Package", {}).whenReady().then((docs: readonly Package[]) => docs);
session.unsubscribe("Package", { section: "games" });
session.unsubscribe("Package/section@BTziUq_SSySPM1Z0dmeokg");

// Queries.
isTrue<Same<ReturnType<typeof session.query<"Point">>, Query<(typeof schema)["classes"]["Point"]>>>();
session.query("Package").where("size", ">=", 5).where("heavy", "<", 1.5).where("sha256", "==", "x");
session.query("Point").where("words", "contains", "x").where("label", "<", "m");
session.query("Point").where("label", "in", ["a"]).where("label", "startsWith", "a").orderBy("label", "desc").limit(5);
session.query("Package").orderBy("key").in({ section: "games" });
void session.query("Package").first().then((found: Package | undefined) => found);
session.query("Package").orderBy("size").live((docs: readonly Package[]) => docs) satisfies () => void;
session.query("Point").where("seen", "==", true).orderBy("seen");
// @ts-expect-error a boolean is only equal or not
session.query("Point").where("seen", "<", true);
// @ts-expect-error a bool compares with a boolean
session.query("Point").where("seen", "==", "true");
// @ts-expect-error `in` takes a list
session.query("Package").where("sha256", "in", "x");
// @ts-expect-error no such collection
session.query("Package").in({ sectoin: "games" });
// @ts-expect-error no such index
session.query("Package").orderBy("summary");
// @ts-expect-error no such index
session.query("Package").where("summary", "==", "x");
// @ts-expect-error a hash has no order
session.query("Package").where("sha256", "<", "x");
// @ts-expect-error an int compares with a number
session.query("Package").where("size", "==", "5");

// Schemas.
// @ts-expect-error a misspelt word
defineSchema({ A: { key: ["x"], colections: {} } });
// @ts-expect-error an import of JSON has lost the names: `npx escale schema types` keeps them
defineSchema({ A: { key: ["x"] as string[] } });
// @ts-expect-error a key is not empty
defineSchema({ A: { key: [] } });
// @ts-expect-error no such type of index
defineSchema({ A: { key: ["x"], indexes: { i: "date" } } });
// @ts-expect-error a migration of a class that is not there
defineSchema({ A: { key: ["x"], release: 2 } }, { migrate: { B: { 2: (data: Record<string, unknown>) => data } } });

// Opening: the session knows its schema; the token and the server take each of their forms.
const opened = await open({ org: "demo", schema, server: "http://localhost:7700", passphrase: "x" });
isTrue<Same<typeof opened, typeof session>>();
void open({ org: "demo", schema, mode: "incognito", server: { sync: async (request) => request } });
void open({ org: "demo", schema, mode: "avion", key: new Uint8Array(32), token: ({ refused }) => (refused ? undefined : "x") });
// @ts-expect-error no such mode
void open({ org: "demo", schema, mode: "plane" });
// @ts-expect-error an org is needed
void open({ schema, server: "http://localhost:7700" });

// Writes: a put needs the key, a patch anything; values are those of the schema.
isTrue<Same<ReturnType<typeof session.put<"Package">>, Operation>>();
isTrue<Same<Awaited<Operation["accepted"]>, Accepted>>();
session.put("Package", { name: "0ad" });
session.put("Package", { name: "0ad", section: "games", tags: ["x"], size: 5, summary: "any", more: [null, { a: 1 }] });
session.put("Point", { x: "1", y: "2", photo: new Uint8Array() });
session.patch("Package", ["0ad"], { summary: "x", section: undefined }, { unset: ["size", "anything"] });
session.patch("Point", ["1", "2"], { label: undefined, marks: [1] }, { unset: ["photo"], ifVersion: 0 });
session.delete("Package", ["0ad"], { ifVersion: session.put("Package", { name: "0ad" }), after: "an id" });
session.delete("Package", ["0ad"], { ifVersion: { op: "an id" }, after: [session.delete("Package", ["x"]), "y"] });
declare const several: readonly Package[];
for (const doc of several) session.put("Package", { ...doc, section: "games" });
// @ts-expect-error the key is needed
session.put("Package", { section: "games" });
// @ts-expect-error a size is a number
session.put("Package", { name: "0ad", size: "5" });
// @ts-expect-error a date is no value
session.put("Package", { name: "0ad", since: new Date() });
// @ts-expect-error `properties` names them all
session.put("Point", { x: "1", y: "2", lable: "x" });
// @ts-expect-error no such class
session.patch("Pakage", ["0ad"], {});
// @ts-expect-error both key properties are needed
session.patch("Point", ["1"], {});
// @ts-expect-error marks are numbers
session.patch("Point", ["1", "2"], { marks: ["1"] });
// @ts-expect-error a key property stays
session.patch("Point", ["1", "2"], {}, { unset: ["x"] });
// @ts-expect-error no such option
session.delete("Package", ["0ad"], { unless: 5 });

// Operations: names and arguments follow from the declaration; others are taken as they come.
const operations = defineOperations(schema, {
  "package.grow": {
    optimistic(tx, { name, by }: { name: string; by: number }) {
      const found = tx.get("Package", [name]);
      isTrue<Same<typeof found, Package | undefined>>();
      if (found) tx.patch("Package", [name], { size: (found.size ?? 0) + by });
      tx.put("Point", { x: "1", y: "2" });
      // @ts-expect-error no such class
      tx.delete("Pakage", [name]);
    },
  },
  "package.check": {},
});
const working = await open({ org: "demo", schema, server: "http://localhost:7700", passphrase: "x", operations });
working.run("package.grow", { name: "0ad", by: 1 });
working.run("package.check", { anything: [1, null] }, { touches: [["Package", ["0ad"]], ["Point", ["1", "2"]]] });
working.run("another", { photo: new Uint8Array() });
session.run("another", {});
// @ts-expect-error by is a number
working.run("package.grow", { name: "0ad", by: "1" });
// @ts-expect-error by is needed
working.run("package.grow", { name: "0ad" });
// @ts-expect-error a date is no value
session.run("another", { at: new Date() });
// @ts-expect-error no such class
session.run("another", {}, { touches: [["Pakage", ["0ad"]]] });
working.batch((tx) => {
  tx.put("Package", { name: "0ad", size: 1 });
  tx.patch("Package", ["0ad"], { summary: "x" }, { unset: ["size"], ifVersion: 5 });
  tx.run("package.grow", { name: "0ad", by: 1 });
  // @ts-expect-error the order is the batch's own
  tx.delete("Package", ["0ad"], { after: "x" });
  // @ts-expect-error by is a number
  tx.run("package.grow", { name: "0ad", by: "1" });
});

// Declared where the session is opened, they know the schema as well.
void open({
  org: "demo",
  schema,
  mode: "incognito",
  server: "http://localhost:7700",
  operations: {
    "package.touch": {
      optimistic: (tx, args: { name: string }) => tx.patch("Package", [args.name], { summary: "touched" }),
    },
  },
  conflicts: {
    Package: "merge",
    Point: (base, mine, theirs) => {
      isTrue<Same<typeof base, Point | null>>();
      return mine && theirs ? { ...theirs, label: mine.label } : undefined;
    },
  },
}).then((one) => {
  one.run("package.touch", { name: "0ad" });
  // @ts-expect-error a name is a string
  one.run("package.touch", { name: 5 });
});
// @ts-expect-error no such policy
void open({ org: "demo", schema, server: "http://x", passphrase: "x", conflicts: { Package: "mine" } });
// @ts-expect-error no such class
void open({ org: "demo", schema, server: "http://x", passphrase: "x", conflicts: { Pakage: "ask" } });

void open({ org: "demo", schema, server: "http://x", passphrase: "x", conflicts: { Package: "overwrite", Note: "ask" } });

// The operations written so far.
session.refused.subscribe(([first]) => first?.amend({ ...first.args, more: 1 }).accepted);
session.pending()[0]?.state satisfies "unsaved" | "saved" | "uploading" | "held" | undefined;
session.refused.subscribe(([first]) => first?.mine ?? first?.base ?? first?.theirs?.doc);
const [past] = await session.history("Package", ["0ad"]);
isTrue<Same<NonNullable<typeof past>["doc"], Package | null>>();
await session.journal.sweep({ days: 30, max: 5, apply: true });

// Items: a match is the key of a parent, by the item's own properties.
session.live("Note", { px: "1", py: "2" }, (notes) => notes[0]?.at?.toFixed());
session.live("Note", { key: ["1", "2", "3"] }, () => {});
session.live("Scan", { package: "0ad" }, ([scan]) => {
  isTrue<Same<typeof scan, { readonly package: string; readonly raw: Uint8Array } | undefined>>();
});
session.put("Note", { px: "1", py: "2", n: "3", at: 5, text: "x" });
// @ts-expect-error all items of all parents cannot be subscribed to
session.live("Note", {}, () => {});
// @ts-expect-error no key property
session.live("Note", { at: "5" }, () => {});

// The end of a session: why it is over, and the drafts that a wipe may delete.
isTrue<Same<typeof session.status.reason, "closed" | "locked" | "wiped" | "revoked" | "barred" | null>>();
session.status.drafts.toFixed();
void session.wipe();
void session.wipe({ drafts: "delete" });
// @ts-expect-error a wipe that keeps them deletes nothing: leave the option out
void session.wipe({ drafts: "keep" });

// Wiping: whose store it is, and nothing else.
isTrue<Same<ReturnType<typeof wipe>, Promise<void>>>();
void wipe({ org: "demo" });
void wipe({ org: "demo", account: "me" });
// @ts-expect-error an org is needed
void wipe({ account: "me" });
// @ts-expect-error no passphrase
void wipe({ org: "demo", passphrase: "x" });

// The bytes of a file make a picture, as docs/guides/files.md does it.
async function picture(files: Files, photo: FileRef) {
  return URL.createObjectURL(new Blob([await files.bytes(photo)], { type: photo.type ?? "" }));
}
void picture;

// Lists and queries say whether they are complete.
async function complete(session: Session<typeof schema.classes>) {
  session.query("Package").liveCount((count, { ready, error }) => [count.toFixed(), ready, error?.cure]);
  session.query("Package").live((docs, state) => [docs[0]?.name, state.ready]);
  session.live("Package", {}, (docs, { ready, whole, error }) => [docs.length, ready, whole, error?.code]);
  return [session.query("Package").state.ready, session.collection("Package", {}).error?.code];
}
void complete;

// A whole table of another language, or some codes, also those of a server's own.
declare const german: Record<ErrorCode, string>;
const some: AdviceTable = { offline: "No network.", out_of_stock: "Sold out." };
void [advice("x", { language: undefined, table: german }), advice("x", { table: some })];
// @ts-expect-error a sentence is a text
advice("x", { table: { offline: 1 } });
