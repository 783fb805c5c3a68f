# The commands of this repository. Each sets up what it needs, and does nothing twice.

define HELP
make demo | docs | test | proof | sim | mutants | fuzz | hostile | kill | kill-firefox | kill-files | bucket | kill-server | cluster | drills | machine | feeds | crowd | storms | failovers | attack | quotas | flips | histories | conformance | soak | bench | reliability | package | packages | create | create-apps | size | lint | audit | clean

  make demo      build everything, import the data, serve the demonstration on http://localhost:7800
                 (PORT and SERVER_PORT choose other ports), with the documentation under /docs
  make docs      build the documentation as a site, in site/dist
  make test      run every check and test; PARTS="js rust" runs only some: lint rust browsers js packaging docs
                 e2e. PARTS=quick is for the time before a commit: it needs no browser and no wasm
  make proof     run every long proof below that has a row in docs/reliability.md, and write the row: some 30 hours on two
                 cores. PART=3/40 runs the third of 40 parts, ONLY=sim,soak some proofs; PLAN=1 prints the parts and runs
                 nothing. It goes on where it stopped
  make sim       play SEEDS seeds (100000) of the simulator, from seed FROM (0); make test plays 10,000
  make mutants   plant SAMPLE mistakes (300), one at a time, and see that a test fails: SEED says which, SHARD=1/4 takes a
                 quarter of them; writes docs/mutants.md
  make fuzz      let each decoder read what a fuzzer makes up, for SECONDS each (60) or RUNS executions; TARGETS runs some
  make hostile   let a session in Chromium take REPLIES altered replies (10000), and see that it works on after each
  make kill      kill a Chromium that writes KILLS times (100), and see that nothing saved is lost or done twice
  make kill-firefox  the same with Firefox
  make kill-files  add and send a file of FILM_MIB (1024) while browsers and the server are killed KILLS times (20)
  make bucket    keep files in a server that speaks the protocol of Amazon S3, and see that it conforms
  make kill-server  the same with the server: kill it KILLS times (100) while clients write
  make cluster   kill, pause and cut three servers on one PostgreSQL ROUNDS times (200), kill it or let its standby take over
                 while clients write, and see that nothing is lost, done twice, stuck or different
  make drills    lose the database DRILLS times (20) in each of four ways while sessions write, go on from its copy, and see
                 that sessions report each loss and end equal
  make machine   follow docs/server.md word by word on a Debian of its own, and use the demonstration there; needs root
  make feeds     play FEEDS random histories (20000) of overlapping transactions on PostgreSQL, and see that the feed shows
                 each commit once
  make attack    let all attackers come at once at a server for SECONDS (60), next to an honest account that writes
  make crowd     open SOCKETS sockets (10000) of sessions at the server, write, kill it and let all come back: measures
                 memory, times and refusals
  make storms    let SESSIONS sessions (100000) at ten instances come back from kills and a slow database, in virtual time
  make failovers  end the leading tab of three FAILOVERS times (150): closed, killed or frozen; another must take over
  make quotas    give a session QUOTAS sizes of device (30), too small for the database to nearly enough
  make flips     flip FLIPS bits (200), one at a time, in the files of the browser's storage, and see that a session ends equal
  make histories  play HISTORIES random histories (100) of the package on a second server, written from docs/protocol.md alone
  make conformance  run every check of the conformance kit, with every hook, against the reference server and both servers
                 of examples/servers; HISTORIES random histories (10) in each run
  make soak      let a session work ROUNDS times (300) a hundred operations, and see that its memory stays flat
  make bench     measure it beside its peers in Chromium: ROUNDS rounds (5) of DOCUMENTS documents (10000), or of SET=packages,
                 or of SET=lists; SET=queries measures indexes, live queries and open lists, SET=items the items of one
                 document, SET=files files (LARGE=1: of 1 GiB too), and SET=storage records of files in two browsers; ONLY=raw:plain,escale runs some; BEFORE is the npm package of another build of Escale, which is
                 measured in turns with this one.
                 Five rounds of all take 20 minutes, and become the record in bench/results/tables.md; what is shorter is
                 printed
  make reliability  take the `proof:` lines of LOG into docs/reliability.data (COMMAND says what was run), and write
                 docs/reliability.md
  make package   leave the finished npm package in pkg/
  make packages  build and run an application with each bundler and test runner, in Chromium and in Node, and write the table
                 of docs/bundlers.md; ONLY=vite-7,jest runs some
  make create    pack the npm packages escale, create-escale, escale-handler and escale-server, with this machine's server, into
                 target/npm
  make create-apps  make an application of each template from these, install it from the registry, and use it in Chromium
  make size      print the code of the wasm by crate and by function, ROWS of each (25), and the package's bytes
  make lint      check format, clippy, types and ESLint
  make audit     look up licences, sources and known vulnerabilities of all dependencies, by cargo-deny and npm; what cannot
                 be looked up, for want of a tool or a network, is said
  make clean     remove all that was built
endef

CORE := Cargo.toml Cargo.lock cipher/Cargo.toml $(shell find src cipher -name '*.rs')
API := package.json tsconfig.json tsconfig.build.json Cargo.toml CHANGELOG.md LICENSE-MIT LICENSE-APACHE \
  $(shell find js/src -name '*.ts') $(shell find handler -name '*.mjs' -o -name '*.d.ts') js/cli/schema-command.mjs js/README.md $(shell find js/skills -type f)
