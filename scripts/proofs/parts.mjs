// Cuts the long proofs into pieces, and the pieces into parts that take about as long.

/** A piece that can be made shorter takes no longer than this. */
export const PIECE_MINUTES_MAX = 25;

/** A part takes no longer than this, if there are enough parts. */
export const PART_MINUTES_MAX = 60;

/**
 * The pieces of a proof: `{ id, proof, command, counts, minutes }`. `given` has other counts than those of a full run, by
 * their variables; then there is one piece.
 */
export function piecesOf(proof, given = {}) {
  const { name, counts, command, minutes, cut } = proof;
  const other = Object.keys(counts).some((variable) => given[variable] !== undefined);
  const wanted = Object.fromEntries(Object.entries(counts).map(([variable, count]) => [variable, given[variable] ?? count]));
  if (!cut || other) return [{ id: name, proof, command: command({ ...wanted, FROM: 0 }), counts: wanted, minutes }];
  const count = Math.ceil(minutes / PIECE_MINUTES_MAX);
  const edge = (piece) => Math.floor((counts[cut] * piece) / count);
  return Array.from({ length: count }, (_, piece) => {
    const own = { ...counts, [cut]: edge(piece + 1) - edge(piece) };
    return {
      id: count === 1 ? name : `${name}-${piece + 1}-of-${count}`,
      proof,
      command: command({ ...own, FROM: edge(piece) }),
      counts: own,
      minutes: minutes / count,
    };
  });
}

export const minutesOf = (pieces) => pieces.reduce((sum, { minutes }) => sum + minutes, 0);

/**
 * Shares the pieces among so many parts. Each piece is in one part, and in each part they keep their order. The longest
 * come first, each to the part with the least to do: two parts differ by the longest piece at most.
 */
export function partsOf(pieces, count) {
  const parts = Array.from({ length: count }, () => ({ minutes: 0, pieces: [] }));
  const longest = pieces.map((piece, place) => ({ piece, place })).sort((a, b) => b.piece.minutes - a.piece.minutes || a.place - b.place);
  for (const { piece, place } of longest) {
    const least = parts.reduce((a, b) => (b.minutes < a.minutes ? b : a));
    least.minutes += piece.minutes;
    least.pieces.push({ piece, place });
  }
  return parts.map(({ pieces: own }) => own.sort((a, b) => a.place - b.place).map(({ piece }) => piece));
}

/** The least number of parts of which none takes longer than PART_MINUTES_MAX. */
export function partsNeeded(pieces) {
  let count = Math.max(1, Math.ceil(minutesOf(pieces) / PART_MINUTES_MAX));
  while (partsOf(pieces, count).some((part) => part.length > 1 && minutesOf(part) > PART_MINUTES_MAX)) count++;
  return count;
}

/** The pieces of `PART`, such as "3/12"; all of them without it. */
export function chosen(pieces, part) {
  if (!part) return pieces;
  const [, own, of] = (/^(\d+)\/(\d+)$/.exec(part) ?? []).map(Number);
  if (!(own >= 1 && own <= of)) throw new Error(`PART is a part of all of them, as in PART=3/12: ${part}`);
  return partsOf(pieces, of)[own - 1];
}
