import { escale } from "escale/vite";
import { defineConfig } from "vite";

// Keeps the built page on the device: it opens with no network.
export default defineConfig({ plugins: [escale()] });
