export const title = "SvelteKit";
export const versions = {
  sveltekit: { "@sveltejs/kit": "2.70.4", "@sveltejs/adapter-node": "5.5.7", "@sveltejs/adapter-static": "3.0.10", "@sveltejs/vite-plugin-svelte": "6.2.3", svelte: "5.57.3", vite: "7.3.8" },
};
/** Bundled by adapter-node, which leaves out only the others. */
export const isDevelopment = true;
export const manifest = { type: "module" };
const routes = ["/api"];
export const cells = [
  { what: "development server", serve: "vite dev --port {port} --strictPort --logLevel warn", routes },
  { what: "build, in devDependencies", build: "vite build --logLevel warn", serve: "node build", routes },
  {
    what: "build, static",
    build: "SVELTEKIT_ADAPTER=static vite build --logLevel warn",
    offline: { files: "build", options: "--fallback index.html" },
  },
];
