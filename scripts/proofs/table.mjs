// The long proofs, each once: `make proof` runs them, and docs/reliability.md names their commands. rows.mjs has the
// promises that they prove.
import { readdirSync } from "node:fs";

const CORE = ["Cargo.toml", "Cargo.lock", "cipher", "src"];
const SERVER = [...CORE, "server/src", "server/Cargo.toml"];
const SERVER_TESTS = [...SERVER, "testkit", "server/tests/server/support"];
const API = ["js/src", "scripts/build-wasm", "scripts/bundle.mjs", "scripts/wasm"];
/** The package in a browser, with the reference server. */
const WHOLE = [...SERVER, ...API, "tests/e2e/support"];

const core = (test, env = "") => `make rust && ${env}cargo test --locked --package escale --all-features${test}`;
const server = (test, env = "") =>
  `make rust postgres && ${env}cargo test --locked --package escale-server --all-features${test}`;

/** Minutes of 10,000,000 executions of each fuzz target. `have` is a guess. */
const FUZZED = {
  frame: 13, have: 10, header: 12, inbox: 4, journal: 7, json: 33, live: 8, mark: 5, msgpack: 21, page: 3, reply: 20,
  request: 16, row: 56, schema: 4, sealed: 10, session: 850, state: 3,
};

/** The fuzz targets of the folder. */
export const TARGETS = readdirSync(new URL("../../fuzz/targets", import.meta.url)).map((file) => file.replace(/\.rs$/, "")).sort();

/**
 * `{ name, counts, command, minutes, cut, rests, writes, done, shown }`. `counts` has the numbers of a full run by their
 * variables, and `command` makes the command of such numbers. `minutes` is the time of a full run on two cores: of the
 * recorded run, or a guess if there is none. `cut` is the variable whose number the pieces share; `FROM` is the sum of
 * the pieces before. `rests` has the files whose change makes a run old, and `writes` the names of the `proof:` lines
 * that the run prints. Where it prints none, `done` has the text of the row. `shown` is the command of the page where it
 * differs.
 */
