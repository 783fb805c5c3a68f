/** The schema, equal to the one that the server reads from `server/examples/accounts.schema.json`. */

import { defineSchema, type Document } from "escale";

/** Notes that all members of the org read, notes that only their owner reads, and the accounts, which the server writes. */
export const schema = defineSchema({
  Note: {
    key: ["id"],
    properties: { text: "string", by: "string", author: "string", at: "number" },
    required: ["text", "by", "author", "at"],
    rights: { read: "org", create: { own: "author" }, update: "none", delete: { own: "author" } },
  },
  PrivateNote: {
    key: ["owner", "id"],
    collections: { owner: { key: ["owner"] } },
    properties: { text: "string", at: "number" },
    required: ["text", "at"],
    rights: { read: { own: "owner" }, create: { own: "owner" }, update: { own: "owner" }, delete: { own: "owner" } },
  },
  EscaleAccount: {
    key: ["id"],
    properties: { login: "string", role: "string", schedule: "any" },
    required: ["login", "role"],
    rights: { read: [{ own: "id" }, "admin"], create: "none", update: "none", delete: "none" },
  },
});

/** A note on the board. `author` is an account, which the server checks; `by` is the login, as its writer gave it. */
export type BoardNote = Document<typeof schema, "Note">;

/** An account, as its owner and the administrators of the org read it. */
export type Member = Document<typeof schema, "EscaleAccount">;

/** A note that the server gives to its owner alone. */
export type PrivateNote = Document<typeof schema, "PrivateNote">;
