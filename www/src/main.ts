/** The page: one screen at a time, and at most one open session. */

import { advice } from "escale/advice";
import { adapterOf } from "./adapter";
import { fill } from "./dom";
import { Library } from "./library";
import { problemOf } from "./problems";
import { serverAddress } from "./server-address";
import { eraseStore, loadCore, openSession, type Session } from "./session";
import { forgetShell, keepShell } from "./shell";
import { confirmDialog } from "./ui/dialogs";
import { MainScreen, type Ending } from "./ui/main-screen";
import { openScreen, type Opening } from "./ui/open-screen";
import { clearToast, toast } from "./ui/toast";

declare global {
  interface Window {
    /** The open session, for experiments in the console. */
    session?: Session;
  }
}

const NOTICES: Record<Ending, string> = {
  locked: "Locked: the key is deleted from memory, and the data on this device stays encrypted.",
  wiped: "Wiped: this device holds nothing of the session any more.",
  revoked: "This device was signed out. The data on it stays encrypted.",
  barred: "The server closed the account. The data on this device stays encrypted.",
  closed: "The session was closed.",
};

/** The visitor's last choices, for the next opening; forgotten with the page. */
const last: Pick<Opening, "mode" | "server"> = { mode: "synced", server: adapterOf(window) ?? serverAddress(location) };

const root = document.querySelector("#app");
if (root) showOpen();

function showOpen(notice?: string): void {
  delete document.documentElement.dataset.phase;
  delete document.documentElement.dataset.mode;
  clearToast();
  if (root) fill(root, openScreen({ ...last, notice, open, erase }));
  loadCore();
}

async function open(opening: Opening): Promise<void> {
  const session = await openSession(opening);
  Object.assign(last, { mode: opening.mode, server: opening.server });
  const library = await Library.of(session).catch(async (error: unknown) => {
    await session.close();
    throw error;
  });
  window.session = session;
  const screen = new MainScreen({ session, library, ended: (how) => showEnded(session, how), forgetPage: forgetShell });
  if (root) fill(root, screen.element);
  if (opening.mode !== "incognito") keepShell();
}

function showEnded(session: Session, how: Ending): void {
  if (window.session === session) delete window.session;
  const error = session.status.error;
  const why = how === "closed" && error ? `${NOTICES.closed} ${advice(error)}` : NOTICES[how];
  showOpen(why);
}

async function erase(): Promise<boolean> {
  const answer = await confirmDialog({
    title: "Erase the store of this device?",
    text: "This deletes all documents and writes on this device without opening them. Writes that were not sent yet are lost. The page itself and the data on the server stay.",
    confirm: "Erase",
    testid: "erase",
  });
  if (!answer) return false;
  try {
    await eraseStore();
    return true;
  } catch (error) {
    const { title, text } = problemOf(error);
    toast(`${title}. ${text}`, { icon: "alert" });
    return false;
  }
}