export const PROOFS = [
  {
    name: "sim",
    counts: { SEEDS: 1_000_000 },
    command: ({ SEEDS, FROM }) => `make sim SEEDS=${SEEDS} FROM=${FROM}`,
    shown: "make sim SEEDS=1000000",
    minutes: 127,
    cut: "SEEDS",
    rests: [...SERVER, "sim", "testkit"],
    writes: ["sim"],
  },
  ...TARGETS.map((target) => ({
    name: `fuzz-${target}`,
    counts: { RUNS: 10_000_000 },
    command: ({ RUNS }) => `make fuzz SECONDS=0 RUNS=${RUNS} TARGETS=${target}`,
    shown: "make fuzz SECONDS=0 RUNS=10000000",
    minutes: FUZZED[target] ?? 15,
    cut: "RUNS",
    rests: [...CORE, "testkit", `fuzz/targets/${target}.rs`, "fuzz/Cargo.toml"],
    writes: [`fuzz-${target}`],
  })),
  {
    name: "hostile",
    counts: { REPLIES: 10_000 },
    command: ({ REPLIES }) => `make hostile REPLIES=${REPLIES}`,
    minutes: 5,
    rests: [...WHOLE, "testkit", "tests/e2e/server/hostile.test.mjs"],
    writes: ["hostile"],
  },
  {
    name: "kill",
    counts: { KILLS: 300 },
    command: ({ KILLS }) => `make kill KILLS=${KILLS}`,
    minutes: 16,
    cut: "KILLS",
    rests: [...WHOLE, "tests/e2e/device/kill.test.mjs"],
    writes: ["kill"],
  },
  {
    name: "kill-firefox",
    counts: { KILLS: 300 },
    command: ({ KILLS }) => `make kill-firefox KILLS=${KILLS}`,
    minutes: 72,
    cut: "KILLS",
    rests: [...WHOLE, "tests/e2e/device/kill.test.mjs"],
    writes: ["kill-firefox"],
  },
  {
    name: "kill-files",
    counts: { KILLS: 20, FILM_MIB: 1024 },
    command: ({ KILLS, FILM_MIB }) => `make kill-files KILLS=${KILLS} FILM_MIB=${FILM_MIB}`,
    minutes: 30,
    rests: [...WHOLE, "tests/e2e/device/films.test.mjs"],
    writes: ["kill-files"],
    done: ({ KILLS, FILM_MIB }) => `a film of ${FILM_MIB} MiB in each browser, ${KILLS} kills of it and ${KILLS} of the server`,
  },
  {
    name: "kill-server",
    counts: { KILLS: 500 },
    command: ({ KILLS }) => `make kill-server KILLS=${KILLS}`,
    minutes: 23,
    cut: "KILLS",
    rests: [...SERVER_TESTS, "server/tests/server/operating/kills.rs"],
    writes: ["server-kills", "server-kills-postgres", "server-kills-database"],
  },
  {
    name: "cluster",
    counts: { ROUNDS: 200 },
    command: ({ ROUNDS }) => `make cluster ROUNDS=${ROUNDS}`,
    minutes: 13,
    rests: [...SERVER_TESTS, "server/tests/server/operating/instances.rs"],
    writes: ["cluster"],
  },
  {
    name: "drills",
    counts: { DRILLS: 25 },
    command: ({ DRILLS }) => `make drills DRILLS=${DRILLS}`,
    minutes: 5,
    rests: [...SERVER_TESTS, "server/tests/server/operating/drills.rs"],
    writes: ["drills"],
  },
  {
    name: "feeds",
    counts: { FEEDS: 20_000 },
    command: ({ FEEDS }) => `make feeds FEEDS=${FEEDS}`,
    minutes: 39,
    cut: "FEEDS",
    rests: [...SERVER_TESTS, "server/tests/server/operating/postgres.rs"],
    writes: ["feed"],
  },
  {
    name: "attack",
    counts: { SECONDS: 60 },
    command: ({ SECONDS }) => `make attack SECONDS=${SECONDS}`,
    minutes: 6,
    rests: [...SERVER_TESTS, "server/tests/server/fire"],
    writes: ["server-attacks"],
  },
  {
    name: "crowd",
    counts: { SOCKETS: 10_000 },
    command: ({ SOCKETS }) => `make crowd SOCKETS=${SOCKETS}`,
    minutes: 2,
    rests: [...SERVER_TESTS, "server/tests/server/crowd"],
    writes: ["crowd"],
  },
  {
    name: "storms",
    counts: { SESSIONS: 100_000 },
    command: ({ SESSIONS }) => `make storms SESSIONS=${SESSIONS}`,
    minutes: 5,
    rests: [...SERVER, "testkit"],
    writes: ["storms"],
    done: ({ SESSIONS }) => `${SESSIONS} sessions`,
  },
  {
    name: "fire",
    counts: { ESCALE_REQUESTS: 100_000 },
    command: ({ ESCALE_REQUESTS }) => server(" --test server fire_ -- --nocapture", `ESCALE_REQUESTS=${ESCALE_REQUESTS} `),
    shown: "ESCALE_REQUESTS=100000 cargo test -p escale-server --all-features fire_",
    minutes: 4,
    rests: [...SERVER_TESTS, "server/tests/server/fire"],
    writes: ["server-orgs", "server-orgs-network", "server-floods", "server-tokens"],
  },
  {
    name: "failovers",
    counts: { FAILOVERS: 150 },
    command: ({ FAILOVERS }) => `make failovers FAILOVERS=${FAILOVERS}`,
    minutes: 12,
    rests: [...WHOLE, "tests/e2e/page/failovers.test.mjs"],
    writes: ["failovers"],
  },
  {
    name: "quotas",
    counts: { QUOTAS: 30 },
    command: ({ QUOTAS }) => `make quotas QUOTAS=${QUOTAS}`,
    minutes: 3,
    rests: [...WHOLE, "tests/e2e/device/quota.test.mjs"],
    writes: ["quota"],
  },
  {
    name: "flips",
    counts: { FLIPS: 200 },
    command: ({ FLIPS }) => `make flips FLIPS=${FLIPS}`,
    minutes: 6,
    rests: [...WHOLE, "tests/e2e/device/flips.test.mjs"],
    writes: ["flips"],
  },
  {
    name: "histories",
    counts: { HISTORIES: 100 },
    command: ({ HISTORIES }) => `make histories HISTORIES=${HISTORIES}`,
    minutes: 4,
    rests: [...CORE, ...API, "examples/servers/node", "tests/servers", "tests/e2e/server/second-server.test.mjs"],
    writes: ["histories"],
  },
  {
    name: "conformance",
    counts: { HISTORIES: 10 },
    command: ({ HISTORIES }) => `make conformance HISTORIES=${HISTORIES}`,
    minutes: 15,
    rests: [...SERVER, "conformance", "examples/servers", "tests/conformance"],
    writes: ["conformance"],
    done: ({ HISTORIES }) => `every check against three servers, ${HISTORIES} histories in each run`,
  },
  {
    name: "soak",
    counts: { ROUNDS: 300 },
    command: ({ ROUNDS }) => `make soak ROUNDS=${ROUNDS}`,
    minutes: 1,
    rests: [...WHOLE, "tests/e2e/page/soak.test.mjs"],
    writes: ["soak"],
  },
  {
    name: "bits",
    counts: { ESCALE_CASES: 1_000 },
    command: ({ ESCALE_CASES }) => core(" --test rules r14_each_bit -- --nocapture", `ESCALE_CASES=${ESCALE_CASES} `),
    shown: "ESCALE_CASES=1000 cargo test --test rules r14_each_bit -- --nocapture",
    minutes: 1,
    rests: [...CORE, "testkit", "tests/rules/sealed.rs"],
    writes: ["bits"],
  },
  {
    name: "chains",
    counts: { ESCALE_CASES: 40_000 },
    command: ({ ESCALE_CASES }) => core(" --test operations r92_chains -- --nocapture", `ESCALE_CASES=${ESCALE_CASES} `),
    shown: "ESCALE_CASES=40000 cargo test --test operations r92_chains -- --nocapture",
    minutes: 6,
    rests: [...CORE, "testkit", "tests/operations/conflicts/random_chains.rs"],
    writes: ["chains"],
  },
  {
    name: "swaps",
    counts: { ESCALE_CASES: 10_000 },
    command: ({ ESCALE_CASES }) => core(" --test rules r14_what_rests -- --nocapture", `ESCALE_CASES=${ESCALE_CASES} `),
    shown: "cargo test --test rules r14_what_rests -- --nocapture",
    minutes: 1,
    rests: [...CORE, "testkit", "tests/rules/sealed.rs"],
    writes: ["swaps"],
  },
  {
    name: "faults",
    counts: {},
    command: () => core(" --test faults -- --nocapture"),
    shown: "cargo test --test faults -- --nocapture",
    minutes: 1,
    rests: [...CORE, "testkit", "tests/faults"],
    writes: ["faults"],
  },
  {
    name: "once",
    counts: {},
    command: () => core(" --test operations r11_exactly_once -- --nocapture"),
    shown: "cargo test --test operations r11_exactly_once -- --nocapture",
    minutes: 3,
    rests: [...CORE, "testkit", "tests/operations"],
    writes: ["once"],
  },
  {
    name: "tabs",
    counts: { ESCALE_CASES: 8_000 },
    command: ({ ESCALE_CASES }) => core(" --test tabs -- --nocapture", `ESCALE_CASES=${ESCALE_CASES} `),
    shown: "ESCALE_CASES=8000 cargo test --test tabs -- --nocapture",
    minutes: 20,
    rests: [...CORE, "testkit", "tests/tabs"],
    writes: ["tabs-once", "tabs-refused", "tabs-dropped"],
  },
  {
    name: "releases",
    counts: { ESCALE_CASES: 20_000 },
    command: ({ ESCALE_CASES }) => core(" --test tabs r10_two_releases -- --nocapture", `ESCALE_CASES=${ESCALE_CASES} `),
    shown: "ESCALE_CASES=20000 cargo test --test tabs r10_two_releases -- --nocapture",
    minutes: 8,
    rests: [...CORE, "testkit", "tests/tabs"],
    writes: ["tabs-releases"],
  },
  {
    name: "random-core",
    counts: {},
    command: () => core("", "ESCALE_EFFORT=proof "),
    shown: "ESCALE_EFFORT=proof cargo test -p escale --all-features",
    minutes: 20,
    rests: [...CORE, "testkit", "tests/machine", "tests/operations", "tests/rules", "tests/tabs", "tests/wire", "tests/hostile"],
    writes: ["random-core"],
    done: () => "ten times the usual histories",
  },
  {
    name: "random-server",
    counts: {},
    command: () => server("", "ESCALE_EFFORT=proof "),
    shown: "ESCALE_EFFORT=proof cargo test -p escale-server --all-features",
    minutes: 20,
    rests: [...SERVER_TESTS, "server/tests"],
    writes: ["random-server"],
    done: () => "ten times the usual histories",
  },
  {
    name: "random-package",
    counts: {},
    command: () => 'ESCALE_EFFORT=proof make test PARTS="js packaging"',
    minutes: 20,
    rests: [...WHOLE, "tests/js", "tests/packaging", "www/test"],
    writes: ["random-package"],
    done: () => "ten times the usual histories",
  },
  {
    name: "mutants",
    counts: { SAMPLE: 300 },
    command: ({ SAMPLE }) => `make mutants SAMPLE=${SAMPLE}`,
    minutes: 55,
    rests: [...SERVER, "mutants", "scripts/mutants.mjs", "sim", "testkit", "tests/machine", "tests/operations", "tests/rules", "tests/tabs"],
    writes: ["mutants"],
    done: ({ SAMPLE }) => `${SAMPLE} mistakes`,
  },
];

/** Every variable that changes a count. */
export const VARIABLES = [...new Set(PROOFS.flatMap(({ counts }) => Object.keys(counts)))];

/** The proof that prints the line of this name. */
export const proofOf = (id) => PROOFS.find(({ writes }) => writes.includes(id));

/** The command of a proof's full run, as the page shows it. */
export const shownCommand = ({ shown, command, counts }) => shown ?? command(counts);
