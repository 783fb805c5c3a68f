// Reads the report of `npm audit --json` about a folder, and prints it in a line for each package. Ends with 1 if a vulnerability
// is of level high or critical.
import { readFileSync } from "node:fs";

const [, , folder] = process.argv;
const say = (text) => console.log(`npm, ${folder}: ${text}`);

let report;
try {
  report = JSON.parse(readFileSync(0, "utf8"));
} catch {
  report = {};
}
const packages = Object.values(report.vulnerabilities ?? {});
if (!report.vulnerabilities) say(`vulnerabilities not looked up: ${report.message ?? report.error?.summary ?? "the registry cannot be reached"}`);
else if (packages.length === 0) say("no known vulnerability");
for (const { name, severity, range } of packages) say(`${severity}: ${name} ${range}`);
process.exitCode = packages.some(({ severity }) => severity === "high" || severity === "critical") ? 1 : 0;
