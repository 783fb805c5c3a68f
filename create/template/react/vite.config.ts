import react from "@vitejs/plugin-react";
import { escale } from "escale/vite";
import { defineConfig } from "vite";

// `escale` keeps the built page on the device: it opens with no network.
export default defineConfig({ plugins: [react(), escale()] });
