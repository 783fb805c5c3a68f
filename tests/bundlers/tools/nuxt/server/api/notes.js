import { first } from "../../src/app.js";

export default defineEventHandler(() => first("incognito"));