PAGE := package-lock.json $(shell find www -type f -not -path '*/dist/*' -not -path '*/node_modules/*')
PARTS :=
SEEDS ?= 100000
FROM ?= 0
SECONDS ?= 60
RUNS ?= 0
TARGETS :=
export KILLS DRILLS FEEDS SOCKETS FAILOVERS QUOTAS FLIPS HISTORIES ROUNDS REPLIES DOCUMENTS ONLY BEFORE COMMAND

# Where the pinned Rust is installed under another name only.
RUSTUP_TOOLCHAIN ?= $(shell scripts/toolchain)
ifneq ($(RUSTUP_TOOLCHAIN),)
export RUSTUP_TOOLCHAIN
endif

.NOTPARALLEL:
.PHONY: help demo docs test sim mutants fuzz hostile kill kill-firefox kill-files bucket kill-server cluster drills machine feeds crowd storms failovers attack quotas flips histories conformance soak proof bench reliability package packages create create-apps size lint audit clean compiler rust npm browsers postgres python server demo-server clock

help:
	@: $(info $(HELP))

demo: package demo-server www/dist/index.html
	@scripts/demo

docs: npm
	@scripts/docs

# Before a commit nobody waits for the wasm and the browsers.
ifeq ($(PARTS),quick)
test: clock rust pkg/package.json
else
test: clock package www/dist/index.html browsers postgres
endif
	@ESCALE_SEEDS=$(or $(ESCALE_SEEDS),same) scripts/test $(PARTS)

proof: npm
	@node scripts/proofs/run.mjs

sim: rust
	@cargo run --locked --profile sim --package escale-sim -- --seeds $(SEEDS) --from $(FROM)

mutants: rust
	@SAMPLE=$(or $(SAMPLE),300) SEED=$(or $(SEED),1) SHARD=$(or $(SHARD),1/1) node scripts/mutants.mjs

fuzz: rust
	@scripts/need-fuzz
	@scripts/fuzz $(SECONDS) $(RUNS) $(TARGETS)

hostile: package browsers
	@scripts/test hostile

kill: package browsers
	@scripts/test kill

kill-firefox: package browsers
	@scripts/test kill-firefox

kill-files: package browsers
	@scripts/test kill-files

bucket: rust
	@scripts/bucket

kill-server: rust postgres
	KILLS=$${KILLS:-100} cargo test --locked --package escale-server --all-features --test server kills

cluster: rust postgres
	ROUNDS=$${ROUNDS:-200} cargo test --locked --package escale-server --all-features --test server instances -- --nocapture

drills: rust postgres
	DRILLS=$${DRILLS:-20} cargo test --locked --package escale-server --all-features --test server drills -- --nocapture

machine: package server www/dist/index.html browsers
	@scripts/fresh-machine

feeds: rust postgres
	FEEDS=$${FEEDS:-20000} cargo test --locked --package escale-server --all-features --test server r40_

crowd: server postgres
	@scripts/crowd

attack: server
	@scripts/attack $(SECONDS)

storms: rust
	SESSIONS=$${SESSIONS:-100000} cargo test --locked --package escale-server --all-features --lib storms -- --nocapture

failovers: package browsers
	@scripts/test failovers

quotas: package browsers
	@scripts/test quotas

flips: package browsers
	@scripts/test flips

histories: package npm
	@scripts/test histories

conformance: rust npm python postgres
	@scripts/test conformance

soak: package browsers
	@scripts/test soak

bench: package server browsers
	@scripts/bench

reliability:
	@node scripts/proofs/write-page.mjs $(LOG)

package: pkg/index.js
	@echo "pkg/ is ready: npm install $(CURDIR)/pkg"

packages: package browsers
	@scripts/packages

create: package server
	@node scripts/create.mjs

create-apps: package server browsers
	@scripts/test create

size: package
	@node scripts/size.mjs $(ROWS)

# What the last run took is in target/times.tsv.
clock:
	@rm -f "$${CARGO_TARGET_DIR:-target}/times.tsv"

lint: pkg/package.json rust browsers
	@scripts/lint

audit:
	@scripts/audit

clean:
	rm -rf target fuzz/target pkg js/dist www/dist site/dist site/pages site/.vitepress/cache data/run node_modules site/node_modules

# What is needed: looked for each time, installed where it is missing.
compiler:
	@scripts/need-compiler

rust: compiler
	@scripts/timed need-rust scripts/need-rust

npm:
	@scripts/timed need-npm scripts/need-npm

browsers: rust
	@scripts/timed need-browsers scripts/need-browsers

postgres:
	@scripts/timed need-postgres scripts/need-postgres

python:
	@scripts/need-python

# What is built.
pkg/escale_bg.wasm: $(CORE) scripts/build-wasm $(wildcard scripts/wasm/*.mjs) | rust npm
	@scripts/timed "Build of the wasm" scripts/build-wasm

pkg/package.json: $(API) scripts/build-js scripts/write-manifest.mjs scripts/entries.mjs | rust npm
	@scripts/timed "Build of the API" scripts/build-js

pkg/index.js: pkg/escale_bg.wasm pkg/package.json scripts/bundle.mjs scripts/entries.mjs
	@test -f js/dist/escale.js || scripts/build-wasm
	@node scripts/bundle.mjs

www/dist/index.html: $(PAGE) pkg/index.js | npm
	@scripts/timed "Build of the demonstration" npm run build --workspace www

# cargo knows what changed.
server: rust
	@scripts/build-server

# The same, quicker to build.
demo-server: rust
	@scripts/timed "Build of the demonstration's server" scripts/build-server demo
