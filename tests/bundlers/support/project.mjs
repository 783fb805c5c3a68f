// A project of a tool: its own files, the shared application, the tool in its versions, and the package from its tarball.
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { rolldown } from "rolldown";

import { ROOT } from "../../packaging/project.mjs";
import { run } from "./run.mjs";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const INSTALL_MS = 300_000;
const IN_PAGE = join(ROOT, "tests/e2e/support/in-page/page-server.js");

/** A module with all that it imports, in the JavaScript of the oldest tools. */
async function oneFile(path) {
  const bundle = await rolldown({ input: path, transform: { target: "es2020" } });
  const { output } = await bundle.generate({ format: "es" });
  await bundle.close();
  return output[0].code;
}

/** Makes the project in a new folder. `remove` deletes it. */
export async function makeProject(name, tool, packages, tarball) {
  const folder = await mkdtemp(join(tmpdir(), `escale-${name}-`));
  const sources = join(folder, tool.sources ?? "src");
  await mkdir(sources, { recursive: true });
  await cp(at("../app"), sources, { recursive: true });
  await writeFile(join(sources, "page-server.js"), await oneFile(IN_PAGE));
  await cp(join(sources, "index.html"), join(folder, "index.html"));
  await cp(at(`../tools/${tool.folder}`), folder, { recursive: true });
  await rm(join(folder, "tool.mjs"));
  const escale = `file:${tarball}`;
  const manifest = { name: "project", version: "1.0.0", private: true, ...tool.manifest };
  const dependencies = tool.isDevelopment ? packages : { ...packages, escale };
  await writeFile(
    join(folder, "package.json"),
    JSON.stringify({ ...manifest, dependencies, ...(tool.isDevelopment && { devDependencies: { escale } }) }),
  );
  const remove = () => rm(folder, { recursive: true, force: true, maxRetries: 5 });
  try {
    await run(folder, "npm install --no-audit --no-fund --no-package-lock --prefer-offline --loglevel error", INSTALL_MS);
  } catch (error) {
    await remove();
    throw error;
  }
  return { folder, remove };
}
