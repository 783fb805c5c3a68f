// The rows of docs/reliability.md: each promise with its tests, and the `proof:` lines at the end of its full run.
// table.mjs has the command of that run. A row without such a line is proved by every `make test`, in the part that its
// command names.

/** `{ promise, tests, proofs }`, or `command` for `proofs`. `fuzz-*` stands for all proofs with that beginning. */
export const ROWS = [
  {
    promise: "R1 to R12, R18, R19 and R24 to R28 hold, and all sessions end equal to the server, if messages are lost, repeated, late or reordered, processes crash, and copies are restored",
    tests: ["sim"],
    proofs: ["sim"],
  },
  {
    promise: "A write that was reported as saved survives a kill of the browser, and is executed once",
    tests: ["tests/e2e/device/kill.test.mjs"],
    proofs: ["kill"],
  },
  {
    promise: "The same in Firefox",
    tests: ["tests/e2e/device/kill.test.mjs"],
    proofs: ["kill-firefox"],
  },
  {
    promise: "A session works on a device of any size. It reports a full device, loses no saved write, and stores everything once there is room",
    tests: ["tests/e2e/device/quota.test.mjs"],
    proofs: ["quota"],
  },
  {
    promise: "If a bit flips in any file of the browser's storage, sessions show no wrong document, and equal the server in the end",
    tests: ["tests/e2e/device/flips.test.mjs"],
    proofs: ["flips"],
  },
  {
    promise: "A server written from [the protocol](protocol.md), [the schema](schema.md) and [the rules](rules.md) alone serves real sessions: in random histories all of them end equal to it",
    tests: ["tests/e2e/server/second-server.test.mjs"],
    proofs: ["histories"],
  },
  {
    promise: "Each flipped bit of a sealed record is detected (R14)",
    tests: ["tests/rules/sealed.rs"],
    proofs: ["bits"],
  },
  {
    promise: "Chains of pending writes on two to four devices, with each policy, end as a naive fold of the rule says (R92)",
    tests: ["tests/operations/conflicts/random_chains.rs"],
    proofs: ["chains"],
  },
  {
    promise: "A sealed record opens only under its own number, table, store, account and org (R14)",
    tests: ["tests/rules/sealed.rs"],
    proofs: ["swaps"],
  },
  {
    promise: "If a device fails at any call, in any way, no saved operation is lost, and the session recovers",
    tests: ["tests/faults"],
    proofs: ["faults"],
  },
  {
    promise: "Each operation is executed once, even if requests and answers are lost, repeated or late",
    tests: ["tests/operations/once.rs"],
    proofs: ["once"],
  },
  {
    promise: "No bytes make a decoder panic, hang or allocate out of proportion",
    tests: ["fuzz", "tests/hostile"],
    proofs: ["fuzz-*"],
  },
  {
    promise: "A session in a browser keeps working after each altered reply, in one instance of the wasm",
    tests: ["tests/e2e/server/hostile.test.mjs"],
    proofs: ["hostile"],
  },
  {
    promise: "The wasm's memory stays flat, and the wasm returns every handle",
    tests: ["tests/e2e/page/soak.test.mjs"],
    proofs: ["soak"],
  },
  {
    promise: "Tabs over one store: each write is executed once, and all end equal (the core)",
    tests: ["tests/tabs"],
    proofs: ["tabs-once", "tabs-refused", "tabs-dropped"],
  },
  {
    promise: "Of two releases of an application in the tabs of one browser, with other classes, items, indexes, functions and conflict policies, nothing that was told to be saved is lost",
    tests: ["tests/tabs/histories.rs"],
    proofs: ["tabs-releases"],
  },
  {
    promise: "If the leading tab is killed, frozen or closed, another leads within 10 s, and no saved write is lost or executed twice",
    tests: ["tests/e2e/page/failovers.test.mjs"],
    proofs: ["failovers"],
  },
  {
    promise: "A file that was added is sent whole while the browser and the server are killed, and a kill costs 3 MiB at most",
    tests: ["tests/e2e/device/films.test.mjs"],
    proofs: ["kill-files"],
  },
  {
    promise: "A server killed at random loses no acknowledged operation, and executes none twice",
    tests: ["server/tests/server/operating/kills.rs"],
    proofs: ["server-kills"],
  },
  {
    promise: "An instance on PostgreSQL that is killed at random loses nothing acknowledged, and executes nothing twice",
    tests: ["server/tests/server/operating/kills.rs"],
    proofs: ["server-kills-postgres"],
  },
  {
    promise: "A server whose PostgreSQL is killed at random loses nothing acknowledged, executes nothing twice, and goes on",
    tests: ["server/tests/server/operating/kills.rs"],
    proofs: ["server-kills-database"],
  },
  {
    promise: "Three servers on one PostgreSQL are killed, paused and cut off, and the database is killed and promoted: nothing is lost or done twice, nobody is stuck, and all answer the same",
    tests: ["server/tests/server/operating/instances.rs"],
    proofs: ["cluster"],
  },
  {
    promise: "A site loses its database and goes on from a restore, a dump, a promoted standby or a copy: sessions report each lost operation, and end equal (R8, R39)",
    tests: ["server/tests/server/operating/drills.rs"],
    proofs: ["drills"],
  },
  {
    promise: "An instance meets each commit of any other one once, in any order of overlapping transactions (R40)",
    tests: ["server/tests/server/operating/postgres.rs"],
    proofs: ["feed"],
  },
  {
    promise: "Ten thousand sockets hear of every write, and all sessions come back after the server was killed",
    tests: ["server/tests/server/crowd/sockets.rs"],
    proofs: ["crowd"],
  },
  {
    promise: "The sessions of a site come back from kills and from a slow database within 60 s, in virtual time (R42)",
    tests: ["server/src/http/hub/tests/storms.rs"],
    proofs: ["storms"],
  },
  {
    promise: "The reference server and both example servers keep each promise of [the protocol](protocol.md), and the kit finds each planted fault",
    tests: ["tests/conformance"],
    proofs: ["conformance"],
  },
  {
    promise: "The random tests of the core hold in ten times their usual histories",
    tests: ["tests/machine", "tests/operations", "tests/rules", "tests/tabs", "tests/wire"],
    proofs: ["random-core"],
  },
  {
    promise: "The random tests of the server hold in ten times their usual histories",
    tests: ["server/tests/server"],
    proofs: ["random-server"],
  },
  {
    promise: "The random tests of the package hold in ten times their usual histories",
    tests: ["tests/js", "tests/packaging"],
    proofs: ["random-package"],
  },
  {
    promise: "Tests find the mistakes that are planted into the rules' sources, but for those of [the list](mutants.md)",
    tests: ["mutants"],
    proofs: ["mutants"],
  },
  {
    promise: "No byte of one org reaches another: engine, HTTP, sockets",
    tests: ["server/tests/server/fire/fire_orgs.rs", "server/tests/server/fire/fire_network.rs"],
    proofs: ["server-orgs", "server-orgs-network"],
  },
  {
    promise: "Under floods, slow and growing messages the server's memory stays bounded, and it answers honest callers within 5 s",
    tests: ["server/tests/server/fire/fire_floods.rs"],
    proofs: ["server-floods"],
  },
  {
    promise: "While all attacks come together, an honest account's writes take at most 1 s (p99) and are never refused as busy. The server's memory stays under 768 MiB, and its database grows by less than ten times the bytes sent",
    tests: ["server/tests/server/fire/fire_together.rs"],
    proofs: ["server-attacks"],
  },
  {
    promise: "The open sockets of a token go silent within 5 s of its end",
    tests: ["server/tests/server/fire/fire_tokens.rs"],
    proofs: ["server-tokens"],
  },
  {
    promise: "A session detects a record that was altered, cut, swapped, deleted or restored, and fetches its data again (R14)",
    tests: ["tests/rules/damage.rs", "tests/e2e/device/damage.test.mjs", "src/crypto/seal.rs"],
    command: 'make test PARTS="rust e2e"',
  },
  {
    promise: "A session reports a store that was restored from a copy, or lost its newest or all records, and how many operations were pending. Data that a pull alone wrote in the last second is pulled again, without a report",
    tests: ["tests/faults/mark.rs", "tests/e2e/device/heal.test.mjs"],
    command: 'make test PARTS="rust e2e"',
  },
  {
    promise: "If a transaction aborts, on a full device too, its write counts as not done, and pending writes are stored once there is room",
    tests: ["src/web/idb/tests.rs", "tests/e2e/device/storage.test.mjs"],
    command: 'make test PARTS="browsers e2e"',
  },
  {
    promise: "If the browser closes the database connection, the session opens it again, at growing delays, and keeps working meanwhile",
    tests: ["tests/faults/healing.rs", "tests/e2e/device/heal.test.mjs"],
    command: 'make test PARTS="rust e2e"',
  },
  {
    promise: "A wrong passphrase, a damaged header and a missing store have different errors, and none of them writes anything",
    tests: ["tests/rules/store.rs", "src/crypto/header.rs", "tests/e2e/server/refusals.test.mjs"],
    command: 'make test PARTS="rust e2e"',
  },
  {
    promise: "A store of a later version remains unchanged, and a checked-in store opens with all its data",
    tests: ["tests/rules/format.rs", "tests/rules/store.rs"],
    command: 'make test PARTS="rust"',
  },
  {
    promise: "The device holds nothing readable, files and HTTP cache included, and nothing at all after an incognito session (R13, R15, R27)",
    tests: ["tests/rules/secrecy.rs", "tests/e2e/device/plaintext.test.mjs", "tests/e2e/device/plaintext-files.test.mjs"],
    command: 'make test PARTS="rust e2e"',
  },
  {
    promise: "If the wasm dies in the middle of a call, at 24 points in turn, another instance takes over, and no saved write is lost or executed twice",
    tests: ["tests/e2e/page/panic.test.mjs", "tests/js/panic.test.mjs"],
    command: 'make test PARTS="js e2e"',
  },
  {
    promise: "A refused operation blocks only its dependents, and an operation that never completes is refused in the end (R12)",
    tests: ["tests/operations/conflicts/policies.rs", "tests/operations/naming.rs", "server/tests/server/rules/r12_lasting.rs"],
    command: 'make test PARTS="rust"',
  },
  {
    promise: "By the policy `ask`, in random histories with restarts and decisions, no write replaces a change that its user had not seen (R92)",
    tests: ["tests/operations/conflicts/asked.rs"],
    command: 'make test PARTS="rust"',
  },
  {
    promise: "A session shows the server's state with the pending operations on top, in any order of the answers (R12)",
    tests: ["tests/rules/writes.rs"],
    command: 'make test PARTS="rust"',
  },
  {
    promise: "Ten thousand operations written offline outlive the page and are drained, each executed once",
    tests: ["tests/e2e/server/drain.test.mjs", "tests/operations/sending/drain.rs"],
    command: 'make test PARTS="rust e2e"',
  },
  {
    promise: "A sweep removes the same rows as the queries that define it, and on the device no operation that the server has not accepted",
    tests: ["server/tests/server/operating/sweep.rs", "tests/operations/sweeps.rs"],
    command: 'make test PARTS="rust"',
  },
  {
    promise: "All sessions end equal to the server if one slept longer than the server remembers, if the server was restored from a copy, and if clocks disagree (R4, R6, R8)",
    tests: ["server/tests/server/rules/r4_clocks.rs", "server/tests/server/rules/r6_horizon.rs", "server/tests/server/rules/r8_cluster.rs"],
    command: 'make test PARTS="rust"',
  },
  {
    promise: "Any wrong answer at the server's address, a web page included, is a named error, and the session recovers",
    tests: ["tests/e2e/server/faults.test.mjs"],
    command: 'make test PARTS="e2e"',
  },
];
