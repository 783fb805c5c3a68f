// Measurements of Escale alone: the cost of the passphrase, and W10, operations written offline and then drained.
import { ask, inBrowser, withProfile } from "./measure.mjs";

const OPERATIONS = 10_000;

/** Measures one round, in milliseconds. */
export async function alone(count, site) {
  const opened = (system) =>
    withProfile((profile) =>
      inBrowser(profile, `${site.url}?system=${system}`, async (page) => {
        await ask(page, "open");
        await ask(page, "close");
        const again = await ask(page, "open");
        await ask(page, "close");
        return again;
      }),
    );
  const withKey = await opened("escale");
  const withPassphrase = await opened("escale:passphrase");
  const { written, drained } = await withProfile((profile) =>
    inBrowser(profile, `${site.url}?system=escale`, async (page) => {
      await ask(page, "arrive", count);
      return page.evaluate(([n, operations]) => window.bench.writes(n, operations), [count, OPERATIONS]);
    }),
  );
  return { openWithKey: withKey, openWithPassphrase: withPassphrase, operations: OPERATIONS, written, drained };
}
