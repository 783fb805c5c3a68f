/** `defineSchema`: declares the classes of an application and their migrations. */

import { raise } from "../base/errors.js";
import type {
  ClassDeclaration,
  ClassName,
  DocumentOf,
  Exact,
  Migration,
  Migrations,
  SchemaDeclaration,
} from "./schema-types.js";
import { isMap } from "./raw.js";

/**
 * Names the first broken rule of a document: the place and the word. With `away` the data are the changes of a patch that
 * removes these properties.
 */
export type ValuesCheck = (className: string, data: object, away?: readonly string[]) => string | undefined;

/** The functions that belong to a schema. */
export interface SchemaFunctions<S> {
  /** The `values` of `escale/values`: they refuse a write at the call whose document breaks a rule of its class. */
  values?: (classes: SchemaDeclaration) => ValuesCheck | string;
  /** Migrations: they convert a document of an older release to the declared release. */
  migrate?: Migrations<S>;
}

/** A schema, as {@link defineSchema} makes it. */
export class Schema<S extends SchemaDeclaration = SchemaDeclaration> {
  /** The classes, as they were declared. */
  readonly classes: S;
  /** @internal */
  readonly migrations: Migrations<SchemaDeclaration>;
  /** @internal */
  readonly check: ValuesCheck | undefined;

  /** @internal */
  constructor(classes: S, migrations: Migrations<SchemaDeclaration>, check?: ValuesCheck) {
    this.classes = classes;
    this.migrations = migrations;
    this.check = check;
  }

  /** The declaration in the form that the core and the server read. */
  toJSON(): S {
    return this.classes;
  }
}

/** The type of a document of a class: `Document<typeof schema, "Package">`. */
export type Document<T extends Schema, C extends string> =
  T extends Schema<infer S> ? (C extends ClassName<S> ? DocumentOf<S[C]> : never) : never;

/**
 * Declares the classes of an application. The types of documents follow from the declaration.
 *
 * This function checks only as much as the package's own functions need; `open` checks the whole schema.
 *
 * @example
 * ```js
 * import { defineSchema } from "escale";
 *
 * const schema = defineSchema(
 *   { Todo: { key: ["id"], release: 2, collections: { list: { key: ["list"] } }, indexes: { done: "boolean" } } },
 *   { migrate: { Todo: { 2: (data) => ({ ...data, done: data.state === "done" }) } } },
 * );
 * show(JSON.stringify(schema)); // for the server
 * ```
 */
export function defineSchema<const S extends SchemaDeclaration>(
  classes: S & Exact<S>,
  functions: SchemaFunctions<S> = {},
): Schema<S> {
  if (!isMap(classes)) throw raise("bad_schema", "a schema is an object of classes");
  for (const [name, declared] of Object.entries<ClassDeclaration>(classes)) {
    if (!isMap(declared) || !Array.isArray(declared.key)) {
      throw raise("bad_schema", `class ${name}: needs a key, a list of property names`);
    }
  }
  const migrations: Migrations<SchemaDeclaration> = functions.migrate ?? {};
  checkMigrations(classes, migrations);
  const check = functions.values?.(classes);
  if (typeof check === "string") throw raise("bad_schema", check);
  return new Schema<S>(classes, migrations, check);
}

/** The release of a class. */
export function releaseOf(declared: ClassDeclaration): number {
  return declared.release ?? 1;
}

function checkMigrations(classes: SchemaDeclaration, migrations: Migrations<SchemaDeclaration>): void {
  for (const [name, steps] of Object.entries(migrations)) {
    const declared = classes[name];
    if (!declared) throw raise("bad_schema", `migrations of ${name}: the schema has no such class`);
    for (const [step, migrate] of Object.entries<Migration>(steps ?? {})) {
      const release = Number(step);
      if (!Number.isInteger(release) || release < 2 || release > releaseOf(declared)) {
        const range = `2 to ${releaseOf(declared)}, the release of the class`;
        throw raise("bad_schema", `migrations of ${name}: ${step} is not a release from ${range}`);
      }
      if (typeof migrate !== "function") {
        throw raise("bad_schema", `migrations of ${name}: ${step} is not a function`);
      }
    }
  }
}
