// The examples of documents and of comments: extracted as programs, which run in Node against a real server.
import { readFile } from "node:fs/promises";

const ADDRESS = '"http://localhost:7700"';

/** The program of a document: its blocks of `js run`, one after the other. Undefined if it has none. */
export function programOf(markdown) {
  const blocks = [...markdown.matchAll(/^```js run\n([\s\S]*?)^```$/gm)].map(([, code]) => code);
  return blocks.length > 0 ? blocks.join("\n") : undefined;
}

/** The examples in the comments of a source, each with the name of the export that it is about. */
export function examplesOf(source) {
  const found = [];
  for (const [, comment, name] of source.matchAll(/\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*export (?:async )?(?:function|class|const) (\w+)/g)) {
    for (const [, code] of comment.matchAll(/@example\n \* ```js\n([\s\S]*?)\n \* ```/g)) {
      found.push({ name, code: code.replace(/^ \* ?/gm, "") });
    }
  }
  return found;
}

/** The exports of a module that exist at run time. */
export async function exportsOf(path) {
  const source = await readFile(path, "utf8");
  const lists = [...source.matchAll(/^export \{([^}]*)\} from/gm)].flatMap(([, names]) => names.split(","));
  const direct = [...source.matchAll(/^export (?:async )?(?:function|class|const) (\w+)/gm)].map(([, name]) => name);
  return [...lists.map((name) => name.trim()).filter((name) => name && !name.startsWith("type ")), ...direct];
}

/** A program that runs alone: the address of the server and the org are those of the test. */
export function runnable(code, { server, org }) {
  return code.replaceAll(ADDRESS, JSON.stringify(server)).replaceAll('org: "demo"', `org: ${JSON.stringify(org)}`);
}
