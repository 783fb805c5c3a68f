/**
 * Uploads, by the session that leads: the bytes go before the reference (R24). The only state of an upload is which objects
 * the server has. So it may stop anywhere, and begin again.
 */

import type { EscaleError } from "../base/errors.js";
import type { FilesHost } from "../session/files.js";
import { listOf } from "./address.js";
import type { Catalogue, Entry } from "./catalogue.js";
import { fault, refusalOf, toFault } from "./faults.js";
import { concurrently, retryRounds, type Pauses } from "./retry.js";
import type { Effect, Effects, Plan } from "./plan.js";
import type { Remote } from "./remote.js";
import type { States } from "./states.js";

interface Parts {
  readonly host: FilesHost;
  readonly catalogue: Catalogue;
  readonly remote: Remote;
  readonly states: States;
  readonly pauses: Pauses;
  readonly plan: Plan;
}

export interface Uploads {
  /** The core waits for a word on these. */
  needed(shas: readonly string[]): void;
  /** Goes on, if it may. */
  go(): void;
  /** Another session leads now. */
  pause(): void;
}

export function uploadsOf(parts: Parts): Uploads {
  const { host, catalogue, remote, states, plan } = parts;

  /** Begins effects in their order. Those that take time go on together. */
  const run = (effects: readonly Effect[]): Promise<unknown> =>
    Promise.all(effects.map(([name, ...of]) => (carryOut[name] as (...of: unknown[]) => unknown)(...of)));

  /** A verdict ends these files; any other error ends the round. */
  const guard = async (files: readonly Entry[], work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      const effects = plan.refused(files, toFault(error).code);
      if (!effects) throw error;
      await run(effects);
    }
  };

  const carryOut: Effects = {
    state: (sha, doing) => states.set(sha, doing),
    settle: (shas, verdict, epoch) => host.settle(shas, verdict, epoch),
    ask: (files, shas) =>
      guard(files, async () => {
        const { there, epoch } = await remote.have(shas);
        await run(plan.answered(files, there, epoch));
      }),
    send: (files) =>
      concurrently(files, (file) =>
        guard([file], async () => {
          await run(plan.sending(file));
          await concurrently(new Set(file.chunks), (digest) => run(plan.turn(file, digest)));
          await run(plan.sent(file));
        }),
      ),
    async put(file, digest) {
      await remote.put(digest, async () => {
        const bytes = await catalogue.chunk(digest);
        if (!bytes) throw fault("local_data_lost", "the device lost the bytes");
        return bytes;
      });
      await run(plan.stored(file, digest));
    },
    async list(file) {
      const { key, size, chunks } = file;
      await remote.put(key, () => listOf(chunks), size).catch((error: unknown) => {
        const { files } = refusalOf(error as EscaleError);
        if (Array.isArray(files)) plan.lack(files as string[]);
        throw error;
      });
      await run(plan.sent(file, true));
    },
    async confirm(file) {
      const { there, epoch } = await remote.have([file.key]);
      if (!there.has(file.key)) throw fault("unavailable", "upload not confirmed");
      await run(plan.confirmed(file, epoch));
    },
  };

  /** Goes through all that is needed, once. */
  const go = retryRounds(parts, () => (host.status.leads ? plan.needed() : []), async () => {
    const entries: [string, Entry | undefined][] = [];
    for (const sha of plan.needed()) entries.push([sha, await catalogue.find(sha)]);
    await run(plan.found(entries));
  });

  return {
    needed(shas) {
      void run(plan.need(shas));
      go();
    },
    go,
    pause: () => void run(plan.pause()),
  };
}
