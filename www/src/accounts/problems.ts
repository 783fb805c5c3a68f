/**
 * The refusals that an account's owner can meet, in an owner's words: each says the next step. The other errors have the
 * words of the first page.
 */

import { EscaleError } from "escale";
import { problemOf as problemOfPackages } from "../problems";

/** The action of a button under a refusal. */
export type Remedy = "retry" | "sign-in" | "recover" | "read" | "erase" | "reload";

/** The place where a refusal is shown: the same code can need other words there. */
export type Where = "sign-in" | "sign-up" | "recover" | "inside";

/** A refusal, ready to be shown. */
export interface Problem {
  /** The stable name, which developers look up. */
  code: string;
  title: string;
  text: string;
  remedies: readonly Remedy[];
}

type Words = Omit<Problem, "code">;

const KNOWN = {
  login_taken: {
    title: "This login is taken",
    text: "Choose another one. If the account is yours, sign in with its passphrase.",
    remedies: ["sign-in"],
  },
  invitation_needed: {
    title: "This org is by invitation",
    text: "Ask its administrator for an invitation, and type it under \"Server and device\".",
    remedies: [],
  },
  invitation_unknown: {
    title: "This invitation is not valid",
    text: "It was used, has ended, or was mistyped. Check it, or ask the org's administrator for another one.",
    remedies: [],
  },
  account_closed: {
    title: "This account is closed",
    text: "It was closed for ever, and its login stays taken. Or an administrator has barred it for now: ask one, and sign in again later. If this device has its data, you can still read it.",
    remedies: ["read"],
  },
  device_revoked: {
    title: "This device was signed out",
    text: "Another device of this account ended it, so the session locked. Sign in again to go on: the device is then a new one in the list.",
    remedies: [],
  },
  passphrase_changed: {
    title: "The passphrase was changed on another device",
    text: "Type the new passphrase to go on. Until then this device works alone, and your changes wait here.",
    remedies: [],
  },
  account_mismatch: {
    title: "This device holds data of another account",
    text: "It was stored under the same login at another server. Open that server's address instead, or erase the data from this device.",
    remedies: ["erase"],
  },
  too_many: {
    title: "Too many attempts",
    text: "The server makes you wait: 15 seconds at first, and 15 minutes at most. Try again later.",
    remedies: ["retry"],
  },
  offline: {
    title: "The server cannot be reached",
    text: "This needs the server. Check your network, then try again.",
    remedies: ["retry"],
  },
  no_store: {
    title: "This device has no data of that account",
    text: "It was never opened here. Sign in with the network up.",
    remedies: ["sign-in"],
  },
  not_found: {
    title: "This server has no accounts",
    text: "Check the address under \"Server and device\". The server must be started with --sign-up.",
    remedies: ["retry"],
  },
  malformed: {
    title: "There is no Escale server at this address",
    text: "Something else answers there. Check the address under \"Server and device\".",
    remedies: ["retry"],
  },
  last_admin: {
    title: "You are the only administrator",
    text: "The org would have nobody to administer it. Make another member an administrator first.",
    remedies: [],
  },
  forbidden: {
    title: "You may not do that",
    text: "Only the author of a note may delete it. Discard the change.",
    remedies: [],
  },
} as const satisfies Readonly<Record<string, Words>>;

/** The words of a code that depend on the place. */
const THERE: Readonly<Partial<Record<Where, Readonly<Record<string, Words>>>>> = {
  "sign-in": {
    wrong_passphrase: {
      title: "Wrong login or passphrase",
      text: "No account here has this login with this passphrase. Check both, and try again. If you forgot the passphrase, use your recovery code.",
      remedies: ["recover"],
    },
    offline: {
      title: "The server cannot be reached",
      text: "The first sign-in on a device needs it. Check your network, the login and the server's address, then try again.",
      remedies: ["retry"],
    },
  },
  "sign-up": {
    bad_login: {
      title: "That login cannot be taken",
      text: "A login has letters, digits and signs such as @ or a full stop, and no spaces. Choose another one.",
      remedies: [],
    },
    too_many: {
      title: "Too many accounts from here",
      text: "The server takes ten in an hour from one address. Try again later, or sign in to an account that you have.",
      remedies: ["sign-in"],
    },
    offline: {
      title: "The server cannot be reached",
      text: "A new account needs it. Check your network and the server's address, then try again.",
      remedies: ["retry"],
    },
  },
  recover: {
    wrong_passphrase: {
      title: "Login and recovery code do not fit",
      text: "Check both. The code has 32 letters and digits, and only the codes in your account's list are valid.",
      remedies: [],
    },
    offline: {
      title: "The server cannot be reached",
      text: "A recovery needs it. Check your network and the server's address, then try again.",
      remedies: ["retry"],
    },
  },
  inside: {
    wrong_passphrase: {
      title: "Wrong passphrase",
      text: "It is not the passphrase of this account. Nothing was changed. Try again.",
      remedies: [],
    },
  },
};

/** The device refuses the passphrase, and the server could not be asked about it. */
const WRONG_HERE: Words = {
  title: "This device does not open with that passphrase",
  text: "The server cannot be reached, so only the passphrase that this device knows opens it. Try that one, or come back with a network.",
  remedies: ["retry"],
};

/** The problem of a code of this page's own words. */
export function problemOfCode(code: keyof typeof KNOWN): Problem {
  return { code, ...KNOWN[code] };
}

/** The problem to show for anything that was thrown. */
export function problemOf(thrown: unknown, where: Where): Problem {
  const code: string = thrown instanceof EscaleError ? thrown.code : "internal";
  if (code === "wrong_passphrase" && where === "sign-in" && codeOf((thrown as Error).cause) === "offline") {
    return { code, ...WRONG_HERE };
  }
  const words = THERE[where]?.[code] ?? (KNOWN as Readonly<Record<string, Words>>)[code];
  if (words) return { code, ...words };
  const { title, text, remedies } = problemOfPackages(thrown);
  const ours = remedies.flatMap((remedy) => (remedy === "retry" || remedy === "erase" || remedy === "reload" ? [remedy] : []));
  return { code, title, text, remedies: ours };
}

function codeOf(cause: unknown): string | undefined {
  return cause instanceof EscaleError ? cause.code : undefined;
}

/** The label of each remedy's button. */
export const REMEDY_LABEL: Readonly<Record<Remedy, string>> = {
  retry: "Try again",
  "sign-in": "Sign in",
  recover: "Use the recovery code",
  read: "Read the data of this device",
  erase: "Erase it from this device",
  reload: "Reload the page",
};
