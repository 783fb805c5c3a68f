// The demonstration of accounts, as two members use it. They share a board, and keep notes of their own. Devices are
// signed out, passphrases change and are forgotten, and everything opens with no network.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";

import { ROOT } from "../support/paths.mjs";
import { makeServer } from "../support/server.mjs";
import { serveDemonstration, visit, Visitor } from "../support/visitor.mjs";

const SCHEMA = join(ROOT, "server/examples/accounts.schema.json");
const ADA = { login: "ada", passphrase: "ada's first passphrase" };
const BOB = { login: "bob", passphrase: "bob's first passphrase" };
const NEXT = "ada's next passphrase";
const LAST = "ada's last passphrase";
const LIMIT = { timeout: 120_000 };

/** The browser itself reports requests that fail: these are expected. */
const OF_THE_NETWORK = /^(Failed to load resource|WebSocket connection to)/;

/** A member of the org, in a browser of its own. */
class Member extends Visitor {
  title = "Escale demonstration: accounts";

  constructor(browser, page, address) {
    super(browser, page, address);
    page.on("console", (message) => {
      if (message.type() === "error" && !OF_THE_NETWORK.test(message.text())) this.errors.push(message.text());
    });
  }

  /** Fills in the fields of a form by their labels, and sends it by the Enter key. A dialog covers the page's forms. */
  async fill(fields, form = this.page) {
    for (const [label, text] of Object.entries(fields)) await form.getByLabel(label, { exact: true }).fill(text);
    await form.getByLabel(Object.keys(fields).at(-1), { exact: true }).press("Enter");
  }

  /** The same in a dialog. */
  answers(fields) {
    return this.fill(fields, this.page.getByRole("dialog"));
  }

  /** Makes an account, and opens it. Returns the recovery code. */
  async signUp({ login, passphrase }, invitation) {
    await this.on("tab-sign-up").click();
    await this.look("the form to sign up");
    const field = "Invitation, if the org requires one";
    if (invitation) await this.page.getByText("Server and device").click();
    await this.fill({ ...(invitation && { [field]: invitation }), Login: login, Passphrase: passphrase });
    const code = await this.keepsCode();
    await this.online();
    return code;
  }

  /** Reads a recovery code that is shown, copies it, and says so. */
  async keepsCode() {
    const code = await this.on("recovery-code").getAttribute("data-code");
    assert.match(code, /^([0-9A-Z]{4}-){7}[0-9A-Z]{4}$/);
    await this.browser.context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await this.on("copy-code").click();
    await this.on("copied").filter({ hasText: "Copied" }).waitFor();
    assert.equal(await this.page.evaluate(() => navigator.clipboard.readText()), code);
    await this.on("code-done").click();
    await this.page.getByText("Keep the code first").waitFor();
    await this.look("the recovery code");
    await this.page.getByLabel("I have kept the code in a safe place").check();
    await this.on("code-done").click();
    return code;
  }

  async signIn({ login, passphrase }) {
    await this.fill({ Login: login, Passphrase: passphrase });
  }

  online() {
    return this.on("status-phase").filter({ hasText: "Online" }).waitFor();
  }

  offline() {
    return this.on("status-phase").filter({ hasText: "Offline" }).waitFor();
  }

  /** Shows a part: a phone has tabs for that. */
  async part(name) {
    await this.on("status-phase").waitFor();
    const tab = this.on(`part-${name}`);
    if (await tab.isVisible()) await tab.click();
    await this.look(`the part ${name}`);
  }

  async writes(list, text) {
    await this.part(list);
    await this.on(`${list}-text`).fill(text);
    await this.on(`${list}-text`).press("Enter");
  }

  note(text, state) {
    return this.page.locator(`[data-testid="note"]${state ? `[data-state="${state}"]` : ""}`, { hasText: text });
  }

  reads(text, state) {
    return this.note(text, state).waitFor();
  }

