/** The server's address: `?server=`, or a port of the machine that serves this page. It is not stored. */

/** The port of the server of packages. */
const PORT = 7700;

/** The port of the server with accounts. */
export const ACCOUNTS_PORT = PORT + 1;

/** The address to propose. A `?server=` that is no http(s) URL is ignored. */
export function serverAddress(location: Location, port = PORT): string {
  const asked = new URLSearchParams(location.search).get("server");
  if (asked !== null && isEndpoint(asked)) return asked;
  const protocol = location.protocol === "https:" ? "https:" : "http:";
  return `${protocol}//${location.hostname || "localhost"}:${port}`;
}

/** Whether a session accepts a text as an address. */
export function isEndpoint(text: string): boolean {
  try {
    return /^https?:$/.test(new URL(text).protocol);
  } catch {
    return false;
  }
}

/** The query of a link to the other page: its server listens on the port that is `step` further, on the same machine. */
export function queryOfOther(location: Location, step: 1 | -1): string {
  const asked = new URLSearchParams(location.search).get("server");
  if (asked === null || !isEndpoint(asked)) return "";
  const url = new URL(asked);
  if (url.port === "") return "";
  url.port = String(Number(url.port) + step);
  return `?server=${encodeURIComponent(url.href.replace(/\/$/, ""))}`;
}
