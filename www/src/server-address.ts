/** The server's address: `?server=`, or port 7700 of the machine that serves this page. It is not stored. */

const PORT = 7700;

/** The address to propose. A `?server=` that is no http(s) URL is ignored. */
export function serverAddress(location: Location): string {
  const asked = new URLSearchParams(location.search).get("server");
  if (asked !== null && isEndpoint(asked)) return asked;
  const protocol = location.protocol === "https:" ? "https:" : "http:";
  return `${protocol}//${location.hostname || "localhost"}:${PORT}`;
}

/** Whether a session accepts a text as an address. */
export function isEndpoint(text: string): boolean {
  try {
    return /^https?:$/.test(new URL(text).protocol);
  } catch {
    return false;
  }
}
