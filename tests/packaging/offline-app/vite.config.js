import { escale } from "escale/vite";

export default { plugins: [escale(JSON.parse(process.env.ESCALE_OPTIONS ?? "{}"))], build: { assetsInlineLimit: 0 } };
