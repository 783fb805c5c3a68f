export const title = "no bundler";
export const versions = { none: {} };
const importMap = '{ "imports": { "escale": "/node_modules/escale/index.js" } }';
const html = `<!doctype html><script type="importmap">${importMap}</script><script type="module" src="/src/main.js"></script>`;
export const cells = [{ what: "import map", needs: "an import map", serve: "node serve.mjs {port}", folder: ".", html }];
