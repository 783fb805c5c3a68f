// The types of the bindings follow from the schema, with no cast: `tsc` checks this file, nothing runs it.
import { ref } from "vue";

import { defineSchema, type Session } from "../../../js/src/index.js";
import { createHooks } from "../../../js/src/react.js";
import { createPrimitives } from "../../../js/src/solid.js";
import { document, live, query, refused, status } from "../../../js/src/svelte.js";
import { createComposables } from "../../../js/src/vue.js";

const schema = defineSchema({
  Package: { key: ["name"], collections: { section: { key: ["section"] } }, indexes: { size: "integer" }, required: ["size"] },
});
declare const session: Session<typeof schema.classes>;

const { useLive, useDocument, useQuery, useSession, EscaleProvider } = createHooks<typeof schema>();
const name: string = useLive("Package", { section: "games" }).docs[0]!.name;
const size: number | undefined = useDocument("Package", ["0ad"], { suspense: true, keep: 0 }).doc?.size;
const sizes: number[] = useQuery((given) => given.query("Package").where("size", ">", 1), []).docs.map((doc) => doc.size);
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
const vueSize: number | undefined = composables.useDocument("Package", ["a"]).value.doc?.size;

live(session, "Package", { section: "games" }).subscribe(({ docs }) => docs[0]!.name.length);
document(session, "Package", ["a"]).subscribe(({ doc }) => doc?.size.toFixed());
query(session.query("Package").limit(3)).subscribe(({ docs }) => docs[0]!.size.toFixed());
status(session).subscribe(({ phase }) => phase.length);
refused(session).subscribe((list) => list[0]?.error.cure);
// @ts-expect-error -- no such class
live(session, "Pakage", {});

const primitives = createPrimitives<typeof schema>();
const fromSolid: string = primitives.createLive("Package", () => ({ section: "games" }))().docs[0]!.name;
const solidSize: number[] = primitives.createQuery((given) => given.query("Package"))().docs.map((doc) => doc.size);
// @ts-expect-error -- no such collection
primitives.createLive("Package", () => ({ tag: "x" }));

export const used = [name, size, sizes, wrong, fromVue, vueSize, fromSolid, solidSize];
