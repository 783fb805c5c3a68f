export const title = "Astro";
export const versions = { astro: { astro: "7.3.5", node: "22.23.3" } };
export const cells = [
  { what: "development server", serve: "astro dev --port {port}" },
  { what: "build", build: "astro build", folder: "dist", offline: { files: "dist" } },
];
