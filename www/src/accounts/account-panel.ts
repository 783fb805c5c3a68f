/** The panel of the account: who it is, its devices, the ways to open it, and its end. */

import { accounts, type WrapInfo } from "escale/accounts";
import { fill, h } from "../dom";
import { date } from "../format";
import { icon } from "../icons";
import { toast } from "../ui/toast";
import { askDialog } from "./ask-dialog";
import { drawDevices } from "./devices-block";
import { MembersBlock } from "./members-block";
import { missing, ProblemBox, secretField, tickField, tooShort, type Field } from "./fields";
import { problemOf } from "./problems";
import { codeDialog } from "./recovery-code";
import type { Session } from "./session";

/** How a tab knows the server: it talks to it itself, it follows another tab that does, or nobody reaches it. */
export type Contact = "leads" | "follows" | "away";

const ORDER: readonly WrapInfo["by"][] = ["passphrase", "passkey", "code"];

/** The needs of the panel from the screen. */
export interface AccountPanelOptions {
  session: Session;
  login: string;
  /** Whether the session talks to a server at all. */
  isOpen: boolean;
  /** The server no longer takes this tab's passphrase: the screen asks for the new one. */
  lockedOut(): void;
  /** Closes the account. With `erase` the data of this device goes too. */
  close(passphrase: string, erase: boolean): Promise<void>;
}

/** The panel. */
export class AccountPanel {
  readonly element: HTMLElement;
  private readonly devices = h("div", { class: "panel-list" });
  private readonly ways = h("div", { class: "panel-list" });
  private readonly problem = new ProblemBox(() => void this.refresh());
  private readonly members: MembersBlock;
  private isRefreshing = false;

  constructor(private readonly options: AccountPanelOptions) {
    const { isOpen } = options;
    this.members = new MembersBlock(options.session);
    this.element = h(
      "section",
      { class: "account-panel", "aria-labelledby": "account-title", testid: "account-panel" },
      h("h2", { id: "account-title" }, "Your account"),
      this.identity(),
      isOpen
        ? [
            this.problem.element,
            this.members.element,
            block("Devices", this.devices),
            block("Ways to open it", this.ways, this.actions()),
            block(
              "Close it for ever",
              h("p", { class: "hint" }, "A closed account cannot be opened again, and its login stays taken."),
              action("trash", "Close the account...", "close-account", () => void this.close(), true),
            ),
          ]
        : null,
    );
    this.meet("away");
  }

  /** Begins to follow the accounts of the org. */
  start(): void {
    if (this.options.isOpen) this.members.start();
  }

  stop(): void {
    this.members.stop();
  }

  /**
   * The tab knows the server in another way. A tab that follows asks only if the visitor does: it signs in by itself, and
   * that ends the token of the tab that leads.
   */
  meet(contact: Contact): void {
    this.problem.clear();
    fill(this.ways);
    const text = contact === "away" ? "The list comes from the server, once it is reached." : "Asking the server...";
    const hint = contact === "follows" ? "Another tab of this page talks to the server." : text;
    fill(
      this.devices,
      h("p", { class: "hint", testid: "devices-hint" }, hint),
      contact === "follows" ? this.askButton("Ask for the list") : null,
    );
    if (contact === "leads") void this.refresh();
  }

  /** Asks the server for the devices and the ways in. */
  async refresh(): Promise<void> {
    if (this.isRefreshing || !this.options.isOpen) return;
    this.isRefreshing = true;
    const { session } = this.options;
    const hadButton = this.devices.contains(document.activeElement);
    try {
      // One after the other: two requests without a token would sign in twice.
      const devices = await accounts.devices(session);
      const ways = await accounts.wraps(session);
      this.problem.clear();
      // The pressed button is drawn again: the focus stays at the list.
      const active = document.activeElement;
      const hadFocus = this.devices.contains(active) || (hadButton && active === document.body);
      drawDevices(this.devices, devices, (device, button) => void this.signOut(device, button), this.askButton("Refresh"));
      this.drawWays(ways);
      if (hadFocus) this.devices.querySelector<HTMLElement>('[data-testid="devices-ask"]')?.focus();
    } catch (error) {
      this.fail(error);
    } finally {
      this.isRefreshing = false;
    }
  }

  private identity(): HTMLElement | null {
    const { session, login } = this.options;
    const { identity } = session;
    if (!identity) return null;
    const groups = identity.fingerprint.split(/\s+/);
    return h(
      "div",
      { class: "identity" },
      h("p", { class: "identity-login" }, icon("key"), h("strong", { testid: "login-shown" }, login)),
      h("h3", {}, "Fingerprint"),
      h("p", { class: "fingerprint", testid: "fingerprint" }, groups.map((group) => h("span", {}, group))),
      h(
        "p",
        { class: "hint" },
        "Read it to another member, by voice, to prove who you are. It stays the same when passphrase and devices change.",
      ),
      h("p", { class: "hint" }, "Account id ", h("code", { class: "account-id", testid: "account-id" }, identity.account)),
    );
  }

