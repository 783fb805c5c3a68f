/** The page "Accounts": one screen at a time, and at most one open session. */

import { fill } from "../dom";
import { ACCOUNTS_PORT, serverAddress } from "../server-address";
import { keepShell } from "../shell";
import { clearToast } from "../ui/toast";
import { EntryScreen, type EntryScreenOptions } from "./entry-screen";
import { HomeScreen, type Ending } from "./home-screen";
import { problemOfCode } from "./problems";
import { deviceName, eraseAccount, loadCore, openAccount, type Draft } from "./session";

/** The worker that keeps both pages, as this page names it. */
const WORKER = "../escale-offline.js";

const draft: Draft = { login: "", server: serverAddress(location, ACCOUNTS_PORT), device: deviceName(navigator.userAgent) };

const root = document.querySelector("#app");
showEntry({ form: "sign-in" });

function showEntry(shown: Pick<EntryScreenOptions, "form" | "notice" | "problem">): void {
  delete document.documentElement.dataset.phase;
  Reflect.deleteProperty(window, "session");
  clearToast();
  const screen = new EntryScreen({ ...shown, draft, enter });
  if (root) fill(root, screen.element);
  // Not at the first look: a phone would cover half of the page by its keyboard.
  if (draft.login !== "") screen.focus();
  loadCore();
}

async function enter(passphrase: string, mode: "synced" | "avion" = "synced"): Promise<void> {
  const session = await openAccount(draft, passphrase, mode);
  const { login } = draft;
  const screen = new HomeScreen({ session, login, ended, erase: () => eraseAccount(login) });
  if (root) fill(root, screen.element);
  screen.start();
  // For experiments in the console, as on the first page.
  Object.assign(window, { session });
  keepShell(WORKER);
}

function ended(how: Ending): void {
  if (how === "revoked" || how === "closed") {
    const problem = problemOfCode(how === "revoked" ? "device_revoked" : "account_closed");
    return showEntry({ form: "sign-in", problem });
  }
  if (how === "erased") return showEntry({ form: "sign-in", notice: "The account is closed, and its data is deleted from this device." });
  const where = how === "locked" ? "Locked" : "Locked in another tab";
  showEntry({ form: "sign-in", notice: `${where}: the key is deleted from memory, and the data on this device stays encrypted.` });
}
