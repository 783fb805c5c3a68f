// A page of the site, with a server that has the first `count` packages.
import { openBrowser } from "./browser.mjs";
import { schema, some } from "./packages.mjs";
import { makeServer } from "./server.mjs";
import { startSite } from "./site.mjs";

/** Makes the page and the server, and the options that open a session there, with `options` added. */
export async function packagesPage(t, count, options) {
  const server = await makeServer(t);
  await server.import("demo", "Package", some(count));
  await server.start();
  const [site, browser] = [await startSite(t), await openBrowser(t)];
  const page = await browser.page(site.url);
  return { server, site, browser, page, options: { org: "demo", schema, server: server.url, ...options } };
}
