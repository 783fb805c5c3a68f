// Shows the findings of a visit on the page. The address says which visit it is.
import { register } from "escale/offline";

import { again, first } from "./app.js";

/** Resolves once the device keeps the files of the build. */
function keep() {
  return new Promise((resolve) => {
    register().status.subscribe(({ ready, error }) => {
      if (ready) resolve({ kept: true });
      else if (error) resolve({ code: error.code, message: error.message, cure: error.cure });
    });
  });
}

/** `work` is another piece of work whose result is shown too. */
export async function show(work = async () => ({})) {
  const visits = { "#again": again, "#keep": keep };
  const visit = visits[location.hash] ?? (async () => ({ ...(await first()), ...(await work()) }));
  const seen = await visit().catch(({ code, message, cure }) => ({ code, message, cure }));
  document.documentElement.dataset.seen = JSON.stringify(seen);
}