  /** Waits for a refusal, and checks that it fits the screen. */
  async refused(code, words) {
    await this.page.locator(`[data-testid="problem"][data-code="${code}"]`, { hasText: words }).waitFor();
    await this.look(`the refusal ${code}`);
  }

  /** Subscribes to the notes of another account, as a script could. Returns the code of the server's refusal. */
  asksFor(owner) {
    return this.page.evaluate(
      (account) =>
        new Promise((resolve) => {
          const { session } = window;
          session.live("PrivateNote", { owner: account }, () => {});
          session.status.subscribe(({ faults }) => Object.values(faults).forEach(({ code }) => resolve(code)));
        }),
      owner,
    );
  }

  /** Restricts a member, by the words of the list, and waits for the server's answer. */
  async restricts(login, words) {
    await this.part("account");
    await this.page.getByLabel(`What ${login} may do`).selectOption({ label: words });
    await this.on("members-state").filter({ hasText: `${login}: ${words}.` }).waitFor();
    await this.look(`the members, ${login}: ${words}`);
  }

  /** Waits until the panel lists that many devices. */
  async devices(count) {
    await this.part("account");
    await this.page.locator(`[data-testid="devices"][data-count="${count}"]`).waitFor();
    await this.look("the devices");
  }
}

/** A server with accounts, its page, and the page's address. */
async function setUp(t, who = "open") {
  const server = await makeServer(t, { schema: SCHEMA, options: ["--sign-up", who] });
  await server.start();
  const site = await serveDemonstration(t);
  return { server, site, address: `${site.origin}/accounts/?server=${encodeURIComponent(server.url)}` };
}

visit("a desk", "members share a board, and each has notes alone, with the server and without", LIMIT, async (t, options) => {
  const { server, site, address } = await setUp(t);
  const ada = await Member.at(t, address, options);
  await ada.look("the first screen");
  await ada.signUp(ADA);
  await ada.on("toast").filter({ hasText: "opens without a network" }).waitFor();
  await ada.on("board-empty").filter({ hasText: "Nobody has written yet" }).waitFor();
  await ada.part("own");
  await ada.on("own-empty").filter({ hasText: "Nothing yet" }).waitFor();
  const bob = await Member.at(t, address, options);
  await bob.signUp(BOB);

  // The shared note is written after the private one: a private one that leaked would be there first.
  await ada.writes("own", "A present for Bob");
  await ada.reads("A present for Bob", "accepted");
  await ada.writes("board", "The ferry leaves at nine");
  await bob.reads("The ferry leaves at nine", "accepted");
  await bob.part("own");
  await bob.on("own-empty").filter({ hasText: "Nothing yet" }).waitFor();
  assert.equal(await bob.note("A present for Bob").count(), 0);
  assert.equal(await bob.asksFor(await ada.on("account-id").textContent()), "withdrawn");

  // Its author alone deletes a note.
  await bob.writes("board", "I bring the bread");
  await ada.reads("I bring the bread", "accepted");
  assert.equal(await ada.note("I bring the bread").getByTestId("note-delete").count(), 0);
  await bob.note("I bring the bread").getByTestId("note-delete").click();
  await ada.note("I bring the bread").waitFor({ state: "detached" });

  // With no server and no site: read, written, read again after a reload, and sent later.
  await server.stop("SIGKILL");
  await site.stop();
  await ada.offline();
  await ada.writes("board", "Written in the tunnel");
  await ada.reads("Written in the tunnel", "waiting");
  await ada.on("pending").filter({ hasText: "1 change waiting" }).waitFor();
  await ada.page.reload();
  await ada.signIn(ADA);
  await ada.reads("Written in the tunnel", "waiting");
  await ada.reads("The ferry leaves at nine", "accepted");
  await ada.offline();
  await ada.part("own");
  await ada.reads("A present for Bob", "accepted");
  await server.start();
  await bob.reads("Written in the tunnel", "accepted");
  await ada.online();

  // Locked, and opened again.
  await ada.on("lock").click();
  await ada.on("notice").filter({ hasText: "Locked" }).waitFor();
  await ada.look("the locked page");
  await ada.signIn(ADA);
  await ada.reads("Written in the tunnel", "accepted");
  assert.deepEqual([ada.errors, bob.errors], [[], []]);
});

