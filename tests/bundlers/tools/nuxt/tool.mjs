export const title = "Nuxt";
export const versions = { nuxt: { nuxt: "4.5.2", vue: "3.5.45", node: "22.23.3" } };
const routes = ["/api/notes"];
export const cells = [
  { what: "development server", serve: "nuxt dev --port {port} --no-fork", routes },
  { what: "build", build: "nuxt build", serve: "node .output/server/index.mjs", routes, needs: '`nitro: { externals: { inline: ["escale"] } }`, for server routes' },
  { what: "generate", build: "nuxt generate", offline: { files: ".output/public", options: "--fallback 200.html" } },
];
