// The example of docs/schema.md, checked by `tsc`, never run. The page holds the lines below `README:` word for word;
// the tests of `tests/tidy` compare them.

// README:
import { defineSchema } from "escale";

export const schema = defineSchema(
  {
    Article: {
      key: ["journal", "number"],
      release: 3,
      indexes: { pages: "integer" },
    },
  },
  {
    migrate: {
      Article: {
        2: (data) => ({ ...data, pages: Number(data["pages"]) }), // was a string
        3: ({ subtitle: _, ...data }) => data, // is gone
      },
    },
  },
);