  private askButton(label: string): HTMLElement {
    return action("sync", label, "devices-ask", () => void this.refresh());
  }

  private actions(): HTMLElement {
    return h(
      "div",
      { class: "panel-actions" },
      action("key", "Change the passphrase", "change-passphrase", () => void this.changePassphrase()),
      action("restore", "New recovery code", "new-code", () => void this.newCode()),
    );
  }

  private drawWays(ways: readonly WrapInfo[]): void {
    const words = { passphrase: "Passphrase, set", code: "Recovery code, made", passkey: "Passkey, added" };
    const inOrder = [...ways].sort((a, b) => ORDER.indexOf(a.by) - ORDER.indexOf(b.by));
    fill(
      this.ways,
      h(
        "ul",
        { class: "ways", testid: "ways" },
        inOrder.map(({ by, at }) => h("li", { testid: `way-${by}` }, icon(by === "code" ? "restore" : "key"), h("span", {}, `${words[by]} ${date(at)}`))),
      ),
      ways.some(({ by }) => by === "code")
        ? null
        : h("p", { class: "hint" }, "There is no recovery code. Make one, or a forgotten passphrase ends the account."),
    );
  }

  private async signOut(device: string, button: HTMLButtonElement): Promise<void> {
    button.disabled = true;
    try {
      await accounts.revoke(this.options.session, device);
      toast(device === "others" ? "All other devices are signed out." : "The device is signed out. It locks as soon as it hears of it.");
      await this.refresh();
    } catch (error) {
      this.fail(error);
    } finally {
      button.disabled = false;
    }
  }

  private async changePassphrase(): Promise<void> {
    const old = secretField({ id: "passphrase-old", label: "Present passphrase", autocomplete: "current-password" });
    const next = secretField({ id: "passphrase-new", label: "New passphrase", autocomplete: "new-password" });
    const done = await askDialog({
      id: "change",
      title: "Change the passphrase",
      text: "It takes effect at once. Your other devices ask for the new one.",
      fields: [old, next],
      submit: "Change it",
      mistake: () => missing(old, "Type the present passphrase.") ?? tooShort(next),
      run: () => this.options.session.changePassphrase(old.input.value, next.input.value),
    });
    if (!done) return;
    toast("The passphrase was changed. The old one no longer works.", { icon: "key" });
    await this.refresh();
  }

  /** Makes a code, and ends the earlier ones: a code that was seen by others must not stay valid. */
  private async newCode(): Promise<void> {
    const { session } = this.options;
    const secret = passphraseField("code-passphrase");
    let code: string | undefined;
    const done = await askDialog({
      id: "code",
      title: "Make a new recovery code",
      text: "The codes that you have now stop working.",
      fields: [secret],
      submit: "Make the code",
      mistake: () => missing(secret, "Type your passphrase."),
      run: async () => {
        const passphrase = secret.input.value;
        const before = (await accounts.wraps(session)).filter(({ by }) => by === "code");
        code = await accounts.addCode(session, passphrase);
        for (const { id } of before) await accounts.removeWrap(session, id, passphrase);
      },
    });
    // A code that was made must be seen, even if an earlier one could not be ended.
    if (code !== undefined) await codeDialog(code);
    if (done || code !== undefined) await this.refresh();
  }

  private async close(): Promise<void> {
    const { login } = this.options;
    const secret = passphraseField("close-passphrase");
    const erase = tickField("close-erase", "Also delete the data on this device");
    await askDialog({
      id: "close",
      title: "Close the account for ever?",
      text: `Nobody can sign in as ${login} again, and all devices are signed out. Notes on the board stay.`,
      fields: [secret, erase],
      submit: "Close the account",
      isDanger: true,
      mistake: () => missing(secret, "Type your passphrase."),
      run: () => this.options.close(secret.input.value, erase.input.checked),
    });
  }

  private fail(error: unknown): void {
    const problem = problemOf(error, "inside");
    if (problem.code === "offline") this.meet("away");
    else if (problem.code === "wrong_passphrase") this.options.lockedOut();
    else this.problem.show(problem);
  }
}

function passphraseField(id: string): Field {
  return secretField({ id, label: "Your passphrase", autocomplete: "current-password" });
}

function block(title: string, ...content: Node[]): HTMLElement {
  return h("section", { class: "detail-block" }, h("h3", {}, title), content);
}

function action(name: Parameters<typeof icon>[0], label: string, testid: string, run: () => void, isDanger = false): HTMLElement {
  return h("button", { class: isDanger ? "button small danger" : "button small", type: "button", testid, on: { click: run } }, icon(name), label);
}
