// Writes docs/errors.md: the page of error codes, made of the table in src/error.rs, and of the advice for each code.
import { readFile, writeFile } from "node:fs/promises";

import { errorsPage } from "../site/build/errors.mjs";

const at = (path) => new URL(`../${path}`, import.meta.url);
const [table, sentences] = await Promise.all(["src/error.rs", "js/src/base/advice/sentences.ts"].map((path) => readFile(at(path), "utf8")));
await writeFile(at("docs/errors.md"), errorsPage(table, sentences));
