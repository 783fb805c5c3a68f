/** The entry `escale/solid`. */

export * from "./frameworks/solid.js";
