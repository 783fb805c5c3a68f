export const title = "Cloudflare Workers";
export const versions = { edge: { wrangler: "4.164.0", node: "22.23.3" } };
export const cells = [{ what: "wrangler", serve: "wrangler dev --port {port} --local", routes: ["/"], isServerOnly: true }];
