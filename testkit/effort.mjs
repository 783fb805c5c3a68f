// The dial of the random tests in JavaScript: the same as `testkit/src/seeds.rs` (docs/testing.md).

/**
 * How often to repeat something: the number in the environment variable, or the usual one, or ten times as many with
 * ESCALE_EFFORT=proof. Throws at any other effort, and at a variable that holds no number.
 */
export function count(variable, usual, env = process.env) {
  const { ESCALE_EFFORT: effort, [variable]: given } = env;
  if (effort && effort !== "proof") throw new Error(`ESCALE_EFFORT is proof or not set: ${effort}`);
  return given ? numberOf(variable, given) : effort ? usual * 10 : usual;
}

/**
 * The seed that random histories start from: the one in ESCALE_SEED, or 1 with ESCALE_SEEDS=same, as `make test` sets it,
 * or a new one.
 */
export function startSeed({ ESCALE_SEED: given, ESCALE_SEEDS: which } = process.env) {
  if (which && which !== "same" && which !== "new") throw new Error(`ESCALE_SEEDS is same, new or not set: ${which}`);
  return given ? numberOf("ESCALE_SEED", given) : which === "same" ? 1 : Math.floor(Math.random() * 2 ** 31);
}

function numberOf(variable, given) {
  if (!/^\d+$/.test(given)) throw new Error(`${variable} is a number: ${given}`);
  return Number(given);
}
