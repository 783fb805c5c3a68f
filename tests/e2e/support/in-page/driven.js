// Lets a test drive this page from outside of the browser, without a protocol of the browser. Code to run arrives as
// events from the test's server, and results return as requests (tests/e2e/support/killed-firefox.mjs).

const at = `http://localhost:${new URLSearchParams(location.search).get("at")}`;
const say = (what, body) => fetch(`${at}/${what}`, { method: "POST", body: JSON.stringify(body) });

/** Makes functions of the test callable here, as `window[name]`. */
window.callable = (names) => {
  for (const name of names) window[name] = (...args) => say("called", { name, args });
};

addEventListener("error", ({ message }) => say("failed", message));
addEventListener("unhandledrejection", ({ reason }) => say("failed", String(reason)));

// Identifies this load of the page: if the browser reloads it, the test must know.
const [{ type }] = performance.getEntriesByType("navigation");
const loading = `${crypto.randomUUID()}-${type}`;

new EventSource(`${at}/asked?${loading}`).onmessage = async ({ data }) => {
  const { id, source, argument } = JSON.parse(data);
  try {
    const value = await new Function(`return (${source});`)()(argument);
    await say("answered", { id, value });
  } catch (error) {
    await say("answered", { id, failed: `${error}\n${error.stack}` });
  }
};
