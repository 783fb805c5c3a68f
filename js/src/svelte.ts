/** The entry `escale/svelte`. */

export * from "./frameworks/svelte.js";
