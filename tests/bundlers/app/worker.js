import { first } from "./app.js";

first("incognito").then(
  (seen) => self.postMessage(seen),
  ({ code, message, cure }) => self.postMessage({ code, message, cure }),
);
