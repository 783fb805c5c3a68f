import nodeResolve from "@rollup/plugin-node-resolve";

export default ({ configBrowser = false, configIife = false }) => ({
  input: configBrowser || configIife ? "src/main-inline.js" : "src/main.js",
  output: { dir: "dist", format: configIife ? "iife" : "es" },
  plugins: [nodeResolve({ browser: configBrowser })],
});
