export const title = "esbuild";
export const versions = { esbuild: { esbuild: "0.28.2" } };
const build = (folder, ...flags) => `esbuild src/main.js --bundle --minify --outdir=${folder} --log-level=warning ${flags.join(" ")}`;
const module = '<!doctype html><script type="module" src="main.js"></script>';
const script = '<!doctype html><body><script src="main.js"></script>';
export const cells = [
  { what: "one module", build: build("esm", "--format=esm"), folder: "esm", html: module, offline: { files: "esm" } },
  { what: "with splitting", build: build("split", "--format=esm", "--splitting"), folder: "split", html: module },
  { what: "`iife`", build: build("iife", "--format=iife"), folder: "iife", html: script },
  {
    what: "with the wasm in a file",
    build: `${build("file", "--format=esm", "--conditions=production")} && cp node_modules/escale/escale_bg.wasm file`,
    folder: "file",
    html: module,
    needs: "`--conditions=production`, and a copy of the file",
  },
  { what: "for Node", build: "esbuild src/node.js --bundle --platform=node --outfile=node.cjs", run: "node node.cjs" },
];
