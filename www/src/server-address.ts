/** Where the server is: `?server=`, or port 7700 of the machine that serves this page. Kept nowhere. */

const PORT = 7700;

/** The address to propose. A `?server=` that is no http(s) URL is ignored. */
export function serverAddress(location: Location): string {
  const asked = new URLSearchParams(location.search).get("server");
  if (asked !== null && isEndpoint(asked)) return asked;
  const protocol = location.protocol === "https:" ? "https:" : "http:";
  return `${protocol}//${location.hostname || "localhost"}:${PORT}`;
}

/** Whether a text is an address that a session can be given. */
export function isEndpoint(text: string): boolean {
  try {
    return /^https?:$/.test(new URL(text).protocol);
  } catch {
    return false;
  }
}
