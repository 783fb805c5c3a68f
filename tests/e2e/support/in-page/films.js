// Films: files of any length whose bytes follow from a seed, so that no side has to hold one.
import { sessions, start } from "./in-page.js";

const PIECE = 1 << 20;

/** A piece of a film: a mebibyte, or the rest. */
function piece(seed, at, length) {
  const words = new Uint32Array(Math.ceil(length / 4));
  let state = (seed * 2_654_435_761 + at) >>> 0;
  for (let i = 0; i < words.length; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    words[i] = state;
  }
  return new Uint8Array(words.buffer, 0, length);
}

const pieces = (bytes) => Math.ceil(bytes / PIECE);
const lengthAt = (bytes, at) => Math.min(PIECE, bytes - at * PIECE);

export async function openFilms(name, options) {
  await start(name, { ...options, files: () => import("/pkg/files.js") });
  return sessions[name].session;
}

/** Adds a film, unless a document has it. Resolves with whether it was added, once the document is saved. */
export async function addFilm(name, { seed, bytes }) {
  const { session } = sessions[name];
  const films = session.collection("Film", {}, { keep: "forever" });
  const isWaiting = session.pending().length > 0;
  if (isWaiting || films.docs.length > 0) return false;
  const files = await session.files();
  let at = 0;
  const stream = new ReadableStream({
    pull: (controller) => {
      if (at === pieces(bytes)) return controller.close();
      controller.enqueue(piece(seed, at, lengthAt(bytes, at)));
      at += 1;
    },
  });
  const file = await files.add(stream, { name: "film" });
  await session.put("Film", { id: "film", file }).saved;
  return true;
}

/** Resolves once nothing waits for the server. A long film takes minutes: only the test limits them. */
export const allSent = (name) =>
  new Promise((resolve) => {
    const stop = sessions[name].session.status.subscribe(({ pending, phase }) => {
      if (pending > 0 || phase !== "live") return;
      queueMicrotask(() => stop());
      resolve();
    });
  });

/** Reads the film, and compares each piece with the original's SHA-256. Resolves with the number of bytes. */
export async function checkFilm(name, { seed, bytes }) {
  const { session } = sessions[name];
  const [{ file }] = await session.collection("Film", {}).whenReady();
  const files = await session.files();
  const hash = async (data) => new Uint8Array(await crypto.subtle.digest("SHA-256", data)).join();
  let [at, held, count] = [0, new Uint8Array(0), 0];
  for (const reader = files.read(file).getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    count += value.length;
    const joined = new Uint8Array(held.length + value.length);
    joined.set(held);
    joined.set(value, held.length);
    held = joined;
    while (held.length > 0 && held.length >= lengthAt(bytes, at)) {
      const length = lengthAt(bytes, at);
      const [read, made] = await Promise.all([hash(held.slice(0, length)), hash(piece(seed, at, length))]);
      if (read !== made) throw new Error(`piece ${at} has other bytes`);
      held = held.slice(length);
      at += 1;
    }
  }
  if (held.length > 0 || at !== pieces(bytes)) throw new Error(`${at} of ${pieces(bytes)} pieces`);
  return count;
}
