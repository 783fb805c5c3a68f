export { Engine } from "./engine.mjs";
export { Fault } from "./fault.mjs";
export { shaS } from "./hash.mjs";
export { run } from "./run.mjs";
export { pkOf } from "./schema.mjs";
export { copyOf } from "./values.mjs";
export { textOfValue, valueOfText } from "../forms/json.mjs";
export { memory } from "../storage/memory.mjs";
