export { createHandler, Handler, byTokens } from "./handler.mjs";
export { Fault } from "./engine/fault.mjs";
export { shaS } from "./engine/hash.mjs";
export { memory } from "./storage/memory.mjs";
