// Which Rust the commands use. A rustup of this test stands for the installed one.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const [, PINNED] = /^channel = "(.*)"$/m.exec(readFileSync(join(ROOT, "rust-toolchain.toml"), "utf8"));

/** The toolchain that is chosen if rustup has these, of which the default is of this version. */
function chosen(t, list, version) {
  const home = mkdtempSync(join(tmpdir(), "escale-toolchain-"));
  t.after(() => rmSync(home, { recursive: true }));
  mkdirSync(join(home, "bin"));
  writeFileSync(join(home, "bin/rustup"), `#!/bin/sh\ncase $1 in toolchain) printf '${list.join("\\n")}\\n' ;; run) echo "rustc ${version} (of a test)" ;; esac\n`);
  chmodSync(join(home, "bin/rustup"), 0o755);
  const { stdout, status } = spawnSync(join(ROOT, "scripts/toolchain"), { encoding: "utf8", env: { PATH: process.env.PATH, HOME: home, CARGO_HOME: home } });
  assert.equal(status, 0);
  return stdout.trim();
}

test("the pinned Rust is followed if it is there, and the default one of the same version needs no download", (t) => {
  assert.equal(chosen(t, ["stable-x (active, default)", `${PINNED}-x`], PINNED), "");
  assert.equal(chosen(t, ["stable-x (active, default)", "nightly-x"], PINNED), "stable-x");
  assert.equal(chosen(t, ["nightly-x", "stable-x (default)"], PINNED), "stable-x");
  assert.equal(chosen(t, ["stable-x (active, default)"], "1.2.3"), "", "rustup fetches the pinned one");
  assert.equal(chosen(t, ["nightly-x"], PINNED), "", "there is no default");
});

test("the pinned Rust is one that Cargo.toml allows, and that of the image", () => {
  const [, least] = /^rust-version = "(.*)"$/m.exec(readFileSync(join(ROOT, "Cargo.toml"), "utf8"));
  const [a, b] = [PINNED, least].map((version) => version.split(".").map(Number));
  const image = readFileSync(join(ROOT, "server/deploy/Containerfile"), "utf8");
  assert.match(image, new RegExp(`^FROM rust:${PINNED}-slim-bookworm@sha256:[0-9a-f]{64} AS build\nENV RUSTUP_TOOLCHAIN=${PINNED}$`, "m"));
  assert.ok(a[0] === b[0] && a[1] >= b[1], `${PINNED} and ${least}`);
});
