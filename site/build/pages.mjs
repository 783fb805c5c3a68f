// Which files of the repository are pages of the site, and under which paths.
import { readdir } from "node:fs/promises";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const PAGES = fileURLToPath(new URL("../pages", import.meta.url));

/** Documents outside of docs/, by the pages that they become. */
const OUTSIDE = {
  "README.md": "overview.md", "ARCHITECTURE.md": "architecture.md", "CHANGELOG.md": "changelog.md", "STYLE.md": "style.md",
  "DEPENDENCIES.md": "dependencies.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security-policy.md",
  "bench/results/tables.md": "performance-tables.md", "bench/results/history.md": "performance-history.md",
};

/** Every page that is a file of the repository: its path there, and its path in the site. */
export async function pages() {
  const found = new Map(Object.entries(OUTSIDE));
  const entries = await readdir(join(ROOT, "docs"), { recursive: true, withFileTypes: true });
  for (const entry of entries) {
    if (!entry.isFile() || !entry.name.endsWith(".md")) continue;
    const path = relative(ROOT, join(entry.parentPath, entry.name)).replaceAll("\\", "/");
    found.set(path, path.slice("docs/".length).replace(/(^|\/)README\.md$/, "$1index.md"));
  }
  return found;
}

/** The groups of the navigation. A page that does not exist is left out; a guide that is named nowhere comes last. */
export const GROUPS = [
  ["Start", ["guides/getting-started.md", "overview.md", "guides/comparison.md", "guides/moving.md", "guides/from-rxdb.md", "guides/from-watermelondb.md", "guides/from-replicache.md"]],
  [
    "Guides",
    ["guides/modelling.md", "guides/cookbook.md", "frameworks.md", "guides/react.md", "guides/vue.md", "guides/svelte-and-solid.md", "guides/accounts.md", "guides/rights.md", "guides/assigned-to-me.md", "guides/signing-out.md", "guides/files.md", "offline.md", "guides/own-server.md", "guides/*"],
  ],
  ["Tools", ["bundlers.md", "devtools.md", "testing-your-app.md", "conformance.md"]],
  ["Reference", ["api/index.md", "schema.md", "writes.md", "subscriptions.md", "rights.md", "status.md", "errors.md", "service-worker.md", "protocol.md", "server.md", "handler.md", "format.md", "rules.md", "security.md"]],
  ["Inside", ["architecture.md", "decisions/index.md", "performance.md", "performance-tables.md", "performance-history.md", "reliability.md", "testing.md", "mutants.md", "contributing.md", "style.md", "security-policy.md", "dependencies.md", "changelog.md"]],
];
