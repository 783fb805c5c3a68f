// The page of error codes, made of the one table: src/error.rs.

const KINDS = {
  A: "functional: the arguments do not suit the data",
  N: "not found",
  B: "a bug",
  X: "unexpected: hardware, network or storage",
  D: "the client is too old",
  C: "contention",
  O: "the service is closed for a while",
  S: "not authorised",
};
const RETRYABLE = "COX";

/** The codes of the table, in its groups. */
export function codesOf(source) {
  const [, table] = /\ncodes! \{\n([\s\S]*?)\n\}/.exec(source);
  const groups = [];
  let when = [];
  for (const line of table.split("\n").map((one) => one.trim())) {
    const [, name, kind, cure] = /^\w+ "(\w+)" (\w) "(.*)";$/.exec(line) ?? [];
    if (line.startsWith("///")) when.push(line.slice(3).trim());
    else if (line.startsWith("//")) groups.push({ title: line.slice(2).trim().replace(/\.$/, ""), codes: [] });
    else if (name) {
      groups.at(-1).codes.push({ name, kind, cure, when: when.join(" ") });
      when = [];
    } else if (line) throw new Error(`src/error.rs has a line that is no code: ${line}`);
  }
  return groups;
}

/** A text of the table on the page: documents that it names are links, and a bar begins no column. */
export const textOf = (text) => text.replaceAll("|", "\\|").replace(/docs\/([\w/-]+\.md)/g, "[$&](./$1)");

/** The page. */
export function errorsPage(source) {
  const groups = codesOf(source);
  const lines = [
    "# Error codes",
    "",
    "<!-- Made by `node scripts/write-errors.mjs` of the table in src/error.rs. -->",
    "",
    "Every failure of Escale is an `EscaleError`. Compare its `code`, never its message: codes are stable. `cure` names",
    "the next step. `retryable` is true for the kinds X, C and O: the same call can succeed later.",
    "",
    "Three words come often. A *def* is the name of something that a session can subscribe to: a class, a document or a",
    "collection. `seq` is the number of an operation in its session. *K* is the account's key, which seals the store.",
    "[The words](./rules.md#words) has all others, and [the rules](./rules.md) those with a number, such as R22.",
    "",
    "```js",
    'import { EscaleError, open } from "escale";',
    "",
    "try {",
    "  await open(options);",
    "} catch (error) {",
    '  if (error instanceof EscaleError && error.code === "wrong_passphrase") askAgain(error.cure);',
    "  else throw error;",
    "}",
    "```",
    "",
    "| kind | meaning | retryable |",
    "|---|---|---|",
    ...Object.entries(KINDS).map(([kind, meaning]) => `| ${kind} | ${meaning} | ${RETRYABLE.includes(kind) ? "yes" : "no"} |`),
  ];
  for (const { title, codes } of groups) {
    lines.push("", `## ${title.replace(/ \(docs\/.*\)$/, "")}`);
    for (const { name, kind, cure, when } of codes) {
      lines.push("", `### ${name}`, "", `Kind ${kind}. ${textOf(when)}`, "", `**Cure.** ${textOf(cure)}`);
    }
  }
  return `${lines.join("\n")}\n`;
}
