// Writes chrome.json and firefox.json, the capabilities that wasm-bindgen's test runner requests from the drivers.
import { writeFileSync } from "node:fs";
import { join } from "node:path";

const [folder] = process.argv.slice(2);
const { CHROME, FIREFOX } = process.env;

const chrome = {
  "goog:chromeOptions": {
    binary: CHROME,
    args: ["disable-gpu", "disable-quic", "no-first-run", "disable-background-networking", "disable-component-update",
      "disable-sync"],
  },
};
const firefox = { "moz:firefoxOptions": { binary: FIREFOX } };

writeFileSync(join(folder, "chrome.json"), JSON.stringify(chrome));
writeFileSync(join(folder, "firefox.json"), JSON.stringify(firefox));
