// What docs/reliability.md tells: each promise with the tests that press on it, the command of its full run, and the `proof:`
// lines that the run ends with. A row without such a line is proved by every `make test`, in the part that it names.

/** `{ promise, tests, command, proofs }`; a proof that ends with `*` stands for all that begin so. */
export const ROWS = [
  {
    promise: "Whatever is lost, repeated, late or reordered, whoever crashes, whatever is put back: R1 to R12 hold, and all end equal",
    tests: ["sim"],
    command: "make sim SEEDS=1000000",
    proofs: ["sim"],
  },
  {
    promise: "What was told to be saved outlives a kill of the browser, and is done once",
    tests: ["tests/e2e/kill.test.mjs"],
    command: "make kill KILLS=300",
    proofs: ["kill"],
  },
  {
    promise: "The same in Firefox",
    tests: ["tests/e2e/kill.test.mjs"],
    command: "make kill-firefox KILLS=100",
    proofs: ["kill-firefox"],
  },
  {
    promise: "On a device of any size a session goes on; a full one is told, nothing saved is lost, and with room all is on it",
    tests: ["tests/e2e/quota.test.mjs"],
    command: "make quotas QUOTAS=30",
    proofs: ["quota"],
  },
  {
    promise: "A bit flipped in any file of the browser's storage shows nothing wrong, and every session equals the server in the end",
    tests: ["tests/e2e/flips.test.mjs"],
    command: "make flips FLIPS=200",
    proofs: ["flips"],
  },
  {
    promise: "A server written from docs/protocol.md alone serves real sessions: in random histories all end equal to it",
    tests: ["tests/e2e/second-server.test.mjs"],
    command: "make histories",
    proofs: ["histories"],
  },
  {
    promise: "Each single bit of a sealed record that is flipped is noticed (R14)",
    tests: ["tests/rules/sealed.rs"],
    command: "ESCALE_CASES=1000 cargo test --test rules r14_each_bit -- --nocapture",
    proofs: ["bits"],
  },
  {
    promise: "A sealed record opens in its own place alone: no other number, table, store, account or org (R14)",
    tests: ["tests/rules/sealed.rs"],
    command: "cargo test --test rules r14_what_rests -- --nocapture",
    proofs: ["swaps"],
  },
  {
    promise: "A device that fails at any call, in any way, loses nothing that was saved, and heals",
    tests: ["tests/faults"],
    command: "cargo test --test faults -- --nocapture",
    proofs: ["faults"],
  },
  {
    promise: "Each operation is executed once, whatever becomes of requests and answers",
    tests: ["tests/operations/once.rs"],
    command: "cargo test --test operations r11_exactly_once -- --nocapture",
    proofs: ["once"],
  },
  {
    promise: "No bytes make a decoder panic, hang or allocate out of proportion",
    tests: ["fuzz", "tests/hostile"],
    command: "make fuzz SECONDS=0 RUNS=10000000",
    proofs: ["fuzz-*"],
  },
  {
    promise: "A session in a browser works on after each altered reply, in one instance of the wasm",
    tests: ["tests/e2e/hostile.test.mjs"],
    command: "make hostile REPLIES=10000",
    proofs: ["hostile"],
  },
  {
    promise: "The wasm's memory stays flat, and every handle is returned",
    tests: ["tests/e2e/soak.test.mjs"],
    command: "make soak ROUNDS=300",
    proofs: ["soak"],
  },
  {
    promise: "Tabs over one store: each write is executed once, and all end equal (the core)",
    tests: ["tests/tabs"],
    command: "ESCALE_CASES=8000 cargo test --test tabs -- --nocapture",
    proofs: ["tabs-once", "tabs-refused", "tabs-dropped"],
  },
  {
    promise: "A leading tab that is killed, frozen or closed: another goes on within 10 s, nothing saved is lost or done twice",
    tests: ["tests/e2e/failovers.test.mjs"],
    command: "make failovers FAILOVERS=150",
    proofs: ["failovers"],
  },
  {
    promise: "A server killed at random loses nothing acknowledged, and does nothing twice",
    tests: ["server/tests/server/kills.rs"],
    command: "make kill-server KILLS=100",
    proofs: ["server-kills"],
  },
  {
    promise: "No byte of one org reaches another: engine, HTTP, sockets",
    tests: ["server/tests/server/fire_orgs.rs", "server/tests/server/fire_network.rs"],
    command: "ESCALE_REQUESTS=100000 cargo test -p escale-server fire_",
    proofs: ["server-orgs", "server-orgs-network"],
  },
  {
    promise: "Floods, slow and growing messages: the server's memory is bounded, honest callers are answered within 5 s",
    tests: ["server/tests/server/fire_floods.rs"],
    command: "cargo test -p escale-server fire_floods",
    proofs: ["server-floods"],
  },
  {
    promise: "A token that ends silences its open sockets within 5 s",
    tests: ["server/tests/server/fire_tokens.rs"],
    command: "cargo test -p escale-server fire_tokens",
    proofs: ["server-tokens"],
  },
  {
    promise: "A record altered, cut, swapped, deleted or put back is noticed, and what it held fetched again (R14)",
    tests: ["tests/rules/damage.rs", "tests/e2e/damage.test.mjs", "src/crypto/seal.rs"],
    command: 'make test PARTS="rust e2e"',
  },
  {
    promise: "A store that was put back, or lost its newest records or all of them, is told, with how many operations were pending; what a pull alone wrote in the last second is merely pulled again",
    tests: ["tests/faults/mark.rs", "tests/e2e/heal.test.mjs"],
    command: 'make test PARTS="rust e2e"',
  },
  {
    promise: "A transaction that aborts settles its write as not done, a full device included, and what waits is written once there is room",
    tests: ["src/web/idb/tests.rs", "tests/e2e/storage.test.mjs"],
    command: 'make test PARTS="browsers e2e"',
  },
  {
    promise: "A connection that the browser closed is opened anew, at growing delays, and the session goes on meanwhile",
    tests: ["tests/faults/healing.rs", "tests/e2e/heal.test.mjs"],
    command: 'make test PARTS="rust e2e"',
  },
  {
    promise: "A wrong passphrase, a damaged header and no store are told apart, and none of them writes anything",
    tests: ["tests/rules/store.rs", "src/crypto/header.rs", "tests/e2e/refusals.test.mjs"],
    command: 'make test PARTS="rust e2e"',
  },
  {
    promise: "A store of a later version is left as it is, and one of the first format opens with all that is in it",
    tests: ["tests/rules/format.rs", "tests/rules/store.rs"],
    command: 'make test PARTS="rust"',
  },
  {
    promise: "Nothing readable rests on the device, and nothing at all after an incognito session (R13, R15)",
    tests: ["tests/rules/secrecy.rs", "tests/e2e/plaintext.test.mjs"],
    command: 'make test PARTS="rust e2e"',
  },
  {
    promise: "The wasm dies in the middle of a call, at 24 places in turn: another instance takes over, nothing saved is lost or done twice",
    tests: ["tests/e2e/panic.test.mjs", "tests/js/panic.test.mjs"],
    command: 'make test PARTS="js e2e"',
  },
  {
    promise: "Refused operations hold back only what depends on them, and one that never ends is refused in the end (R12)",
    tests: ["tests/operations/conflicts.rs", "tests/operations/naming.rs", "server/tests/server/r12_lasting.rs"],
    command: 'make test PARTS="rust"',
  },
  {
    promise: "What is shown is the server's state with the pending operations on top, whatever order answers come in (R12)",
    tests: ["tests/rules/writes.rs"],
    command: 'make test PARTS="rust"',
  },
  {
    promise: "Ten thousand operations written offline outlive the page and are drained, each done once",
    tests: ["tests/e2e/drain.test.mjs", "tests/operations/drain.rs"],
    command: 'make test PARTS="rust e2e"',
  },
  {
    promise: "A sweep removes what the queries that define it remove, and on the device nothing that the server has not accepted",
    tests: ["server/tests/server/sweep.rs", "tests/operations/sweeps.rs"],
    command: 'make test PARTS="rust"',
  },
  {
    promise: "A session that slept past the server's memory, a server put back from a copy, clocks that disagree: all end equal (R4, R6, R8)",
    tests: ["server/tests/server/r4_clocks.rs", "server/tests/server/r6_horizon.rs", "server/tests/server/r8_cluster.rs"],
    command: 'make test PARTS="rust"',
  },
  {
    promise: "Whatever stands where the server should be, its pages included, has a name, and passes",
    tests: ["tests/e2e/faults.test.mjs"],
    command: 'make test PARTS="e2e"',
  },
];
