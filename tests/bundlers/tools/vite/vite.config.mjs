import { escale } from "escale/vite";

export default { plugins: process.env.ESCALE ? [escale()] : [] };
