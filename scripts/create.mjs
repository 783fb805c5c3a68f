// Packs the packages of this repository into target/npm: escale, create-escale, escale-server with its binary for this
// machine, and escale-handler, which the documents tell to install. All have the version of pkg/package.json.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { platform } from "../create/server/index.mjs";

const TO = "target/npm";
const STAGE = join(TO, "stage");
const SERVER = join(process.env.CARGO_TARGET_DIR ?? "target", "release/escale-server");
const { version } = JSON.parse(readFileSync("pkg/package.json", "utf8"));

rmSync(TO, { recursive: true, force: true });
mkdirSync(STAGE, { recursive: true });
pack("pkg");
pack(staged("create-escale", "create"));
pack(staged("escale-server", "create/server"));
pack(staged("escale-handler", "handler"));
pack(binary());
rmSync(STAGE, { recursive: true });
console.log(`${TO} has ${readdirSync(TO).join(", ")}`);

/** A copy of a package, with the version of this build. */
function staged(name, from) {
  const folder = join(STAGE, name);
  const own = (source) => !/\/(node_modules|server)$/.test(source) || source === from;
  cpSync(from, folder, { recursive: true, filter: own });
  licences(folder);
  const file = join(folder, "package.json");
  const manifest = JSON.parse(readFileSync(file, "utf8"));
  manifest.version = version;
  for (const other of Object.keys(manifest.optionalDependencies ?? {})) manifest.optionalDependencies[other] = version;
  writeFileSync(file, JSON.stringify(manifest, null, 2));
  return folder;
}

/** The package of the server's binary. npm installs it on this platform only. */
function binary() {
  const on = platform();
  const [os, cpu, libc] = on.split("-");
  const folder = join(STAGE, on);
  mkdirSync(folder);
  licences(folder);
  cpSync(SERVER, join(folder, "escale-server"));
  const manifest = {
    name: `@escale/server-${on}`,
    version,
    description: `The binary of escale-server for ${on}`,
    license: "MIT OR Apache-2.0",
    os: [os],
    cpu: [cpu],
    ...(libc && { libc: [libc === "gnu" ? "glibc" : libc] }),
    files: ["escale-server"],
  };
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest, null, 2));
  return folder;
}

function licences(folder) {
  for (const name of ["LICENSE-MIT", "LICENSE-APACHE"]) cpSync(name, join(folder, name));
}

function pack(folder) {
  execFileSync("npm", ["pack", "--silent", "--pack-destination", TO, `./${folder}`], { stdio: ["ignore", "ignore", "inherit"] });
}