visit("a phone", "a device is signed out, the passphrase changes, is forgotten, and is recovered by the code", LIMIT, async (t, options) => {
  const { address } = await setUp(t);
  const desk = await Member.at(t, address, options);
  const first = await desk.signUp(ADA);
  await desk.devices(1);
  assert.match(await desk.on("fingerprint").innerText(), /^(\d{5}\s*){8}$/);
  const other = await Member.at(t, address, options);
  await other.page.getByText("Server and device").click();
  await other.page.getByLabel("Name of this device").fill("The other device");
  await other.signIn(ADA);
  await other.online();
  assert.equal(await other.on("fingerprint").textContent(), await desk.on("fingerprint").textContent());

  await desk.on("devices-ask").click();
  await desk.devices(2);

  // The other one signs this one out: it locks, and comes back as a new device.
  await other.devices(2);
  await other.page.locator('[data-testid="device"][data-here="false"]').getByTestId("sign-out").click();
  await other.devices(1);
  await desk.refused("device_revoked", "This device was signed out");
  await desk.signIn(ADA);
  await desk.devices(2);
  await desk.page.locator('[data-testid="device"]', { hasText: "The other device" }).waitFor();

  // The passphrase changes here, and the other device asks for it.
  await desk.on("change-passphrase").click();
  await desk.answers({ "Present passphrase": "not the passphrase", "New passphrase": NEXT });
  await desk.refused("wrong_passphrase", "Wrong passphrase");
  await desk.answers({ "Present passphrase": ADA.passphrase, "New passphrase": NEXT });
  await desk.on("change-dialog").waitFor({ state: "detached" });
  await other.on("unlock-banner").filter({ hasText: "changed on another device" }).waitFor();
  await other.look("the field to unlock");
  await other.fill({ "New passphrase": ADA.passphrase });
  await other.refused("wrong_passphrase", "Wrong passphrase");
  await other.fill({ "New passphrase": NEXT });
  await other.on("unlock-banner").waitFor({ state: "hidden" });
  await other.online();

  // A new code ends the first one.
  await desk.on("new-code").click();
  await desk.answers({ "Your passphrase": NEXT });
  const code = await desk.keepsCode();
  await desk.on("code-dialog").waitFor({ state: "detached" });
  assert.equal(await desk.on("way-code").count(), 1);

  // The passphrase is forgotten: on a new device, the code sets another one.
  const last = await Member.at(t, address, options);
  await last.on("go-recover").click();
  await last.fill({ Login: ADA.login, "Recovery code": first, "New passphrase": LAST });
  await last.refused("wrong_passphrase", "Login and recovery code do not fit");
  await last.fill({ Login: ADA.login, "Recovery code": code.toLowerCase(), "New passphrase": LAST });
  await last.online();
  await other.on("unlock-banner").waitFor();
  await other.fill({ "New passphrase": LAST });
  await other.online();

  // All other devices are signed out at once.
  await last.devices(3);
  await last.on("sign-out-others").click();
  await last.devices(1);
  await other.refused("device_revoked", "This device was signed out");
  assert.deepEqual([desk.errors, other.errors, last.errors], [[], [], []]);
});

