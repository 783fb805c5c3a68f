export const title = "Next";
export const versions = { next: { next: "16.4.6", react: "19.3.1", "react-dom": "19.3.1" } };
const routes = ["/api", "/edge"];
export const cells = [
  { what: "Turbopack, development", serve: "next dev --turbopack --port {port}", routes },
  { what: "Turbopack, build", build: "next build --turbopack", serve: "next start --port {port}", routes },
  { what: "webpack, development", serve: "next dev --webpack --port {port}", routes },
  { what: "webpack, build", build: "next build --webpack", serve: "next start --port {port}", routes },
  // Such a build has no routes of a server.
  { what: '`output: "export"`', build: "rm -r app/api app/edge && NEXT_OUTPUT=export next build", offline: { files: "out" } },
];
