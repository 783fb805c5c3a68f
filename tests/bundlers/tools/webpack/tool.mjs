export const title = "webpack";
export const versions = {
  webpack: { webpack: "5.112.2", "webpack-cli": "7.3.1", "webpack-dev-server": "6.1.0", "html-webpack-plugin": "5.6.8" },
};
export const cells = [
  { what: "development server", serve: "webpack serve --mode development --port {port} --host localhost", worker: true },
  { what: "build", build: "webpack --mode production", folder: "dist", worker: true, offline: { files: "dist" } },
];
