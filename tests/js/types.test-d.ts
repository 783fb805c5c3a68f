// What TypeScript must accept and refuse; checked by `tsc`, never run.
import { defineSchema, type Document, open, type Query, type Session, type Value, wipe } from "../../js/src/index.js";

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
      indexes: { size: "int", heavy: { type: "float", property: "weight" }, sha256: { type: "hash", unique: true } },
    },
    Point: {
      key: ["x", "y"],
      collections: { place: { key: ["country", "city"] } },
      indexes: { label: "string", words: "list" },
      properties: { label: "string", photo: "bytes", marks: "number[]", rest: "any", city: "string" },
    },
  },
  { migrate: { Package: { 2: (data) => ({ ...data, size: Number(data["size"]) }) } } },
);

declare const session: Session<(typeof schema)["classes"]>;
type Package = Document<typeof schema, "Package">;
type Point = Document<typeof schema, "Point">;

// Documents: keys, collections, indexes and declared properties.
declare const one: Package;
isTrue<Same<typeof one.name, string>>();
isTrue<Same<typeof one.section, string>>();
isTrue<Same<typeof one.tags, readonly string[]>>();
isTrue<Same<typeof one.size, number>>();
isTrue<Same<typeof one.weight, number>>();
isTrue<Same<typeof one.sha256, string>>();
isTrue<Same<(typeof one)["summary"], Value | undefined>>();
isTrue<
  Same<
    Point,
    {
      readonly x: string;
      readonly y: string;
      readonly country: string;
      readonly city: string;
      readonly label: string;
      readonly words: readonly string[];
      readonly photo: Uint8Array;
      readonly marks: readonly number[];
      readonly rest: Value;
    }
  >
>();
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
void session.collection("Package", {}).ready.then((docs: readonly Package[]) => docs);
session.unsubscribe("Package", { section: "games" });
session.unsubscribe("Package/section@BTziUq_SSySPM1Z0dmeokg");

// Queries.
isTrue<Same<ReturnType<typeof session.query<"Point">>, Query<(typeof schema)["classes"]["Point"]>>>();
session.query("Package").where("size", ">=", 5).where("heavy", "<", 1.5).where("sha256", "==", "x");
session.query("Point").where("words", "contains", "x").where("label", "<", "m");
// @ts-expect-error no such index
session.query("Package").where("summary", "==", "x");
// @ts-expect-error a hash has no order
session.query("Package").where("sha256", "<", "x");
// @ts-expect-error an int compares with a number
session.query("Package").where("size", "==", "5");

// Schemas.
// @ts-expect-error a misspelt word
defineSchema({ A: { key: ["x"], colections: {} } });
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

// Wiping: whose store it is, and nothing else.
isTrue<Same<ReturnType<typeof wipe>, Promise<void>>>();
void wipe({ org: "demo" });
void wipe({ org: "demo", account: "me" });
// @ts-expect-error an org is needed
void wipe({ account: "me" });
// @ts-expect-error no passphrase
void wipe({ org: "demo", passphrase: "x" });
