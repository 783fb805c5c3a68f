/** The parts of a stream. */

/** Reads a stream to its end. If the reader stops before, or the stream fails, the source learns that nobody reads on. */
export async function* partsOf<T>(stream: ReadableStream<T>): AsyncGenerator<T> {
  const reader = stream.getReader();
  let isWhole = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      yield value;
    }
    isWhole = true;
  } finally {
    if (!isWhole) await reader.cancel().catch(() => {});
  }
}
