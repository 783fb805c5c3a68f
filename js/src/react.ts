/** The entry `escale/react`. */

export * from "./frameworks/react.js";
