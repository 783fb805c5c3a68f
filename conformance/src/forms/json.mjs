// JSON, strictly: `JSON.parse` would hide a point in an integer, and a key that is there twice.
import { Pairs, Raw, Unreadable, isMap, noteFloat, setOnce, textOf, wasFloat } from "./values.mjs";

const TOKEN = /[ \t\r\n]*(?:([{}[\],:])|("[^"\\]*(?:\\.[^"\\]*)*")|(-?\d[-+.\deE]*)|(true|false|null))[ \t\r\n]*/sy;

export function decode(bytes) {
  const source = textOf(bytes);
  const token = new RegExp(TOKEN);
  const next = () => {
    const match = token.exec(source);
    if (!match) throw new Unreadable("it is no JSON");
    return match;
  };
  const scalar = (match) => {
    try {
      const value = JSON.parse(match[2] ?? match[3] ?? match[4]);
      if (typeof value === "number" && !Number.isFinite(value)) throw new Unreadable("a number that is not finite");
      return value;
    } catch (error) {
      throw error instanceof Unreadable ? error : new Unreadable("it is no JSON");
    }
  };
  const items = (isList) => {
    const holder = isList ? [] : {};
    const end = isList ? "]" : "}";
    let match = next();
    while (match[1] !== end) {
      let key = holder.length;
      if (!isList) {
        if (!match[2] || next()[1] !== ":") throw new Unreadable("it is no JSON");
        key = scalar(match);
        match = next();
      }
      if (match[3] && /[.eE]/.test(match[3])) noteFloat(holder, key);
      const item = value(match);
      if (isList) holder.push(item);
      else setOnce(holder, key, item);
      match = next();
      if (match[1] !== end && match[1] !== ",") throw new Unreadable("it is no JSON");
      if (match[1] === ",") match = next();
    }
    return isList ? holder : restored(holder);
  };
  function value(match) {
    if (match[1] === "[" || match[1] === "{") return items(match[1] === "[");
    if (match[1]) throw new Unreadable("it is no JSON");
    return scalar(match);
  }
  token.lastIndex = 0;
  const result = value(next());
  if (token.lastIndex !== source.length) throw new Unreadable("text follows the message");
  return result;
}

/** Takes back the two writings of JSON: bytes as a map of `$bytes`, and one more `$` before such a key. */
function restored(map) {
  if (Object.keys(map).length === 1 && typeof map.$bytes === "string") {
    const bytes = Buffer.from(map.$bytes, "base64url");
    if (bytes.toString("base64url") !== map.$bytes) throw new Unreadable("bytes that are not base64url without padding");
    return new Uint8Array(bytes);
  }
  if (Object.hasOwn(map, "$bytes")) throw new Unreadable("the key $bytes without bytes, or not alone");
  if (!Object.keys(map).some((key) => /^\$\$+bytes$/.test(key))) return map;
  const result = {};
  for (const [key, value] of Object.entries(map)) {
    const name = /^\$\$+bytes$/.test(key) ? key.slice(1) : key;
    if (wasFloat(map, key)) noteFloat(result, name);
    setOnce(result, name, value);
  }
  return result;
}

export function encode(value) {
  const write = (item) => {
    if (item instanceof Raw) return item.json;
    if (item instanceof Uint8Array) return `{"$bytes":"${Buffer.from(item).toString("base64url")}"}`;
    if (Array.isArray(item)) return `[${item.map(write).join(",")}]`;
    if (!isMap(item)) return JSON.stringify(item);
    const pairs = item instanceof Pairs ? item.pairs : Object.entries(item).filter(([, inner]) => inner !== undefined);
    const name = (key) => JSON.stringify(/^\$+bytes$/.test(key) ? `$${key}` : key);
    return `{${pairs.map(([key, inner]) => `${name(key)}:${write(inner)}`).join(",")}}`;
  };
  return new Uint8Array(Buffer.from(write(value)));
}
