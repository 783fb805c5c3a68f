import { first } from "../../src/app.js";

export const runtime = "edge";
export const GET = async () => Response.json(await first("incognito"));
