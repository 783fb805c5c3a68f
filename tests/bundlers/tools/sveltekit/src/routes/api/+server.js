import { first } from "../../app.js";

export const GET = async () => Response.json(await first("incognito"));
