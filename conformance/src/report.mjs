// Prints results for people. The last line is for scripts, too: "N passed, N failed, N skipped".

export const count = (results) => {
  const of = (outcome) => results.filter((result) => result.outcome === outcome).length;
  return { passed: of("passed"), failed: of("failed"), skipped: of("skipped") };
};

const PAGE = "docs/protocol.md";
const indent = (lines, by = "      ") => lines.map((line) => `${by}${line}`);

/** The lines of one result. */
export function linesOf({ check, outcome, reason, wanted, lines = [], stack }, { isVerbose }) {
  if (outcome === "passed") return isVerbose ? [`ok    ${check.id}`] : [];
  if (outcome === "skipped") return [`skip  ${check.id}: ${reason}`];
  return [
    `FAIL  ${check.id}${check.rule ? ` (${check.rule})` : ""}`,
    `      ${PAGE}#${check.at}: "${check.says}"`,
    `   expected: ${wanted}`,
    ...indent(lines),
    ...(check.hint ? [`   hint: ${check.hint}`] : []),
    ...(isVerbose && stack ? indent(stack.split("\n")) : []),
    "",
  ];
}

export function lastLines(results, { run, seed, without }) {
  const { passed, failed, skipped } = count(results);
  // A server that lacks a part is not one that keeps the whole page, and the report says so.
  const lacking = without.map((part) => `not checked: ${part}, ${results.filter(({ check }) => check.parts?.includes(part)).length} checks`);
  const again = failed ? [`To repeat the choices of the run: --seed ${seed}. Its orgs begin with kit-${run}-.`] : [];
  return [...again, ...lacking, `${passed} passed, ${failed} failed, ${skipped} skipped`];
}
