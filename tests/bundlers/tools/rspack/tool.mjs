export const title = "Rspack";
export const versions = { rspack: { "@rspack/core": "2.3.3", "@rspack/cli": "2.2.8", "@rspack/dev-server": "2.2.2" } };
export const cells = [
  { what: "development server", serve: "rspack serve --mode development --port {port} --host localhost", worker: true },
  { what: "build", build: "rspack build --mode production", folder: "dist", worker: true, offline: { files: "dist" } },
];
