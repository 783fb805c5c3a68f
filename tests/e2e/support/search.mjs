// A search of every file under a folder for texts, in the forms in which a program could have written them.
import { readdir, readFile } from "node:fs/promises";
import { join, relative } from "node:path";

import { tableBlocks, unsnappy } from "./snappy.mjs";

/** Texts of at least so many bytes do not occur by chance. */
export const NEEDLE_BYTES_MIN = 10;

/** Blink's mark of a value that it packed with snappy before the database saw it. */
const PACKED_VALUE = Buffer.from([0xff, 0x11, 0x02]);

/** Texts to search for. */
export class Needles {
  #byPrefix = new Map();
  /** A filter before the map: one bit of a hash of four bytes. */
  #filter = new Uint8Array(1 << 22);

  constructor(texts) {
    this.texts = [...new Set(texts)].filter((text) => Buffer.byteLength(text) >= NEEDLE_BYTES_MIN);
    for (const text of this.texts) for (const [form, bytes] of formsOf(text)) this.#add(text, form, bytes);
  }

  #add(text, form, bytes) {
    const prefix = bytes.readInt32LE(0);
    this.#filter[hash(prefix)] = 1;
    const same = this.#byPrefix.get(prefix);
    if (same) same.push({ text, form, bytes });
    else this.#byPrefix.set(prefix, [{ text, form, bytes }]);
  }

  /** Calls back with each needle that the bytes contain, and its form. */
  find(bytes, found) {
    let prefix = 0;
    for (let i = 0; i < bytes.length; i++) {
      prefix = (prefix >>> 8) | (bytes[i] << 24);
      if (i < 3 || this.#filter[hash(prefix)] === 0) continue;
      for (const needle of this.#byPrefix.get(prefix) ?? []) {
        if (bytes.subarray(i - 3, i - 3 + needle.bytes.length).equals(needle.bytes)) found(needle);
      }
    }
  }
}

const hash = (prefix) => Math.imul(prefix, 0x9e3779b1) >>> 10;

/**
 * The forms of a text: raw (UTF-8, UTF-16, and the form of engines with one byte per character), hexadecimal, and
 * base64 for each alignment within the encoded text.
 */
function formsOf(text) {
  const raw = [["UTF-8", Buffer.from(text, "utf8")], ["UTF-16", Buffer.from(text, "utf16le")]];
  const latin = Buffer.from(text, "latin1");
  if (latin.toString("latin1") === text && !latin.equals(raw[0][1])) raw.push(["Latin-1", latin]);
  const forms = [...raw];
  for (const [name, bytes] of raw) {
    forms.push([`hexadecimal of ${name}`, Buffer.from(bytes.toString("hex"))]);
    forms.push([`hexadecimal of ${name}`, Buffer.from(bytes.toString("hex").toUpperCase())]);
    for (const alphabet of ["base64", "base64url"]) {
      for (let before = 0; before < 3; before++) {
        // Whole groups of three bytes only: the groups at the edges mix with neighbouring bytes.
        const skipped = (3 - before) % 3;
        const whole = bytes.subarray(skipped, bytes.length - ((bytes.length - skipped) % 3));
        forms.push([`${alphabet} of ${name}`, Buffer.from(whole.toString(alphabet))]);
      }
    }
  }
  return forms;
}

/** Every hit of `needles` in the files under `folder`: `{ text, form, file }`, each once; and the amount read. */
export async function search(folder, needles) {
  const hits = new Map();
  let [files, bytes] = [0, 0];
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath ?? entry.path, entry.name);
    const file = relative(folder, path);
    const content = await readFile(path);
    files++;
    for (const [kind, part] of partsOf(entry.name, content)) {
      bytes += part.length;
      needles.find(part, ({ text, form }) => {
        hits.set(`${text}\n${form}\n${file}`, { text, form: kind ? `${form}, ${kind}` : form, file });
      });
    }
    needles.find(Buffer.from(file), ({ text, form }) => hits.set(`${text}\nname`, { text, form: `${form}, name`, file }));
  }
  return { hits: [...hits.values()], files, bytes };
}

/** The content as it is, and its unpacked parts. */
function partsOf(name, content) {
  const parts = [["", content]];
  if (name.endsWith(".ldb") || name.endsWith(".sst")) {
    parts.push(...tableBlocks(content).map((block) => ["unpacked", block]));
  }
  if (name.endsWith(".log")) parts.push(["log joined", joinLog(content)]);
  for (const [, part] of [...parts]) {
    for (let at = part.indexOf(PACKED_VALUE); at >= 0; at = part.indexOf(PACKED_VALUE, at + 1)) {
      const value = unsnappy(part, at + PACKED_VALUE.length);
      if (value) parts.push(["unpacked value", value]);
    }
  }
  return parts;
}

/** A LevelDB log without the headers that cut its records every 32 KiB. */
function joinLog(content) {
  const [BLOCK, HEADER] = [32_768, 7];
  const pieces = [];
  for (let block = 0; block < content.length; block += BLOCK) {
    const end = Math.min(block + BLOCK, content.length);
    let at = block;
    while (at + HEADER <= end) {
      const size = content.readUInt16LE(at + 4);
      pieces.push(content.subarray(at + HEADER, Math.min(at + HEADER + size, end)));
      at += HEADER + size;
    }
  }
  return Buffer.concat(pieces);
}
