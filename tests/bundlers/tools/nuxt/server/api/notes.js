// Nuxt copies the JavaScript of a package to its server, and no other files.
import "escale/inline";

import { first } from "../../src/app.js";

export default defineEventHandler(() => first("incognito"));
