import { first } from "./app.js";

first("incognito").then((seen) => console.log(JSON.stringify(seen)));
