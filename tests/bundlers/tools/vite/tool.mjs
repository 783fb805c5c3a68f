export const title = "Vite";
export const versions = { "vite-5": { vite: "5.4.21" }, "vite-6": { vite: "6.4.6" }, "vite-7": { vite: "7.3.8" }, "vite-8": { vite: "8.3.8" } };
export const cells = [
  { what: "development server", serve: "vite --port {port} --strictPort --logLevel warn", worker: true },
  { what: "build", build: "vite build --logLevel warn", folder: "dist", worker: true },
  { what: "build with `escale/vite`", build: "ESCALE=1 vite build --logLevel warn", folder: "dist", worker: true, offline: { files: "dist", isListed: true } },
];
