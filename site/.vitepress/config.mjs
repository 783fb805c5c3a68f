// The site's configuration. The pages are made by build/gather.mjs and typedoc.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitepress";
import llmstxt from "vitepress-plugin-llms";

import { GROUPS, PAGES } from "../build/pages.mjs";

/** A heading's anchor, as code forges make it: the documents link to these. */
const slugify = (heading) =>
  heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");

const titleOf = (page) => /^# (.*)$/m.exec(readFileSync(join(PAGES, page), "utf8"))?.[1].replaceAll("`", "") ?? page;
const item = (page) => ({ text: titleOf(page), link: `/${page.replace(/(index)?\.md$/, "")}` });

function sidebar() {
  const named = new Set(GROUPS.flatMap(([, list]) => list));
  const guides = existsSync(join(PAGES, "guides")) ? readdirSync(join(PAGES, "guides")).map((name) => `guides/${name}`) : [];
  const others = guides.filter((page) => page.endsWith(".md") && !named.has(page)).sort();
  return GROUPS.map(([text, list], place) => ({
    text,
    collapsed: place > 2,
    items: list.flatMap((page) => (page === "guides/*" ? others : existsSync(join(PAGES, page)) ? [page] : [])).map(item),
  }));
}

/** Indented code is shown as fenced code is: it scrolls by itself, and has a button that copies it. */
function fenceIndented(state) {
  for (const token of state.tokens) {
    if (token.type === "code_block") Object.assign(token, { type: "fence", tag: "code", markup: "```", info: "text" });
  }
}

const LIST_OF_PAGES = `# Escale

> An SDK for web applications that work with no network: it keeps the user's part of a server's data on the device, encrypted,
> and in step with the server.

Begin with *Getting started*, *Modelling your data* and the *Cookbook*: most of their code is programs that the tests run.
The npm package has a skill, \`node_modules/escale/skills/escale/SKILL.md\`, and its \`.d.ts\` files are the reference of the API.
*Error codes* has a cure for each code that an \`EscaleError\` can bear.

## Pages

{toc}
`;

export default defineConfig({
  title: "Escale",
  description: "Web applications that work offline",
  lang: "en",
  base: "/docs/",
  head: [["link", { rel: "icon", href: "/docs/favicon.svg" }]],
  // Each page as Markdown, and the list of them, for coding agents. One file with all pages would be too long to read.
  vite: { plugins: [llmstxt({ injectLLMHint: false, generateLLMsFullTxt: false, customLLMsTxtTemplate: LIST_OF_PAGES })] },
  srcDir: "pages",
  outDir: "dist",
  cacheDir: ".vitepress/cache",
  // Page data is a file of its own: no script in the page, which a strict policy would refuse.
  metaChunk: true,
  markdown: {
    // Documents write `<C>` for a type: nothing in them is markup.
    config: (md) => {
      md.set({ html: false });
      md.core.ruler.push("fence_indented", fenceIndented);
    },
    // An answer in braces, at the end of a line, would become the attributes of its paragraph.
    attrs: { disable: true },
    anchor: { slugify },
    toc: { slugify },
    headers: { slugify },
  },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [
      { text: "Get started", link: "/guides/getting-started" },
      { text: "API", link: "/api/" },
      { text: "Errors", link: "/errors" },
    ],
    sidebar: sidebar(),
  },
});
