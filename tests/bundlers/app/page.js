// Shows the findings of a visit on the page. The address says which visit it is.
import { again, first } from "./app.js";

/** `work` is another piece of work whose result is shown too. */
export async function show(work = async () => ({})) {
  const visit = async () => (location.hash === "#again" ? again() : { ...(await first()), ...(await work()) });
  const seen = await visit().catch(({ code, message, cure }) => ({ code, message, cure }));
  document.documentElement.dataset.seen = JSON.stringify(seen);
}
