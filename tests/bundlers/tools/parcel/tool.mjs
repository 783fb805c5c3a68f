import { serving } from "../../support/serve.mjs";

export const title = "Parcel";
export const versions = { parcel: { parcel: "2.16.4" } };
export const cells = [
  { what: "development server", serve: "parcel serve index.html --port {port} --no-hmr", worker: true },
  {
    what: "build",
    build: "parcel build index.html --no-cache --dist-dir build",
    // It writes an import map into the page, which the policy of our own server forbids.
    serve: serving("build"),
    worker: true,
    offline: { files: "build" },
  },
];
