export default defineNuxtConfig({
  compatibilityDate: "2026-01-01",
  telemetry: false,
  devtools: { enabled: false },
  // Otherwise the build copies the JavaScript of the package to the server, and no other files.
  nitro: { externals: { inline: ["escale"] } },
});
