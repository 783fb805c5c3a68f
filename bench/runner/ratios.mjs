// Ratios between the figures of a run.

export const median = (values) => {
  const sorted = values.toSorted((a, b) => a - b);
  const half = sorted.length / 2;
  return (sorted[Math.ceil(half) - 1] + sorted[Math.floor(half)]) / 2;
};

export const spread = (values) => ({ least: Math.min(...values), median: median(values), most: Math.max(...values) });

/** Ratios of a system's figure to the reference system's in the same round: `{ least, median, most }`. */
export function ratiosOf(report, system, key) {
  const rounds = report.results.filter((result) => result.system === system);
  const ratios = rounds.flatMap((result) => {
    const measure = report.results.find(({ round, system: id }) => round === result.round && id === report.measure);
    return measure && result[key] > 0 && measure[key] > 0 ? [result[key] / measure[key]] : [];
  });
  return ratios.length === 0 ? undefined : spread(ratios);
}

/** Ratios of one figure of a system to another of its figures in the same round. */
export function ownRatiosOf(report, system, key, over) {
  const rounds = report.results.filter((result) => result.system === system && result[key] > 0 && result[over] > 0);
  return rounds.length === 0 ? undefined : spread(rounds.map((result) => result[key] / result[over]));
}

export const short = (ratio) => (ratio < 0.1 ? ratio.toFixed(3) : ratio < 10 ? ratio.toFixed(2) : ratio.toFixed(0));

/** A cell of a table: the median, with the least and the most. */
export const cell = (found) => (found ? `${short(found.median)} (${short(found.least)} to ${short(found.most)})` : "-");
