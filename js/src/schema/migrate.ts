/** Brings documents of an older release up to the release of their class, with the application's migrations. */

import { raise } from "../base/errors.js";
import { releaseOf, type Schema } from "./schema.js";
import type { ClassDeclaration, Migration } from "./schema-types.js";
import { freezeDeep, isMap, type Raw } from "./raw.js";

/** Makes a document as the application sees it from stored data: migrated to the class's release, and frozen. */
export function documentOf(schema: Schema, className: string, data: unknown): Raw {
  if (!isMap(data)) throw raise("internal", `class ${className}: a document's data is not a map`);
  const declared = schema.classes[className] as ClassDeclaration;
  const steps: { readonly [release: number]: Migration } | undefined = schema.migrations[className];
  return freezeDeep(migrated(className, declared, steps, data));
}

/** Whether data of this release is older than the class. Patching such data as stored would mix two releases. */
export function isOlder(schema: Schema, className: string, release: unknown): boolean {
  return (typeof release === "number" ? release : 1) < releaseOf(schema.classes[className] as ClassDeclaration);
}

/**
 * The data migrated to the class's release, without the property `release`.
 *
 * A document of a later release was written by a newer application: it is returned as it is.
 */
export function migrated(
  className: string,
  declared: ClassDeclaration,
  steps: { readonly [release: number]: Migration } | undefined,
  row: Raw,
): Raw {
  // A copy: an object that loses a property is several times slower to read from then on.
  const { release: from, ...rest } = row;
  let data: Raw = rest;
  const first = typeof from === "number" && from >= 1 ? from : 1;
  const last = releaseOf(declared);
  if (first >= last) return data;
  const key = declared.key.map((name) => data[name]);
  for (let release = first + 1; release <= last; release++) {
    data = step(`class ${className}: the migration to release ${release}`, steps?.[release], data);
  }
  if (declared.key.some((name, i) => data[name] !== key[i])) {
    throw raise("bad_schema", `class ${className}: a migration changed a key property`);
  }
  delete data["release"];
  return data;
}

function step(place: string, migrate: Migration | undefined, data: Raw): Raw {
  if (!migrate) throw raise("bad_schema", `${place} is missing, and a document needs it`);
  let next: unknown;
  try {
    next = migrate(data);
  } catch (cause) {
    throw raise("bad_schema", `${place} threw`, cause);
  }
  if (!isMap(next)) throw raise("bad_schema", `${place} did not return a map`);
  return next;
}
