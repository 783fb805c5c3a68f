// The types of the bindings follow from the schema, with no cast: `tsc` checks this file, nothing runs it.
import { ref } from "vue";

import { defineSchema, type Session } from "../../../js/src/index.js";
import { createHooks } from "../../../js/src/react.js";
import { createPrimitives } from "../../../js/src/solid.js";
import { count, document, live, query, refused, status } from "../../../js/src/svelte.js";
import { createComposables } from "../../../js/src/vue.js";

const schema = defineSchema({
  Package: { key: ["name"], collections: { section: { key: ["section"] } }, indexes: { size: "integer" }, required: ["size"] },
  File: { in: "Package", key: ["package", "name"], properties: { bytes: "integer" }, required: ["bytes"] },
});
declare const session: Session<typeof schema.classes>;

const { useLive, useDocument, useCount, useQuery, useSession, EscaleProvider } = createHooks<typeof schema>();
const name: string = useLive("Package", { section: "games" }).docs[0]!.name;
const size: number | undefined = useDocument("Package", ["0ad"], { suspense: true, keep: 0 }).doc?.size;
const sizes: number[] = useQuery((given) => given.query("Package").where("size", ">", 1), []).docs.map((doc) => doc.size);
const bytes: number[] = useDocument("Package", ["0ad"], { items: ["File"] }).items.File.map((file) => file.bytes);
const many: number = useCount((given) => given.query("Package"), []).count;
// @ts-expect-error -- it was asked for without items
useDocument("Package", ["0ad"]).items.File;
// @ts-expect-error -- no item of a package
useDocument("Package", ["0ad"], { items: ["Package"] });
useSession().patch("Package", ["0ad"], { size: 1 });
EscaleProvider({ session });
EscaleProvider({ session: undefined });
// @ts-expect-error -- no such class
useLive("Pakage", {});
// @ts-expect-error -- no such collection
useLive("Package", { tag: "x" });
// @ts-expect-error -- the key has one property
useDocument("Package", ["a", "b"]);
// @ts-expect-error -- not a number
const wrong: number = useLive("Package", {}).docs[0]!.name;

const composables = createComposables<typeof schema>();
composables.provideSession(ref(undefined));
const fromVue: string = composables.useLive("Package", () => ({ section: "games" })).value.docs[0]!.name;
// @ts-expect-error -- no such collection
composables.useLive("Package", () => ({ tag: "x" }));
const vueBytes: number[] = composables.useDocument("Package", ["a"], { items: ["File"] }).value.items.File.map((file) => file.bytes);
const vueSize: number | undefined = composables.useDocument("Package", ["a"]).value.doc?.size;

live(session, "Package", { section: "games" }).subscribe(({ docs }) => docs[0]!.name.length);
document(session, "Package", ["a"]).subscribe(({ doc }) => doc?.size.toFixed());
document(session, "Package", ["a"], { items: ["File"] }).subscribe(({ items }) => items.File[0]?.bytes.toFixed());
count(session.query("Package")).subscribe((result) => result.count.toFixed());
query(session.query("Package").limit(3)).subscribe(({ docs }) => docs[0]!.size.toFixed());
status(session).subscribe(({ phase }) => phase.length);
refused(session).subscribe((list) => list[0]?.error.cure);
// @ts-expect-error -- no such class
live(session, "Pakage", {});

const primitives = createPrimitives<typeof schema>();
const fromSolid: string = primitives.createLive("Package", () => ({ section: "games" }))().docs[0]!.name;
const solidBytes: number[] = primitives.createDocument("Package", () => ["a"], { items: ["File"] })().items.File.map((file) => file.bytes);
const solidCount: number = primitives.createCount((given) => given.query("Package"))().count;
const solidSize: number[] = primitives.createQuery((given) => given.query("Package"))().docs.map((doc) => doc.size);
// @ts-expect-error -- no such collection
primitives.createLive("Package", () => ({ tag: "x" }));

export const used = [bytes, many, vueBytes, solidBytes, solidCount, name, size, sizes, wrong, fromVue, vueSize, fromSolid, solidSize];
