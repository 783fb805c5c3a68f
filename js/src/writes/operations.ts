/** `defineOperations`, and the check of declared operations. */

import { raise } from "../base/errors.js";
import type { Operations } from "./operation-types.js";
import { BUILT_IN } from "./requests.js";
import type { Schema } from "../schema/schema.js";
import type { SchemaDeclaration } from "../schema/schema-types.js";
import { isMap } from "../schema/raw.js";

/**
 * Declares the operations of an application, to pass to `open`; types follow from the schema.
 *
 * @example
 * ```js
 * import { defineOperations, defineSchema, open } from "escale";
 *
 * const schema = defineSchema({ Note: { key: ["id"] } });
 * const operations = defineOperations(schema, {
 *   "note.add": {
 *     optimistic(tx, { id, by }) {
 *       const note = tx.get("Note", [id]);
 *       if (note) tx.patch("Note", [id], { count: note.count + by });
 *     },
 *   },
 * });
 * const session = await open({ org: "demo", schema, operations, server: "http://localhost:7700", passphrase });
 * session.put("Note", { id: "1", count: 1 });
 * session.run("note.add", { id: "1", by: 2 }); // the server must know it too
 * show((await session.get("Note", ["1"])).count); // 3
 * ```
 */
export function defineOperations<S extends SchemaDeclaration, O extends Operations<S>>(
  _schema: Schema<S>,
  operations: O,
): O {
  checkOperations(operations);
  return operations;
}

/** Throws if a value is no set of operations. */
export function checkOperations(operations: unknown): void {
  if (operations === undefined) return;
  if (!isMap(operations)) throw raise("bad_option", "operations: must be an object of operations by name");
  for (const [name, declared] of Object.entries(operations)) {
    if (BUILT_IN.includes(name)) throw raise("bad_option", `operations: ${name} is built in`);
    if (!isMap(declared)) throw raise("bad_option", `operations: ${name}: must be an object, {} at least`);
    const part = declared["optimistic"];
    if (part !== undefined && typeof part !== "function") {
      throw raise("bad_option", `operations: ${name}: optimistic must be a function`);
    }
  }
}
