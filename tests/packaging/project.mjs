// New projects that install the packed package, as a user's would.
import { execFile } from "node:child_process";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const HERE = fileURLToPath(new URL(".", import.meta.url));

const execute = promisify(execFile);

/** Returns a command's output. If it fails, the error has all of its output. */
export async function runCommand(folder, command, ...args) {
  try {
    const { stdout } = await execute(command, args, { cwd: folder, maxBuffer: 16 << 20 });
    return stdout;
  } catch (error) {
    throw new Error(`${command} ${args.join(" ")} failed\n${error.stdout}${error.stderr}`, { cause: error });
  }
}

/** The packed package: its file, and npm's description of it. */
export async function pack(folder) {
  const [packed] = JSON.parse(await runCommand(ROOT, "npm", "pack", "--json", "--pack-destination", folder, "./pkg"));
  return { ...packed, path: join(folder, packed.filename) };
}

/** A new project with the files of a fixture and the packed package installed; `remove` deletes it. */
export async function makeProject(fixture = "fixture") {
  const folder = await mkdtemp(join(tmpdir(), "escale-packaging-"));
  await cp(join(HERE, fixture), folder, { recursive: true });
  await writeFile(join(folder, "package.json"), JSON.stringify({ name: "project", private: true, type: "module" }));
  const packed = await pack(folder);
  await runCommand(folder, "npm", "install", "--offline", "--no-audit", "--no-fund", packed.path);
  return { folder, packed, remove: () => rm(folder, { recursive: true }) };
}

/** The documents that the application of the fixture shows. */
export const SHOWN = {
  names: ["Zola", "\u00e9\u00e0\u00fc"],
  large: ["Zola"],
  same: true,
  mode: "incognito",
  storage: "none",
};
