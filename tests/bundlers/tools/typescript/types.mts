import { defineSchema, init, open, type Document } from "escale";
import { open as openInline } from "escale/inline";
import wasm from "escale/escale.wasm";

const schema = defineSchema({ Note: { key: ["id"], properties: { done: "boolean" }, indexes: { size: "integer" } } });

export async function first(): Promise<boolean | undefined> {
  await init(wasm);
  const session = await open({ org: "demo", schema, mode: "avion", passphrase: "x" });
  const docs: readonly Document<typeof schema, "Note">[] = session.collection("Note", {}).docs;
  const size: number | undefined = docs[0]?.size;
  // @ts-expect-error: a text is no boolean
  session.put("Note", { id: "x", done: "yes" });
  return size === 1 && openInline === open ? docs[0]?.done : undefined;
}
