import { raise } from "./errors.js";
import { isMap } from "./values.js";

/** What is kept of the journal: one of `count`, `before` and `days`; for 30 days unless said otherwise. */
export interface SweepOptions {
  /** By count, 1 to 100: the newest so many states of each document. */
  readonly count?: number | undefined;
  /** By date, as ISO 8601: what is older, but for the newest state of each document before it. */
  readonly before?: string | Date | undefined;
  /** For so many days: by count, `max` states of each document, then by date. */
  readonly days?: number | undefined;
  /** With `days`: 10 unless said otherwise. */
  readonly max?: number | undefined;
  /** Removes what it tells of; without it nothing is changed. */
  readonly apply?: boolean | undefined;
}

/** What a sweep removes, or would. */
export interface Swept {
  readonly removed: number;
  /** The numbers of the actions. */
  readonly rowids: readonly number[];
}

/** The journal of a session. */
export interface Journal {
  /** Forgets past states, or tells what it would forget. What the server has not accepted always stays. */
  sweep(options?: SweepOptions): Promise<Swept>;
}

const KNOWN: Record<keyof SweepOptions, true> = { count: true, before: true, days: true, max: true, apply: true };

/** A sweep as the core takes it, as JSON. */
export function checkSweep(options: unknown): string {
  if (!isMap(options)) throw raise("bad_option", "sweep takes an object of options");
  for (const name of Object.keys(options)) {
    if (!Object.hasOwn(KNOWN, name)) throw raise("bad_option", `sweep: no option is called ${name}`);
  }
  const { count, before, days, max, apply } = options as SweepOptions;
  for (const [name, value] of Object.entries({ count, days, max })) {
    // Which numbers make sense the core says; larger ones it cannot read.
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
