/** Numbers, sizes and dates as people read them. */

const INTEGER = new Intl.NumberFormat("en");
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DATE = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});

/** `20,000`. */
export function count(n: number): string {
  return INTEGER.format(n);
}

/** `1 package`, `2 packages`. */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** `7.5 MiB`: binary units, as Debian counts. */
export function bytes(n: number): string {
  if (n < 1024) return `${count(n)} B`;
  let value = n;
  let unit = "B";
  for (const next of ["KiB", "MiB", "GiB"]) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return `${value >= 100 ? Math.round(value) : value.toFixed(1)} ${unit}`;
}

/** `14:03:09`. */
export function time(ms: number): string {
  return TIME.format(ms);
}

/** `20 Nov 2026, 14:03:09`. */
export function date(ms: number): string {
  return DATE.format(ms);
}

/** `today at 14:03:09`, or the whole date. */
export function moment(ms: number, now = Date.now()): string {
  return new Date(ms).toDateString() === new Date(now).toDateString() ? time(ms) : date(ms);
}
