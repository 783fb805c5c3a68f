// Writes an application from the templates. Everything is checked before the first file is written.
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const { version: VERSION } = JSON.parse(readFileSync(join(HERE, "package.json"), "utf8"));

/** The packages of an application with React: those that it runs with, and those that build it. */
const REACT = {
  dependencies: { react: "^19.3.0", "react-dom": "^19.3.0" },
  devDependencies: { "@types/react": "^19.3.0", "@types/react-dom": "^19.3.0", "@vitejs/plugin-react": "^6.3.0" },
};
/**
 * Each template: its folders, of which a later one replaces files of an earlier one, its packages, and the options that
 * its server needs besides.
 */
const ALL = {
  react: { parts: ["common", "react"], server: [], ...REACT },
  "react-accounts": { parts: ["common", "react", "react-accounts"], server: ["--sign-up", "open"], ...REACT },
  vanilla: { parts: ["common", "vanilla"], server: [], dependencies: {}, devDependencies: {} },
};
const TOOLS = { typescript: "^7.0.2", vite: "^8.3.0" };

/** The templates, the usual one first. */
export const TEMPLATES = Object.keys(ALL);

/** The names of packages: lower case, and nothing that a path or an address would need to quote. */
const NAME = /^[a-z0-9][a-z0-9._-]{0,213}$/;
/** npm installs no package into one of the same name. */
const TAKEN = ["escale", "escale-server", "node_modules", "favicon.ico", ...names(TOOLS), ...Object.values(ALL).flatMap((one) => [...names(one.dependencies), ...names(one.devDependencies)])];

/** A failure that the user can cure. */
export class Refused extends Error {
  constructor(message, cure) {
    super(message);
    this.cure = cure;
  }
}

/** The folder of that path. It must be new or empty, and its name one that a package may have. */
export function folderOf(given) {
  const path = resolve(given);
  const name = basename(path);
  if (!NAME.test(name)) {
    throw new Refused(`"${name}" cannot be the name of a package`, 'Use lower case letters, digits, "-", "_" and ".", beginning with a letter or digit');
  }
  if (TAKEN.includes(name)) throw new Refused(`"${name}" is the name of another package`, "Choose another name");
  if (existsSync(path)) {
    if (!statSync(path).isDirectory()) throw new Refused(`${path} is a file`, "Choose another name, or move the file away");
    // A repository that was just made is empty for its user.
    if (readdirSync(path).some((entry) => entry !== ".git")) {
      throw new Refused(`${path} is not empty`, "Choose a new folder, or move these files away: nothing is overwritten");
    }
  }
  return { given, path, name };
}

/** The template of that name. */
export function templateOf(name) {
  if (!TEMPLATES.includes(name)) throw new Refused(`there is no template "${name}"`, `Choose one of: ${TEMPLATES.join(", ")}`);
  return name;
}

/** Where the application gets Escale's packages: from the registry, or from the tarballs of a folder. */
export function packagesOf(from) {
  if (from === undefined) return (name) => (name.startsWith("@") ? undefined : `^${VERSION}`);
  const tarballs = existsSync(from) ? readdirSync(from) : [];
  const find = (name) => {
    const start = `${name.replace("@", "").replace("/", "-")}-${VERSION}`;
    return tarballs.find((file) => file === `${start}.tgz`);
  };
  for (const name of ["escale", "escale-server"]) {
    if (!find(name)) throw new Refused(`${from} has no tarball of ${name} ${VERSION}`, "Run `make create` in a clone of Escale, and give its folder target/npm");
  }
  return (name, folder) => find(name) && `file:${relative(folder, resolve(from, find(name))).replaceAll("\\", "/")}`;
}

/** Writes the application. */
export function write({ folder: { path, name }, template, packages }) {
  mkdirSync(path, { recursive: true });
  for (const part of ALL[template].parts) {
    // npm leaves files such as .gitignore out of a package: they begin with `_` here.
    const from = join(HERE, "template", part);
    for (const entry of readdirSync(from)) cpSync(join(from, entry), join(path, entry.replace(/^_/, ".")), { recursive: true });
  }
  fill(join(path, "README.md"), "APP_NAME", name);
  // The page is common to the templates, and its body is each template's own.
  const body = join(path, "body.html");
  fill(join(path, "index.html"), "APP_BODY", readFileSync(body, "utf8").trimEnd());
  rmSync(body);
  writeFileSync(join(path, "package.json"), `${JSON.stringify(manifest(path, name, template, packages), null, 2)}\n`);
}

function fill(file, place, text) {
  writeFileSync(file, readFileSync(file, "utf8").replace(place, () => text));
}

function manifest(path, name, template, packages) {
  const { dependencies, devDependencies, server } = ALL[template];
  // A tarball of the server's binary: the registry, where npm looks otherwise, may not have it yet.
  const binaries = ["@escale/server-linux-x64-gnu"].map((binary) => [binary, packages(binary, path)]).filter(([, at]) => at);
  return {
    name,
    private: true,
    version: "0.0.0",
    type: "module",
    scripts: {
      dev: "npm run types && node scripts/run.mjs dev",
      build: "npm run types && tsc && vite build",
      preview: "npm run types && tsc && node scripts/run.mjs preview",
      types: "escale schema types schema.json --out src/classes.ts",
    },
    // `scripts/run.mjs` starts the server with these.
    ...(server.length > 0 && { escale: { server } }),
    dependencies: { escale: packages("escale", path), ...dependencies },
    devDependencies: sorted({ ...devDependencies, ...TOOLS, "escale-server": packages("escale-server", path) }),
    ...(binaries.length > 0 && { optionalDependencies: Object.fromEntries(binaries) }),
  };
}

function names(packages) {
  return Object.keys(packages);
}

function sorted(packages) {
  return Object.fromEntries(Object.entries(packages).sort(([a], [b]) => (a < b ? -1 : 1)));
}
