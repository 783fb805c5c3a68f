// The page of error codes, made of the table in src/error.rs and of the sentences in js/src/base/advice/sentences.ts.

/** By the letter of the table: the word that an application sees, and its meaning. */
const KINDS = {
  A: ["refused", "the arguments do not suit the data"],
  N: ["not-found", "the arguments name nothing"],
  B: ["bug", "a mistake in a program"],
  X: ["unexpected", "hardware, network or storage"],
  D: ["outdated", "the client is too old"],
  C: ["retry", "contention"],
  O: ["unavailable", "the service is closed for a while"],
  S: ["unauthorized", "there is no right to it"],
};
const RETRYABLE = "COX";

/** The codes of the table, in its groups. */
export function codesOf(source) {
  const [, table] = /\ncodes! \{\n([\s\S]*?)\n\}/.exec(source);
  const groups = [];
  let when = [];
  for (const line of table.split("\n").map((one) => one.trim())) {
    const [, name, kind, cure] = /^\w+ "(\w+)" (\w) (?:page )?"(.*)";$/.exec(line) ?? [];
    if (line.startsWith("///")) when.push(line.slice(3).trim());
    else if (line.startsWith("//")) groups.push({ title: line.slice(2).trim().replace(/\.$/, ""), codes: [] });
    else if (name) {
      groups.at(-1).codes.push({ name, kind, cure, when: when.join(" ") });
      when = [];
    } else if (line) throw new Error(`src/error.rs has a line that is no code: ${line}`);
  }
  return groups;
}

/** The English sentence of each code, for the person in front of a page. */
export function adviceOf(source) {
  const pair = /\[\n\s*"(.*)",\n\s*".*",\n\s*\]/.source;
  const shared = new Map([...source.matchAll(new RegExp(`\nconst (\\w+): Sentence = ${pair};`, "g"))].map(([, name, english]) => [name, english]));
  const entries = source.slice(source.indexOf("\nexport const SENTENCES")).matchAll(new RegExp(`\n {2}(\\w+): (?:(\\w+)|${pair}),`, "g"));
  return new Map([...entries].map(([, code, name, english]) => [code, english ?? shared.get(name)]));
}

/** A text of the table on the page: documents that it names are links, and a bar begins no column. */
export const textOf = (text) => text.replaceAll("|", "\\|").replace(/docs\/([\w/-]+\.md)/g, "[$&](./$1)");

/** The page. `sentences` is the source of the advice. */
export function errorsPage(source, sentences) {
  const advice = adviceOf(sentences);
  const groups = codesOf(source);
  const lines = [
    "# Error codes",
    "",
    "<!-- Made by `node scripts/write-errors.mjs` of src/error.rs and js/src/base/advice/sentences.ts. -->",
    "",
    "Every failure of Escale is an `EscaleError`. Compare its `code`, never its message: codes are stable. `cure` names",
    "the next step of the developer. `kind` tells the cause, and `retryable` whether the same call can succeed later.",
    "",
    "For the person in front of the page, `advice(error)` of `escale/advice` gives the text: in English or, with",
    '`{ language: "fr" }`, in French. `{ table }` replaces the texts of some codes, or of all, which makes a further language.',
    "Codes of the server's own can be among them; without a text there, such a code has that of its kind.",
    "If a document breaks a [rule of values](./schema.md#rules-of-values), the text says which one, and `brokenRule(error)` has",
    "the field for a form.",
    "",
    "Three words come often. A *def* is the name of something that a session can subscribe to: a class, a document or a",
    "collection. `seq` is the number of an operation in its session. *K* is the account's key, which seals the store.",
    "[The words](./rules.md#words) has all others, and [the rules](./rules.md) those with a number, such as R22.",
    "",
    "```js",
    'import { EscaleError, open } from "escale";',
    'import { advice } from "escale/advice";',
    "",
    "try {",
    "  await open(options);",
    "} catch (error) {",
    '  if (error instanceof EscaleError && error.code === "wrong_passphrase") askAgain(advice(error));',
    "  else throw error;",
    "}",
    "```",
    "",
    "| kind | meaning | retryable | in [the protocol](./protocol.md#faults) |",
    "|---|---|---|---|",
    ...Object.entries(KINDS).map(([letter, [kind, meaning]]) => `| \`${kind}\` | ${meaning} | ${RETRYABLE.includes(letter) ? "yes" : "no"} | ${letter} |`),
  ];
  for (const { title, codes } of groups) {
    lines.push("", `## ${title.replace(/ \(docs\/.*\)$/, "")}`);
    for (const { name, kind, cure, when } of codes) {
      if (!advice.has(name)) throw new Error(`js/src/base/advice/sentences.ts has no sentence for ${name}`);
      lines.push("", `### ${name}`, "", `Kind \`${KINDS[kind][0]}\`. ${textOf(when)}`, "", `**Cure.** ${textOf(cure)}`);
      lines.push("", `**Advice.** ${advice.get(name)}`);
    }
  }
  return `${lines.join("\n")}\n`;
}
