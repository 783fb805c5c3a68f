import { first } from "../../src/app.js";

export const dynamic = "force-dynamic";
export const GET = async () => Response.json(await first("incognito"));
