// The binary format of WebAssembly, as far as the other scripts here read and write it.

export const HEADER_BYTES = 8;
/** Numbers of sections. */
export const [CUSTOM, IMPORTS, EXPORTS, CODE, DATA] = [0, 2, 7, 10, 11];
/** The kind of an imported function. */
const FUNCTION = 0;
/** The part of the section `name` that has the functions' names. */
export const FUNCTION_NAMES = 1;
/** A piece of data with a place of its own in the first memory. */
const ACTIVE = 0;
const [I32_CONST, END] = [0x41, 0x0b];

/** Reads little-endian base-128 numbers and the bytes between them. */
export class Reader {
  constructor(bytes) {
    [this.bytes, this.at] = [bytes, 0];
  }
  get isDone() {
    return this.at >= this.bytes.length;
  }
  number() {
    for (let value = 0, scale = 1; ; scale *= 128) {
      const byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }
  take(length) {
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }
  text() {
    return this.take(this.number()).toString();
  }
}

export function numberBytes(number) {
  const bytes = [];
  for (let rest = number; ; rest >>>= 7) {
    if (rest < 128) return [...bytes, rest];
    bytes.push((rest & 127) | 128);
  }
}

/** Bytes behind their length. */
export const withLength = (bytes) => [...numberBytes(bytes.length), ...bytes];

export const textBytes = (text) => withLength(Buffer.from(text));

export const sectionBytes = (id, body) => Buffer.from([id, ...withLength(body)]);

/** The sections of a wasm, a `Buffer`: the number of each, its contents, and all its bytes. */
export function sectionsOf(wasm) {
  const reader = new Reader(wasm);
  reader.take(HEADER_BYTES);
  const sections = [];
  while (!reader.isDone) {
    const start = reader.at;
    const id = reader.take(1)[0];
    const body = reader.take(reader.number());
    sections.push({ id, body, bytes: wasm.subarray(start, reader.at) });
  }
  return sections;
}

/** The imports, all of them functions: wasm-bindgen imports nothing else. They have the first numbers. */
export function importsOf(body) {
  const reader = new Reader(body);
  return Array.from({ length: reader.number() }, () => {
    const [module, name] = [reader.text(), reader.text()];
    if (reader.take(1)[0] !== FUNCTION) throw new Error(`${module} ${name} is no function`);
    return { module, name, type: reader.number() };
  });
}

/** The section of these imports. */
export function importsBytes(imports) {
  const entries = imports.flatMap(({ module, name, type }) => [...textBytes(module), ...textBytes(name), FUNCTION, ...numberBytes(type)]);
  return sectionBytes(IMPORTS, [...numberBytes(imports.length), ...entries]);
}

/** The exports: the name of each, its kind, and its number. */
export function exportsOf(body) {
  const reader = new Reader(body);
  return Array.from({ length: reader.number() }, () => ({ name: reader.text(), kind: reader.take(1)[0], index: reader.number() }));
}

/** The section of these exports. */
export function exportsBytes(exports) {
  const entries = exports.flatMap(({ name, kind, index }) => [...textBytes(name), kind, ...numberBytes(index)]);
  return sectionBytes(EXPORTS, [...numberBytes(exports.length), ...entries]);
}

/** The code of each function, in order. */
export function functionsOf(body) {
  const reader = new Reader(body);
  return Array.from({ length: reader.number() }, () => reader.take(reader.number()));
}

export const isOfNames = ({ id, body }) => id === CUSTOM && new Reader(body).text() === "name";

/** The names of the functions by their numbers, in which imports come first. */
export function functionNamesOf(sections) {
  const names = new Map();
  for (const { body } of sections.filter(isOfNames)) {
    const reader = new Reader(body);
    reader.text();
    while (!reader.isDone) {
      const [part] = reader.take(1);
      const list = new Reader(reader.take(reader.number()));
      if (part !== FUNCTION_NAMES) continue;
      for (let left = list.number(); left > 0; left--) names.set(list.number(), list.text());
    }
  }
  return names;
}

/** The pieces of data with their addresses in memory. The bytes are those of the section itself. */
export function dataOf(body) {
  const reader = new Reader(body);
  return Array.from({ length: reader.number() }, () => {
    const [kind, opcode, address, end] = [reader.number(), reader.take(1)[0], reader.number(), reader.take(1)[0]];
    if (kind !== ACTIVE || opcode !== I32_CONST || end !== END) throw new Error("a piece of data has no fixed address");
    return { address, bytes: reader.take(reader.number()) };
  });
}
