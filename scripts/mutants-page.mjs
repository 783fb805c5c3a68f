// docs/mutants.data, and the tables of docs/mutants.md, which are made from it.
//
// A line of the data: run | date | sample | tried | caught | timeouts | missed | unviable; or survivor | file | within
// | was | is | reason.

const MARKS = ["<!-- tables -->\n", "<!-- end of the tables -->\n"];
const NO_REASON = "not looked into yet";

const keyOf = ({ file, within, was, is }) => [file, within, was, is].join(" ; ");
// Each entry is one line, so its fields must not contain the separator.
const field = (text) => text.replaceAll("|", "\\x7c");
const plain = (text) => text.replaceAll("\\x7c", "|");

export function readData(data) {
  const lines = data.split("\n").filter((line) => line && !line.startsWith("#"));
  const fields = lines.map((line) => line.split(" | ").map(plain));
  const [run] = fields.filter(([kind]) => kind === "run");
  const survivors = fields
    .filter(([kind]) => kind === "survivor")
    .map(([, file, within, was, is, reason]) => ({ file, within, was, is, reason }));
  return { run, survivors };
}

/** The data after a run: its survivors, each with its known reason. */
export function judgedText(judged, { sample, unviable, date, before }) {
  const reasons = new Map(before.survivors.map((survivor) => [keyOf(survivor), survivor.reason]));
  const count = (...ends) => judged.filter(({ end }) => ends.includes(end)).length;
  const survivors = judged.filter(({ end }) => end === "missed" || end === "unreached");
  const lines = survivors.map((survivor) => {
    const reason = reasons.get(keyOf(survivor)) ?? NO_REASON;
    const { file, within, was, is } = survivor;
    return ["survivor", file, within, was, is, reason].map(field).join(" | ");
  });
  const run = ["run", date, sample, judged.length, count("caught"), count("timeout"), count("missed", "unreached"), unviable];
  return [
    "# The last run of scripts/mutants.mjs, and the mistakes that no test found: file | within | was | is | reason.",
    run.map(String).map(field).join(" | "),
    ...[...new Set(lines)].sort(),
    "",
  ].join("\n");
}

const cell = (text) => text.replaceAll("|", "\\|");
const code = (text) => `\`${cell(text.length > 90 ? `${text.slice(0, 90)}...` : text)}\``;

export function pageOf(page, { run, survivors }) {
  const [, date, sample, tried, caught, timeouts, missed, unviable] = run;
  const killed = Number(caught) + Number(timeouts);
  const tables = [
    "| when | sample | tried | failed a test | ran for ever | survived | found | left out, for they do not compile |",
    "|---|---|---|---|---|---|---|---|",
    `| ${date} | ${sample} | ${tried} | ${caught} | ${timeouts} | ${missed} | ${((100 * killed) / Number(tried)).toFixed(1)}% | ${unviable} |`,
    "",
    "| survivor | was | is | why no test finds it |",
    "|---|---|---|---|",
    ...survivors.map(({ file, within, was, is, reason }) => `| \`${file}\`, ${cell(within)} | ${code(was)} | ${code(is)} | ${cell(reason)} |`),
    "",
  ].join("\n");
  const [from, to] = MARKS.map((mark) => page.indexOf(mark));
  if (from < 0 || to < 0) throw new Error("the page has no place for the tables");
  return page.slice(0, from + MARKS[0].length) + tables + page.slice(to);
}
