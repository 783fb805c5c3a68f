/** The phases of a session, each with a word, a sentence and an icon: a colour alone never carries the meaning. */

import type { IconName } from "./icons";

/** The text and icon of a phase. */
export interface PhaseText {
  word: string;
  sentence: string;
  icon: IconName;
}

/** By the phase's name. */
export const PHASES: Readonly<Record<string, PhaseText>> = {
  opening: { word: "Opening", sentence: "Reading the data on this device.", icon: "opening" },
  loading: { word: "Loading", sentence: "Fetching the packages that you follow.", icon: "loading" },
  live: { word: "Live", sentence: "Changes on the server appear here as they happen.", icon: "live" },
  offline: {
    word: "Offline",
    sentence: "The server does not answer. All data is read from this device. The next attempt is automatic.",
    icon: "offline",
  },
  paused: { word: "Paused", sentence: "The server requires an access token: lock, then open with one.", icon: "paused" },
  avion: { word: "Avion", sentence: "No network requests. All data is read from this device.", icon: "avion" },
  closed: { word: "Closed", sentence: "The session is closed.", icon: "closed" },
};

/** Live without any subscription: nothing is asked of the server, which may not even exist. */
const READY: PhaseText = { word: "Ready", sentence: "You follow nothing, so no request is sent.", icon: "live" };

/** The text of a phase, for a session with or without followed topics. */
export function phaseText(phase: string, following = true): PhaseText {
  if (phase === "live" && !following) return READY;
  return PHASES[phase] ?? { word: phase, sentence: "", icon: "closed" };
}
