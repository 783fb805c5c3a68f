// The measurements of files: one file is stored and read back, or sent and loaded. The runner gives it to the page as a
// user does, so its bytes are in no memory of the page.
import { expect, timed } from "./timing.js";

const CHUNK = 1 << 20;
const DIGEST = 32;

/** The transfers at once, as in Escale. */
const AT_ONCE = 3;

const input = Object.assign(document.createElement("input"), { type: "file", id: "file" });
document.body.append(input);

const textOf = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
const digestOf = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

/** Does all steps, a few at once. */
async function inTurn(steps) {
  const one = async () => {
    for (let step = steps.shift(); step; step = steps.shift()) await step();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
}

/** The objects of the chosen file: its chunks, then their list. */
async function objectsOf(file) {
  const chunks = [];
  for (let from = 0; from < file.size; from += CHUNK) {
    const bytes = new Uint8Array(await file.slice(from, from + CHUNK).arrayBuffer());
    chunks.push({ digest: await digestOf(bytes), bytes });
  }
  const list = new Uint8Array(chunks.length * DIGEST);
  for (const [at, { digest }] of chunks.entries()) list.set(digest, at * DIGEST);
  return { chunks, list: { digest: await digestOf(list), bytes: list } };
}

async function asked(address, options) {
  const response = await fetch(address, { cache: "no-store", credentials: "omit", ...options });
  const bytes = await response.arrayBuffer();
  if (!response.ok) throw new Error(`the server answers ${response.status}`);
  return new Uint8Array(bytes);
}

/** The functions of the page that measure files of a system. */
export function filesOf(system) {
  const base = new URL(location.href).searchParams.get("server");
  const address = (digest) => `${base}/bench/file/${digest}`;

  return {
    /** Stores the chosen file, until it is durable: the time, and the reference to it. The store is open. */
    async addFile() {
      const [file] = input.files;
      const { ms, result } = await timed(() => system.addFile(file));
      return { ms, ref: result };
    },

    /** Reads all bytes of a stored file. Milliseconds. */
    async readFile(ref, size) {
      const { ms, result } = await timed(async () => {
        let bytes = 0;
        for await (const part of await system.fileBytes(ref)) bytes += part.length;
        return bytes;
      });
      expect(result, size, "bytes read");
      return ms;
    },

    /** Compares a stored file with the chosen one: a system that lost bytes has not won. */
    async checkFile(ref) {
      const [file] = input.files;
      const whole = new Uint8Array(file.size);
      let at = 0;
      for await (const part of await system.fileBytes(ref)) {
        whole.set(part, at);
        at += part.length;
      }
      const wanted = await digestOf(await file.arrayBuffer());
      expect(textOf(await digestOf(whole)), textOf(wanted), "the digest of the file");
    },

    /** A document references the added file: the time until the server has accepted it, and so has all bytes. */
    async sendFile(ref) {
      return (await timed(() => system.sendFile(ref))).ms;
    },

    /** The page itself sends the objects of the chosen file. Milliseconds. */
    async sendBare() {
      const [file] = input.files;
      const { chunks, list } = await objectsOf(file);
      const put = ({ digest, bytes }, asList = "") => asked(`${address(textOf(digest))}${asList}`, { method: "PUT", body: bytes });
      const { ms } = await timed(async () => {
        await inTurn(chunks.map((chunk) => () => put(chunk)));
        await put(list, `?list=${file.size}`);
      });
      return ms;
    },

    /** The page itself loads the objects of a file from the server. Milliseconds. */
    async loadBare(ref) {
      const { ms, result } = await timed(async () => {
        const list = await asked(address(ref.sha));
        let bytes = 0;
        const steps = Array.from({ length: list.length / DIGEST }, (_, at) => async () => {
          const chunk = await asked(address(textOf(list.subarray(at * DIGEST, (at + 1) * DIGEST))));
          bytes += chunk.length;
        });
        await inTurn(steps);
        return bytes;
      });
      expect(result, ref.size, "bytes loaded");
      return ms;
    },
  };
}
