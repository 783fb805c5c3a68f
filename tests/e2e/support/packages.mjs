// The source of the numbers that the tests compare with: the packages' own file.
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

import { PACKAGES, PACKAGES_SCHEMA } from "./paths.mjs";

export const schema = PACKAGES_SCHEMA;

export const packages = gunzipSync(readFileSync(PACKAGES))
  .toString("utf8")
  .split("\n")
  .filter((line) => line !== "")
  .map((line) => JSON.parse(line));

export const inSection = (section) => packages.filter((one) => one.section === section);
export const withTag = (tag) => packages.filter((one) => one.tags.includes(tag));

/** The first `count` packages of several sections: a small set, for tests that do not depend on its size. */
export const some = (count) => packages.slice(0, count);

export const byName = (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
