/**
 * The entry `escale/devtools`: a panel that shows a session at work, a log of its requests, and a report that holds none
 * of the user's data.
 */

export { devtools, defineDevtools, EscaleDevtools, type DevtoolsOptions } from "./devtools/element.js";
export { watchServer, type NetworkEntry } from "./devtools/network.js";
export { redactedReport, type RedactedReport } from "./devtools/report.js";
