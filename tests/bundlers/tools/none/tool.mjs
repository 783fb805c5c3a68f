import { serving } from "../../support/serve.mjs";

export const title = "no bundler";
export const versions = { none: {} };
const page = (escale) => {
  const imports = { escale: `${escale}/index.js`, "escale/offline": `${escale}/offline.js` };
  return `<!doctype html><script type="importmap">${JSON.stringify({ imports })}</script><script type="module" src="/src/main.js"></script>`;
};
const needs = "an import map";
export const cells = [
  { what: "import map", needs, serve: serving("."), folder: ".", html: page("/node_modules/escale") },
  {
    what: "import map, with a copy of the files",
    needs,
    build: "mkdir -p public/escale && cp $(escale files) public/escale && cp -r src public",
    serve: serving("public"),
    folder: "public",
    html: page("/escale"),
    offline: { files: "public" },
  },
];
