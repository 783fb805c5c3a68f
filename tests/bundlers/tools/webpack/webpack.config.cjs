const HtmlPlugin = require("html-webpack-plugin");

module.exports = { entry: "./src/main-worker.js", plugins: [new HtmlPlugin()] };
