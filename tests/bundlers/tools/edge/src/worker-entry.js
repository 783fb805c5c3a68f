import { first } from "./app.js";

export default { fetch: async () => Response.json(await first("incognito")) };
