export { decodeJson, encodeJson, textOfValue, valueOfText } from "./json.mjs";
export { decodeMsgpack, encode, encodeMsgpack } from "./msgpack.mjs";
export { floats, Unreadable } from "./unreadable.mjs";
