/** The entry `escale/testing`: a server, devices and faults in memory, for the tests of an application. */

export { refusal, testing, type Refusal, type TestingOptions, type World, type WorldOpenOptions } from "./testing/world.js";
export type { ServerDocuments, ServerOperation } from "./testing/operations.js";
