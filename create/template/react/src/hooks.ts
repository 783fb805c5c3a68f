import { createHooks } from "escale/react";

import type { schema } from "./session";

export const { EscaleProvider, useSession, useLive, useStatus, useRefused } = createHooks<typeof schema>();
