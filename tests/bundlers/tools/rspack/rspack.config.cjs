const { rspack } = require("@rspack/core");

module.exports = { entry: "./src/main-worker.js", plugins: [new rspack.HtmlRspackPlugin()] };
