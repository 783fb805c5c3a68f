/** The schema, equal to the one that the server reads from `server/examples/packages.schema.json`. */

import { defineSchema, type Document } from "escale";

/** Packages, and the notes and files that visitors add to them. Both exist as long as their package does. */
export const schema = defineSchema({
  Package: {
    key: ["name"],
    collections: {
      section: { key: ["section"], mutable: true },
      tags: { key: ["tags"], list: true, mutable: true },
    },
    indexes: { name: "string", size: "integer", installedSize: "integer" },
    properties: {
      version: "string",
      priority: "string",
      maintainer: "string",
      depends: "string[]",
      homepage: "string",
      summary: "string",
      sha256: "string",
    },
    required: [
      "section", "tags", "size", "installedSize", "version", "priority", "maintainer", "depends", "homepage", "summary",
      "sha256",
    ],
  },
  Note: { in: "Package", key: ["package", "id"], properties: { text: "string", at: "number" }, required: ["text", "at"] },
  Attachment: {
    in: "Package",
    key: ["package", "id"],
    properties: { file: "file", at: "number" },
    required: ["file", "at"],
  },
});

/** A Debian package as the session hands it out: frozen, and the same object until its version changes. */
export type Package = Document<typeof schema, "Package">;

/** A note on a package. `at` is the time of its writing, by the clock of the device that wrote it. */
export type Note = Document<typeof schema, "Note">;

/** A file on a package. `at` is the time of its adding, by the clock of that device. */
export type Attachment = Document<typeof schema, "Attachment">;
