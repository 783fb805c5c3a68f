// Made by `npx escale schema types schema.json`. Change that file, and run the command again.
import type { DocumentOf } from "escale";

/** The classes, for `defineSchema`. */
export const classes = {
  "Todo": {
    "key": [
      "id"
    ],
    "collections": {
      "list": {
        "key": [
          "list"
        ],
        "mutable": true
      }
    },
    "indexes": {
      "done": "boolean"
    },
    "properties": {
      "text": {
        "type": "string",
        "maxLength": 500
      }
    },
    "required": [
      "list",
      "text",
      "done"
    ]
  }
} as const;

/** A document of the class. */
export type Todo = DocumentOf<(typeof classes)["Todo"]>;
