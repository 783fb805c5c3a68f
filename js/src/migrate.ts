import { raise } from "./errors.js";
import { releaseOf } from "./schema.js";
import type { ClassDeclaration, Migration } from "./schema-types.js";
import { isMap, type Raw } from "./values.js";

/**
 * The data brought up to the class's release, without the property `release`.
 *
 * A document of a later release was written by a newer application: it is handed over as it is.
 */
export function migrated(
  className: string,
  declared: ClassDeclaration,
  steps: { readonly [release: number]: Migration } | undefined,
  row: Raw,
): Raw {
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