visit("a desk", "an administrator restricts a member, who is told and loses nothing", LIMIT, async (t, options) => {
  const { server, address } = await setUp(t);
  const invitation = await server.command("account", "--schema", SCHEMA, "--org", "harbour", "invite", "--role", "admin");
  const ada = await Member.at(t, address, options);
  await ada.signUp(ADA, invitation);
  const bob = await Member.at(t, address, options);
  await bob.signUp(BOB);
  await bob.writes("board", "Written before");
  await ada.reads("Written before", "accepted");
  await bob.part("account");
  assert.equal(await bob.on("members-block").isVisible(), false, "a member administers nobody");

  // Reading goes on, and his change waits.
  await ada.restricts(BOB.login, "Reads, and writes nothing");
  await bob.on("restriction").filter({ hasText: "You may read, but not write" }).waitFor();
  await bob.look("the banner of the restriction");
  await bob.writes("board", "Written meanwhile");
  await bob.on("blocked-count").filter({ hasText: "1 change of yours waits" }).waitFor();
  await bob.look("a change that waits");
  await ada.writes("board", "Bob reads this");
  await bob.reads("Bob reads this", "accepted");

  // At the next level nothing arrives, and nothing leaves.
  await ada.restricts(BOB.login, "Neither reads nor writes");
  await bob.on("restriction").filter({ hasText: "You may neither read nor write" }).waitFor();
  await ada.writes("board", "Bob reads this later");
  await ada.reads("Bob reads this later", "accepted");
  await bob.part("board");
  await bob.reads("Written before", "accepted");
  assert.equal(await bob.note("Bob reads this later").count(), 0);

  // It ends: all arrives, and his change goes.
  await ada.restricts(BOB.login, "Reads and writes");
  await bob.reads("Bob reads this later", "accepted");
  await bob.on("restriction").filter({ hasText: "The restriction has ended" }).waitFor();
  await bob.look("the end of the restriction");
  await bob.on("send-blocked").click();
  await ada.part("board");
  await ada.reads("Written meanwhile", "accepted");
  await bob.on("restriction").waitFor({ state: "hidden" });

  // Barred from entering: the page says so, shows the data of the device, and lets him in again.
  await ada.restricts(BOB.login, "Cannot enter");
  await bob.refused("account_closed", "an administrator has barred it for now");
  await bob.page.getByLabel("Passphrase", { exact: true }).fill(BOB.passphrase);
  await bob.on("remedy-read").click();
  await bob.reads("Written meanwhile", "accepted");
  await bob.on("lock").click();
  await ada.restricts(BOB.login, "Reads and writes");
  await bob.signIn(BOB);
  await bob.online();
  assert.deepEqual([ada.errors, bob.errors], [[], []]);
});

visit("a phone", "each refusal says the next step, and a closed account is still read", LIMIT, async (t, options) => {
  const { server, address } = await setUp(t);
  const ada = await Member.at(t, address, options);
  await ada.signUp(ADA);
  await ada.writes("board", "Kept on this device");
  await ada.reads("Kept on this device", "accepted");

  const bob = await Member.at(t, address, options);
  await bob.on("submit").click();
  await bob.on("problem").filter({ hasText: "Type your login" }).waitFor();
  await bob.on("tab-sign-up").click();
  await bob.fill({ Login: ADA.login, Passphrase: "short" });
  await bob.on("problem").filter({ hasText: "at least 8 characters" }).waitFor();
  await bob.fill({ Login: ADA.login, Passphrase: BOB.passphrase });
  await bob.refused("login_taken", "Choose another one");
  await bob.on("remedy-sign-in").click();
  for (let attempt = 1; attempt < 5; attempt++) {
    await bob.signIn({ login: BOB.login, passphrase: `attempt ${attempt}` });
    await bob.refused("wrong_passphrase", "use your recovery code");
  }
  await bob.signIn({ login: BOB.login, passphrase: "attempt 5" });
  await bob.on("working").waitFor({ state: "hidden" });
  await bob.signIn({ login: BOB.login, passphrase: "attempt 6" });
  await bob.refused("too_many", "Try again later");

  await server.stop("SIGKILL");
  await bob.signIn(ADA);
  await bob.refused("offline", "The first sign-in on a device needs it");
  await ada.on("lock").click();
  await ada.signIn({ ...ADA, passphrase: "not the passphrase" });
  await ada.refused("wrong_passphrase", "only the passphrase that this device knows");
  await server.start();
  await ada.signIn(ADA);
  await ada.online();

  await ada.devices(1);
  await ada.on("close-account").click();
  await ada.look("the question before closing");
  await ada.answers({ "Your passphrase": "not the passphrase" });
  await ada.refused("wrong_passphrase", "Nothing was changed");
  await ada.answers({ "Your passphrase": ADA.passphrase });
  await ada.refused("account_closed", "you can still read it");
  await bob.signIn(ADA);
  await bob.refused("account_closed", "its login stays taken");
  await ada.page.getByLabel("Passphrase", { exact: true }).fill(ADA.passphrase);
  await ada.on("remedy-read").click();
  await ada.on("status-phase").filter({ hasText: "Reading only" }).waitFor();
  await ada.reads("Kept on this device", "accepted");
  await ada.look("a closed account");
  assert.equal(await ada.on("board-add").count(), 0);
  assert.deepEqual([ada.errors, bob.errors], [[], []]);
});

