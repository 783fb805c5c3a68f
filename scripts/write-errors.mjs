// Writes docs/errors.md: the page of error codes, made of the one table in src/error.rs.
import { readFile, writeFile } from "node:fs/promises";

import { errorsPage } from "../site/build/errors.mjs";

const at = (path) => new URL(`../${path}`, import.meta.url);
await writeFile(at("docs/errors.md"), errorsPage(await readFile(at("src/error.rs"), "utf8")));
