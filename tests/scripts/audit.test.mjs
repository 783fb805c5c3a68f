// `make audit`: findings fail, and a look-up that is impossible is no finding. Programs of this test stand for cargo and npm.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const NONE = '{"vulnerabilities":{}}';

/** Runs the audit with this cargo, a script, and this answer of `npm audit`. */
function audit(t, { cargo, npm = NONE }) {
  const home = mkdtempSync(join(tmpdir(), "escale-audit-"));
  t.after(() => rmSync(home, { recursive: true }));
  mkdirSync(join(home, "bin"));
  for (const [name, text] of Object.entries({ cargo, npm: `cat <<'JSON'\n${npm}\nJSON\nexit 1` })) {
    writeFileSync(join(home, "bin", name), `#!/bin/sh\n${text}\n`);
    chmodSync(join(home, "bin", name), 0o755);
  }
  const { status, stdout, stderr } = spawnSync(join(ROOT, "scripts/audit"), { encoding: "utf8", env: { PATH: process.env.PATH, HOME: home, CARGO_HOME: home } });
  return { status, output: stdout + stderr };
}

test("without findings the audit is content", (t) => {
  const { status, output } = audit(t, { cargo: "exit 0" });
  assert.equal(status, 0, output);
  assert.match(output, /crates: licences, sources and versions are those of deny.toml\ncrates: no known vulnerability\n/);
  for (const folder of [".", "site", "bench"]) assert.ok(output.includes(`npm, ${folder}: no known vulnerability\n`), output);
});

test("a missing tool and a missing network are told, and are no failure", (t) => {
  const without = audit(t, { cargo: "exit 101", npm: '{"message":"ENOTFOUND registry"}' });
  assert.equal(without.status, 0, without.output);
  assert.match(without.output, /crates: not looked at: cargo-deny is missing\. Install it: cargo install cargo-deny/);
  assert.match(without.output, /npm, \.: vulnerabilities not looked up: ENOTFOUND registry/);
  const offline = audit(t, { cargo: 'case "$*" in *fetch*db*) exit 1 ;; esac', npm: "" });
  assert.equal(offline.status, 0, offline.output);
  assert.match(offline.output, /crates: licences.*\ncrates: vulnerabilities not looked up/);
  assert.match(offline.output, /npm, site: vulnerabilities not looked up: the registry cannot be reached/);
});

test("a finding fails: of licences, of advisories, and of npm from high on", (t) => {
  const found = (severity) => `{"vulnerabilities":{"a":{"name":"a","severity":"${severity}","range":"<2"}}}`;
  for (const kind of ["bans", "advisories"]) {
    const { status, output } = audit(t, { cargo: `case "$*" in *${kind}*) exit 1 ;; esac` });
    assert.equal(status, 1, output);
    assert.match(output, /error: the audit has findings/);
  }
  assert.equal(audit(t, { cargo: "exit 0", npm: found("high") }).status, 1);
  const moderate = audit(t, { cargo: "exit 0", npm: found("moderate") });
  assert.equal(moderate.status, 0, moderate.output);
  assert.match(moderate.output, /npm, bench: moderate: a <2/);
});

test("no lock file names the host of a registry", () => {
  for (const path of ["package-lock.json", "site/package-lock.json", "bench/package-lock.json"]) {
    const { packages } = JSON.parse(readFileSync(join(ROOT, path), "utf8"));
    const named = Object.entries(packages).filter(([, { resolved }]) => /^\w+:\/\//.test(resolved ?? ""));
    assert.deepEqual(named.map(([name]) => name), [], path);
    assert.ok(Object.entries(packages).every(([name, { integrity, link }]) => !name.includes("node_modules/") || integrity || link), `${path}: each has its sum`);
  }
});
