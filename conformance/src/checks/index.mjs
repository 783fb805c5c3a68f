import { accounts } from "./callers/accounts.mjs";
import { builtIn } from "./built-in.mjs";
import { files } from "./files.mjs";
import { forms } from "./forms.mjs";
import { histories } from "./histories.mjs";
import { hooks } from "./hooks.mjs";
import { http } from "./http.mjs";
import { items } from "./trees/items.mjs";
import { life } from "./life.mjs";
import { limits } from "./limits.mjs";
import { names } from "./names.mjs";
import { numbers } from "./trees/numbers.mjs";
import { once, unexecuted } from "./once.mjs";
import { operations, versions } from "./operations.mjs";
import { orgs } from "./orgs.mjs";
import { pages } from "./pages.mjs";
import { pull } from "./pull.mjs";
import { references } from "./references.mjs";
import { socket } from "./socket.mjs";
import { time } from "./time.mjs";
import { tokens } from "./callers/tokens.mjs";

/** Every check, in the order of docs/protocol.md. */
export const CHECKS = [
  ...forms,
  ...names,
  ...http,
  ...pull,
  ...references,
  ...life,
  ...items,
  ...numbers,
  ...pages,
  ...orgs,
  ...time,
  ...operations,
  ...versions,
  ...once,
  ...unexecuted,
  ...builtIn,
  ...files,
  ...tokens,
  ...accounts,
  ...limits,
  ...socket,
  ...histories,
  ...hooks,
];
