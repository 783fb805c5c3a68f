// The objects that a page still holds, as the browser's own tools see them. A snapshot of its heap has the texts and
// the memories of wasm. The tools give no access to the bytes of an array. So the page notes each array that it makes,
// as long as something holds it.

/** The heap of a page. */
export class Heap {
  #cdp;

  constructor(cdp) {
    this.#cdp = cdp;
  }

  static async of(page) {
    const cdp = await page.context().newCDPSession(page);
    await cdp.send("HeapProfiler.enable");
    return new Heap(cdp);
  }

  /** Makes the page note the byte arrays that are made from now on, so that a snapshot finds their bytes. */
  static noteArrays(page) {
    return page.evaluate(noteArrays);
  }

  /** Bytes in use after everything unreachable was collected. */
  async used() {
    for (let n = 0; n < 3; n++) await this.#cdp.send("HeapProfiler.collectGarbage");
    const { usedSize } = await this.#cdp.send("Runtime.getHeapUsage");
    return usedSize;
  }

  /** Everything reachable: its texts, the number of objects of each class, and a search for bytes. */
  async snapshot() {
    const chunks = [];
    const take = ({ chunk }) => chunks.push(chunk);
    this.#cdp.on("HeapProfiler.addHeapSnapshotChunk", take);
    await this.#cdp.send("HeapProfiler.collectGarbage");
    await this.#cdp.send("HeapProfiler.takeHeapSnapshot", { reportProgress: false });
    this.#cdp.off("HeapProfiler.addHeapSnapshotChunk", take);
    const { snapshot, nodes, strings } = JSON.parse(chunks.join(""));
    const { node_fields: fields, node_types: types } = snapshot.meta;
    const [type, name, id] = ["type", "name", "id"].map((field) => fields.indexOf(field));
    const classes = {};
    const memories = [];
    for (let at = 0; at < nodes.length; at += fields.length) {
      const kind = types[type][nodes[at + type]];
      if (kind !== "object") continue;
      const called = strings[nodes[at + name]];
      classes[called] = (classes[called] ?? 0) + 1;
      if (called === "Memory") memories.push(String(nodes[at + id]));
    }
    return {
      classes,
      /** The texts that are in a string. Snapshots cut long strings. */
      texts: (markers) => markers.filter((marker) => strings.some((string) => string.includes(marker))),
      /** The bytes, in hexadecimal, that are in an array or in the memory of a wasm. */
      bytes: (markers) => this.#bytesIn(memories, markers),
    };
  }

  async #bytesIn(memories, markers) {
    const objectGroup = "memories";
    const found = new Set();
    const searchIn = async (objectId) => {
      const values = markers.map((value) => ({ value }));
      const call = { objectId, functionDeclaration: `${search}`, arguments: values, returnByValue: true };
      const { result, exceptionDetails } = await this.#cdp.send("Runtime.callFunctionOn", call);
      if (exceptionDetails) throw new Error(exceptionDetails.exception?.description);
      for (const hit of result.value) found.add(hit);
    };
    for (const objectId of memories) {
      // Something in the snapshot that is no object of the page, as a prototype.
      const known = await this.#cdp.send("HeapProfiler.getObjectByHeapObjectId", { objectId, objectGroup }).catch(() => undefined);
      if (known?.result.objectId) await searchIn(known.result.objectId);
    }
    const { result } = await this.#cdp.send("Runtime.evaluate", { expression: "window.arrays ?? []", objectGroup });
    await searchIn(result.objectId);
    await this.#cdp.send("Runtime.releaseObjectGroup", { objectGroup });
    return markers.filter((marker) => found.has(marker));
  }
}

/** Runs in the page: notes each byte array that is made from now on, except those that the browser hands out. */
function noteArrays() {
  window.arrays = [];
  const Real = Uint8Array;
  const note = (array) => {
    window.arrays.push(new WeakRef(array));
    return array;
  };
  window.Uint8Array = new Proxy(Real, { construct: (_, values) => note(new Real(...values)) });
  const { from } = Real;
  Real.from = (...values) => note(from.apply(Real, values));
  const { slice } = Real.prototype;
  Real.prototype.slice = function (...values) {
    return note(slice.apply(this, values));
  };
}

/** Runs in the page, as a method of a memory, or of the list of arrays. */
function search(...markers) {
  const alive = Array.isArray(this) ? this.map((one) => one.deref()).filter(Boolean) : [this];
  const buffers = new Set(alive.map((one) => one.buffer).filter((buffer) => buffer instanceof ArrayBuffer));
  const holds = (bytes, marker) => {
    const first = parseInt(marker.slice(0, 2), 16);
    for (let at = bytes.indexOf(first); at >= 0; at = bytes.indexOf(first, at + 1)) {
      let n = 1;
      while (n * 2 < marker.length && bytes[at + n] === parseInt(marker.slice(n * 2, n * 2 + 2), 16)) n++;
      if (n * 2 >= marker.length) return true;
    }
    return false;
  };
  const all = [...buffers].map((buffer) => new Uint8Array(buffer));
  return markers.filter((marker) => all.some((bytes) => holds(bytes, marker)));
}
