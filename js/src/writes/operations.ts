/** `defineOperations`, and the check of declared operations. */

import { raise } from "../base/errors.js";
import type { Operations } from "./operation-types.js";
import { BUILT_IN } from "./requests.js";
import type { Schema } from "../schema/schema.js";
import type { SchemaDeclaration } from "../schema/schema-types.js";
import { isMap } from "../schema/values.js";

/**
 * Declares the operations of an application, to pass to `open`; types follow from the schema.
 *
 *     const operations = defineOperations(schema, {
 *       "counter.add": {
 *         optimistic(tx, { name, by }: { name: string; by: number }) {
 *           const counter = tx.get("Counter", [name]);
 *           if (counter) tx.patch("Counter", [name], { count: counter.count + by });
 *         },
 *       },
 *     });
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
