// Which recorded runs are older than the newest change of the files that they rest on, by the history of git.
import { execFileSync } from "node:child_process";

import { proofOf } from "./table.mjs";

/** Git in a repository: its output without the last line end, or undefined if the command fails. */
export function gitOf(folder) {
  return (...args) => {
    try {
      return execFileSync("git", args, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"], maxBuffer: 1 << 28 }).trimEnd();
    } catch {
      return undefined;
    }
  };
}

/** The head's short name and date, or undefined outside a repository. */
export function headOf(git) {
  const head = git("log", "-1", "--format=%h %cs");
  return head && { commit: head.split(" ")[0], date: head.split(" ")[1] };
}

/**
 * The newest change of these files after a run, as `{ commit, date }`; undefined if there is none. A run whose commit the
 * history does not know is as old as its date: changes of that day count as later.
 */
export function changedSince(git, { commit, date }, files) {
  const known = commit !== "-" && git("merge-base", "--is-ancestor", commit, "HEAD") !== undefined;
  const line = git("log", "-1", "--format=%h %cs", ...(known ? [`${commit}..HEAD`] : []), "--", ...files);
  if (!line) return undefined;
  const [newest, day] = line.split(" ");
  return known || day >= date ? { commit: newest, date: day } : undefined;
}

/** The section of the page: the runs that are older than their files, as the head sees it. */
export function olderText(runs, git) {
  const head = headOf(git);
  if (!head) return undefined;
  const older = runs.flatMap((run) => {
    const change = changedSince(git, run, proofOf(run.id).rests);
    return change ? [`| ${run.id} | ${run.date} | ${change.date}, ${change.commit} |`] : [];
  });
  const at = `commit ${head.commit} of ${head.date}`;
  if (older.length === 0) return `At ${at}, every run is newer than all changes of the files that it rests on.\n`;
  return [
    `At ${at}, ${older.length} of ${runs.length} runs are older than the newest change of the files that they rest on.`,
    "`make proof` repeats them.",
    "",
    "| run | played | newest change of its files |",
    "|---|---|---|",
    ...older,
    "",
  ].join("\n");
}
