export { CHECKS } from "./checks/index.mjs";
export { optionsOf } from "./cli.mjs";
export { HOOKS } from "./hooks.mjs";
export { orgsOf } from "./kit.mjs";
export { PARTS, SCHEMA, schemaWithout } from "./names.mjs";
export { count, lastLines, linesOf } from "./report.mjs";
export { runChecks } from "./run.mjs";
export { UNCHECKABLE } from "./uncheckable.mjs";
export { WATCHES } from "./watch/index.mjs";
