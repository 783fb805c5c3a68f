export * as json from "./json.mjs";
export * as msgpack from "./msgpack.mjs";
