/** The journal of a session as the application sees it: sweeping, and the check of its options. */

import { raise } from "../base/errors.js";
import { isMap } from "../schema/raw.js";

/**
 * Which part of the journal a sweep keeps: give at most one of `count`, `before` and `days`. The default is 30 days.
 */
export interface SweepOptions {
  /** Keeps by count, 1 to 100: this many of the newest states of each document. */
  readonly count?: number | undefined;
  /** Keeps by date, as ISO 8601: everything since then, and for each document the newest state before it. */
  readonly before?: string | Date | undefined;
  /** Keeps by age: at most `max` states of each document, then as `before` does with a date so many days ago. */
  readonly days?: number | undefined;
  /** Goes with `days`; the default is 10. */
  readonly max?: number | undefined;
  /** Carries out the sweep. Without it nothing is changed, and the result only says which actions would go. */
  readonly apply?: boolean | undefined;
}

/** The actions that a sweep removes, or would remove. */
export interface Swept {
  readonly removed: number;
  /** The actions' numbers in the journal. */
  readonly rowids: readonly number[];
}

/** The journal of a session. */
export interface Journal {
  /** Removes past states, or lists those that it would remove. Actions that the server has not accepted always stay. */
  sweep(options?: SweepOptions): Promise<Swept>;
}

const KNOWN: Record<keyof SweepOptions, true> = { count: true, before: true, days: true, max: true, apply: true };

/** Checks the options of a sweep and gives them as JSON for the core. */
export function checkSweep(options: unknown): string {
  if (!isMap(options)) throw raise("bad_option", "sweep takes an object of options");
  for (const name of Object.keys(options)) {
    if (!Object.hasOwn(KNOWN, name)) throw raise("bad_option", `sweep: no option is called ${name}`);
  }
  const { count, before, days, max, apply } = options as SweepOptions;
  for (const [name, value] of Object.entries({ count, days, max })) {
    // The core decides which numbers make sense. Larger ones than this it cannot read.
    if (value !== undefined && !(Number.isInteger(value) && value >= 0 && value < 2 ** 31)) {
      throw raise("bad_option", `sweep: ${name} must be a whole number`);
    }
  }
  if (apply !== undefined && typeof apply !== "boolean") throw raise("bad_option", "sweep: apply must be true or false");
  if ([count, before, days].filter((rule) => rule !== undefined).length > 1) {
    throw raise("bad_option", "sweep: give one of count, before and days");
  }
  if (max !== undefined && (count ?? before) !== undefined) throw raise("bad_option", "sweep: max goes with days");
  return JSON.stringify({ count, before: checkDate(before), days, max, apply: apply === true });
}

function checkDate(date: unknown): string | undefined {
  if (date === undefined) return undefined;
  if (typeof date === "string") return date;
  if (date instanceof Date && !Number.isNaN(date.getTime())) return date.toISOString();
  throw raise("bad_option", "sweep: before must be a date");
}
