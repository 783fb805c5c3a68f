const { open } = require("escale");

if (typeof open !== "function") throw new Error("require gave no escale");
import("./src/app.js").then(async ({ first }) => console.log(JSON.stringify(await first("incognito"))));
