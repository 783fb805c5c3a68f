// The table of docs/bundlers.md: a row for each cell that passed.
import { readFile, writeFile } from "node:fs/promises";

const PAGE = new URL("../../../docs/bundlers.md", import.meta.url);
const BEGIN = "<!-- begin: make packages -->\n";
const END = "<!-- end: make packages -->";
const HEAD = "| tool | version | project | runs | checked | configuration |\n|---|---|---|---|---|---|\n";

function checked({ run, test, worker, routes = [], isServerOnly, offline }) {
  if (run) return "a program";
  if (test) return "a test";
  const page = offline ? "a page, offline too" : "a page";
  const places = [...(isServerOnly ? [] : [page]), ...(worker ? ["a worker"] : []), ...(routes.length > 0 ? ["a server's route"] : [])];
  return places.join(", ");
}

function row({ name, tool, packages, cell }) {
  const [version = ""] = Object.values(packages);
  const cells = [tool.title, version, `\`${name}\``, cell.what, checked(cell), cell.needs ?? "none"];
  return `| ${cells.join(" | ")} |`;
}

/** Puts the rows in place of the earlier ones of the projects that ran. */
export async function writeRows(passed, ran) {
  const page = await readFile(PAGE, "utf8");
  const [before, rest] = page.split(BEGIN);
  const [table, after] = rest.split(END);
  const kept = table.split("\n").filter((line) => /^\| [^|]+ \| [^|]* \| `/.test(line) && !ran.has(/`([\w.-]+)`/.exec(line)[1]));
  const rows = [...kept, ...passed.map(row)].sort((a, b) => (a.toLowerCase() < b.toLowerCase() ? -1 : 1));
  await writeFile(PAGE, `${before}${BEGIN}\n${HEAD}${rows.join("\n")}\n\n${END}${after}`);
}
