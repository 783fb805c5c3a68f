import node from "@sveltejs/adapter-node";
import files from "@sveltejs/adapter-static";

const isStatic = process.env.SVELTEKIT_ADAPTER === "static";

export default { kit: { adapter: isStatic ? files({ fallback: "index.html" }) : node() } };