test("an account that is closed leaves nothing on the device if its owner says so", LIMIT, async (t) => {
  const { address } = await setUp(t);
  const ada = await Member.at(t, address);
  await ada.signUp(ADA);
  await ada.writes("own", "Nobody needs this any more");
  await ada.reads("Nobody needs this any more", "accepted");
  await ada.on("close-account").click();
  await ada.page.getByLabel("Also delete the data on this device").check();
  await ada.answers({ "Your passphrase": ADA.passphrase });
  await ada.on("notice").filter({ hasText: "its data is deleted from this device" }).waitFor();
  const names = await ada.page.evaluate(async () => (await indexedDB.databases()).map(({ name }) => name));
  assert.deepEqual(names.filter((name) => !name.endsWith("-mark")), []);
  await ada.signIn(ADA);
  await ada.refused("account_closed", "its login stays taken");
  assert.deepEqual(ada.errors, []);
});

test("an org by invitation asks for one, and takes it once", LIMIT, async (t) => {
  const { server, address } = await setUp(t, "invited");
  const ada = await Member.at(t, address);
  await ada.on("tab-sign-up").click();
  await ada.fill({ Login: ADA.login, Passphrase: ADA.passphrase });
  await ada.refused("invitation_needed", "Ask its administrator");
  const invitation = await server.command("account", "--schema", SCHEMA, "--org", "harbour", "invite");
  await ada.fill({ "Invitation, if the org requires one": invitation });
  await ada.keepsCode();
  await ada.online();
  const bob = await Member.at(t, address);
  await bob.on("tab-sign-up").click();
  await bob.page.getByText("Server and device").click();
  await bob.fill({ Login: BOB.login, Passphrase: BOB.passphrase });
  await bob.refused("invitation_needed", "Ask its administrator");
  await bob.fill({ "Invitation, if the org requires one": invitation });
  await bob.refused("invitation_unknown", "It was used");
  assert.deepEqual([ada.errors, bob.errors], [[], []]);
});

test("a plain link leads from the first page to the accounts and back, each with its server", LIMIT, async (t) => {
  const site = await serveDemonstration(t);
  const visitor = await Visitor.at(t, site.of("http://localhost:7710"));
  await visitor.on("accounts-link").click();
  const accounts = `${site.origin}/accounts/?server=${encodeURIComponent("http://localhost:7711")}`;
  await visitor.page.waitForURL(accounts);
  await visitor.page.getByText("Server and device").click();
  assert.equal(await visitor.page.getByLabel("Server", { exact: true }).inputValue(), "http://localhost:7711");
  await visitor.on("packages-link").click();
  await visitor.page.waitForURL(site.of("http://localhost:7710"));
  await visitor.on("open").waitFor();
  assert.deepEqual(visitor.errors, []);
});
