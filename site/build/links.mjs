// Links of documents: a page of the site links to other pages, wherever they are in the repository.
import { posix } from "node:path";

const LINK = /(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)/g;

/** The text outside of blocks of code, changed by `edit`. */
export function outsideOfCode(text, edit) {
  let isCode = false;
  return text
    .split("\n")
    .map((line) => {
      if (/^\s*```/.test(line)) isCode = !isCode;
      return isCode || line.startsWith("    ") ? line : edit(line);
    })
    .join("\n");
}

/**
 * A document as a page: each link leads to the page of its target. Images are collected in `assets`. Other files of the
 * repository are not in the site: their links become plain text.
 */
export function asPage(text, path, known, assets) {
  const page = known.get(path);
  const from = posix.dirname(page);
  return outsideOfCode(text, (line) =>
    line.replace(LINK, (whole, mark, label, target) => {
      if (/^([a-z]+:|#)/.test(target)) return whole;
      const [file, anchor] = target.split("#");
      const source = posix.join(posix.dirname(path), file);
      const to = known.get(source) ?? known.get(posix.join(source, "README.md"));
      const hash = anchor === undefined ? "" : `#${anchor}`;
      if (to) return `${mark}[${label}](${relative(from, to)}${hash})`;
      if (!/\.(png|svg)$/.test(file)) return label;
      const asset = source.replace(/^docs\//, "");
      assets.set(source, asset);
      return `${mark}[${label}](${relative(from, asset)})`;
    }),
  );
}

function relative(from, to) {
  const path = posix.relative(from, to);
  return path.startsWith(".") ? path : `./${path}`;
}

/** The first sentences of a page, without markup: at most so many characters, for lists of pages. */
export function descriptionOf(text, max = 200) {
  const paragraphs = text.replace(/^# .*$/m, "").split(/\n\s*\n/).map((paragraph) => paragraph.trim());
  const first = paragraphs.find((paragraph) => /^(?!```)[\p{L}\p{N}`"[*]/u.test(paragraph)) ?? "";
  const plain = first.replace(LINK, "$2").replace(/[`*]/g, "").replace(/\s+/g, " ");
  const [head = "", ...rest] = plain.split(/(?<=[.:]) /);
  let description = head;
  for (const sentence of rest) {
    if (description.length + sentence.length >= max) break;
    description += ` ${sentence}`;
  }
  return description.replace(/:$/, ".");
}
