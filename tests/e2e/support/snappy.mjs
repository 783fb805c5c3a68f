// Snappy, and the LevelDB tables that contain it: the form of Chromium's databases on the disk.

const LITERAL = 0;
/** The largest unpacked block or value of these tests: a wrong guess must not fill the memory. */
const UNPACKED_MAX = 64 << 20;

/** Unpacks one snappy stream that begins at `start`; undefined if there is none. */
export function unsnappy(bytes, start = 0, end = bytes.length) {
  const length = varint(bytes, start, end);
  if (!length || length.value > UNPACKED_MAX || length.value > (end - start) * 64) return undefined;
  const out = Buffer.alloc(length.value);
  let [at, to] = [length.next, 0];
  while (to < out.length) {
    if (at >= end) return undefined;
    const tag = bytes[at++];
    let size = tag >> 2;
    if ((tag & 3) === LITERAL) {
      if (size >= 60) {
        const extra = size - 59;
        if (at + extra > end) return undefined;
        size = bytes.readUIntLE(at, extra);
        at += extra;
      }
      size += 1;
      if (at + size > end || to + size > out.length) return undefined;
      bytes.copy(out, to, at, at + size);
      at += size;
      to += size;
      continue;
    }
    const copy = copyOf(bytes, tag, at, end);
    if (!copy || copy.offset === 0 || copy.offset > to || to + copy.size > out.length) return undefined;
    at = copy.next;
    // Byte by byte: a copy may overlap its own output.
    for (let i = 0; i < copy.size; i++, to++) out[to] = out[to - copy.offset];
  }
  return out;
}

function copyOf(bytes, tag, at, end) {
  const width = [0, 1, 2, 4][tag & 3];
  if (at + width > end) return undefined;
  const low = bytes.readUIntLE(at, width);
  if ((tag & 3) === 1) return { size: ((tag >> 2) & 7) + 4, offset: ((tag >> 5) << 8) | low, next: at + width };
  return { size: (tag >> 2) + 1, offset: low, next: at + width };
}

function varint(bytes, start, end) {
  let value = 0;
  for (let i = 0; i < 5 && start + i < end; i++) {
    value += (bytes[start + i] & 127) * 2 ** (7 * i);
    if (bytes[start + i] < 128) return { value, next: start + i + 1 };
  }
  return undefined;
}

const TABLE_MAGIC = Buffer.from("57fb808b247547db", "hex");
const FOOTER_BYTES = 48;

/** The data blocks of a LevelDB table, unpacked; none if the bytes are no such table. */
export function tableBlocks(bytes) {
  if (bytes.length < FOOTER_BYTES || !bytes.subarray(-8).equals(TABLE_MAGIC)) return [];
  const meta = handle(bytes, bytes.length - FOOTER_BYTES);
  const index = meta && handle(bytes, meta.next);
  const entries = index && block(bytes, index);
  if (!entries) throw new Error("a table of LevelDB whose index cannot be read");
  return blockValues(entries).map((value) => {
    const found = handle(value, 0);
    const data = found && block(bytes, found);
    if (!data) throw new Error("a table of LevelDB with a block that cannot be read");
    return data;
  });
}

function handle(bytes, at) {
  const offset = varint(bytes, at, bytes.length);
  const size = offset && varint(bytes, offset.next, bytes.length);
  return size && { offset: offset.value, size: size.value, next: size.next };
}

function block(bytes, { offset, size }) {
  const content = bytes.subarray(offset, offset + size);
  return bytes[offset + size] === 0 ? content : unsnappy(content);
}

/** The values of a block: entries of shared and own key bytes, then a list of restart points. */
function blockValues(entries) {
  const end = entries.length - 4 - 4 * entries.readUInt32LE(entries.length - 4);
  const values = [];
  let at = 0;
  while (at < end) {
    const shared = varint(entries, at, end);
    const own = varint(entries, shared.next, end);
    const size = varint(entries, own.next, end);
    at = size.next + own.value + size.value;
    values.push(entries.subarray(size.next + own.value, at));
  }
  return values;
}
