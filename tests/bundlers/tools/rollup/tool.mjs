export const title = "Rollup";
export const versions = { rollup: { rollup: "4.68.8", "@rollup/plugin-node-resolve": "16.0.3" } };
const module = '<!doctype html><script type="module" src="main.js"></script>';
const inline = '<!doctype html><script type="module" src="main-inline.js"></script>';
const script = '<!doctype html><body><script src="main-inline.js"></script>';
export const cells = [
  { what: "`nodeResolve()`", build: "rollup -c --silent", folder: "dist", html: module, offline: { files: "dist" } },
  {
    what: "`nodeResolve({ browser: true })`", build: "rollup -c --silent --configBrowser", folder: "dist", html: inline,
    needs: '`import "escale/inline"`',
  },
  { what: "`iife`", build: "rollup -c --silent --configIife", folder: "dist", html: script, needs: '`import "escale/inline"`' },
];
