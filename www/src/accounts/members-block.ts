/** The members of the org, for its administrators: their names, and how each is restricted. */

import { fill, h, setText, show } from "../dom";
import { icon } from "../icons";
import { ProblemBox } from "./fields";
import { problemOf } from "./problems";
import type { Member } from "./schema";
import type { Session } from "./session";

/** The levels of restriction, in a member's words. */
const LEVELS = ["Reads and writes", "Reads, and writes nothing", "Neither reads nor writes", "Cannot enter"] as const;

/** The level that a schedule gives from the beginning: this page sets no dates. */
export function levelOf({ schedule }: Pick<Member, "schedule">): number {
  const last: unknown = Array.isArray(schedule) ? schedule.at(-1) : undefined;
  return Array.isArray(last) && typeof last[1] === "number" ? last[1] : 0;
}

/** The block. It shows itself to administrators alone. */
export class MembersBlock {
  readonly element: HTMLElement;
  private readonly list = h("ul", { class: "devices", testid: "members" });
  private readonly state = h("p", { class: "hint", role: "status", testid: "members-state" });
  private readonly problem = new ProblemBox();
  private readonly stops: (() => void)[] = [];
  private isAdmin = false;

  constructor(private readonly session: Session) {
    this.element = h(
      "section",
      { class: "detail-block", testid: "members-block", hidden: true },
      h("h3", {}, "Members"),
      h("p", { class: "hint" }, "You administer this org. A member who is restricted keeps all data on the device, and is told."),
      this.problem.element,
      this.list,
      this.state,
    );
  }

  /** Begins to follow the accounts: at first the own one, which tells whether there are others to see. */
  start(): void {
    const me = this.session.identity?.account ?? "";
    this.stops.push(
      this.session.live("EscaleAccount", { key: [me] }, ([own]) => {
        if (own?.role !== "admin" || this.isAdmin) return;
        this.isAdmin = true;
        show(this.element, true);
        this.stops.push(this.session.live("EscaleAccount", {}, (members) => this.draw(members, me)));
      }),
    );
  }

  stop(): void {
    for (const stop of this.stops) stop();
  }

  private draw(members: readonly Member[], me: string): void {
    const focused = document.activeElement?.id;
    const byLogin = [...members].sort((a, b) => Number(b.id === me) - Number(a.id === me) || a.login.localeCompare(b.login));
    fill(this.list, byLogin.map((member) => this.row(member, member.id === me)));
    // The field of a change is drawn again: the focus stays there.
    if (focused?.startsWith("level-")) document.getElementById(focused)?.focus();
  }

  private row(member: Member, isMe: boolean): HTMLElement {
    const { id, login, role } = member;
    const level = levelOf(member);
    const select = h(
      "select",
      { id: `level-${id}`, testid: "member-level", "aria-label": `What ${login} may do` },
      LEVELS.map((words, value) => h("option", { value, selected: value === level }, words)),
    );
    select.addEventListener("change", () => this.restrict(member, Number(select.value)));
    return h(
      "li",
      { class: "device", testid: "member", "data-level": level, "data-login": login },
      h("span", { class: "device-mark" }, icon("key")),
      h(
        "div",
        { class: "device-text" },
        h("p", { class: "device-name" }, login),
        h("p", { class: isMe ? "device-here" : "hint" }, isMe ? "You, an administrator" : role === "admin" ? "An administrator" : "A member"),
        isMe ? null : select,
      ),
    );
  }

  /** Restricts a member from the beginning of time: the clocks of this device and of the server may differ. */
  private restrict({ id, login }: Member, level: number): void {
    this.problem.clear();
    setText(this.state, `Telling the server about ${login}...`);
    const change = this.session.run("account.set", { account: id, schedule: level === 0 ? [] : [[0, level]] });
    change.accepted.then(
      () => setText(this.state, `${login}: ${LEVELS[level] ?? ""}.`),
      (error: unknown) => {
        setText(this.state, "");
        this.problem.show({ ...problemOf(error, "inside"), remedies: [] });
      },
    );
  }
}
