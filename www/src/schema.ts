/** The schema, equal to the one that the server reads from `server/examples/packages.schema.json`. */

import { defineSchema, type Document } from "escale";

/** The one class of the demonstration. */
export const schema = defineSchema({
  Package: {
    key: ["name"],
    collections: {
      section: { key: ["section"], mutable: true },
      tags: { key: ["tags"], list: true, mutable: true },
    },
    indexes: { name: "string", size: "int", installedSize: "int" },
    properties: {
      version: "string",
      priority: "string",
      maintainer: "string",
      depends: "string[]",
      homepage: "string",
      summary: "string",
      sha256: "string",
    },
  },
});

/** A Debian package as the session hands it out: frozen, and the same object until its version changes. */
export type Package = Document<typeof schema, "Package">;
