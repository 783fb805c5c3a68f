/** The entry `escale/vue`. */

export * from "./frameworks/vue.js";
