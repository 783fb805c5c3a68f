// Lets a test drive this page from outside of the browser, where no protocol of the browser's own reaches: what to run comes
// as events from the test's server, and what comes of it goes back by requests (tests/e2e/support/killed-firefox.mjs).

const at = `http://localhost:${new URLSearchParams(location.search).get("at")}`;
const say = (what, body) => fetch(`${at}/${what}`, { method: "POST", body: JSON.stringify(body) });

/** Makes functions of the test's callable here, as `window[name]`. */
window.callable = (names) => {
  for (const name of names) window[name] = (...args) => say("called", { name, args });
};

addEventListener("error", ({ message }) => say("failed", message));
addEventListener("unhandledrejection", ({ reason }) => say("failed", String(reason)));

// Which loading of the page this is: where the browser loads it anew, the test must know.
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
