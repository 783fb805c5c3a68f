/** The scope: subscriptions that follow from the documents held (R22). */

import type { Core } from "../wasm/core.js";
import { raise, toEscaleError, type EscaleError } from "../base/errors.js";
import { report } from "../base/report.js";
import type { ClassDeclaration, ClassName, DocumentOf, KeyOf, MatchOf, SchemaDeclaration } from "../schema/schema-types.js";
import { textOf } from "../schema/query.js";
import { isMap } from "../schema/raw.js";
import { classOf as declaredClass } from "../schema/writing.js";
import type { Status } from "../session/status.js";
import { classOf, itemsMatch } from "./def.js";
import type { Stop } from "./view.js";

/** Selects documents of a class, as in `live`. With `items`, the items of that document are subscribed to, too. */
export type ScopeMatch<S extends SchemaDeclaration, C extends ClassName<S>> =
  | MatchOf<S[C]>
  | { readonly key: KeyOf<S[C]>; readonly items: boolean };

/** For each class whose documents lead to others: the classes that they lead to, and the matches that one document gives. */
export type ScopeRules<S extends SchemaDeclaration> = {
  readonly [C in ClassName<S>]?: {
    readonly [T in ClassName<S>]?: (document: DocumentOf<S[C]>) => readonly ScopeMatch<S, T>[];
  };
};

/** The query of all documents of a class. */
export const ALL = textOf({ where: [] });

/** How a scope treats the subscriptions of others. */
export interface ScopeOptions {
  /** Whether all other subscriptions to the classes that the rules lead to end, with the error `out_of_scope`. */
  readonly exclusive?: boolean | undefined;
}

/** The rules as JavaScript has them. */
export interface Rules {
  readonly [className: string]: object | undefined;
}

type Rule = (document: object) => readonly unknown[];

/** The parts of a session that a scope uses. */
export interface ScopeHost {
  readonly core: Pick<Core, "memory">;
  readonly classes: SchemaDeclaration;
  readonly status: Pick<Status, "damaged">;
  /** The def of a match. */
  defOf(className: string, match: unknown): string;
  /** The documents of a class that the session holds and that satisfy a query. */
  read(className: string, query: string): Promise<readonly object[]>;
  /** Subscribes for the scope, until the function is called. */
  hold(className: string, def: string): Stop;
  /** No document leads to a subscription any more. */
  end(def: string): void;
  /** Whether the scope ends all other subscriptions to its classes. */
  readonly isExclusive: boolean;
  /** The subscriptions for which there is no place. */
  waiting(): readonly string[];
  /** The subscriptions are those to which the documents lead, or a rule failed. */
  settled(): void;
  onError(error: unknown): void;
}

/**
 * Holds the subscriptions that the rules derive from the held documents. If it is exclusive, there are no others to the
 * classes that the rules lead to.
 *
 * It adds a subscription at once. It ends one only while every class that leads to it is loaded: a document that is still
 * to come may lead to it.
 */
export class Scope {
  /** The classes whose documents have rules. */
  readonly classNames: readonly string[];
  readonly #rules: ReadonlyMap<string, ReadonlyMap<string, Rule>>;
  readonly #host: ScopeHost;
  /** For each class whose subscriptions this scope owns: the classes that lead to it, directly or not. */
  readonly #sources = new Map<string, ReadonlySet<string>>();
  /** The defs that the documents lead to, with their classes. */
  #wanted: ReadonlyMap<string, string> = new Map();
  /**
   * Those that it holds, also while no document leads there any more. Another tab may have ended one since, by other rules:
   * it is not begun again.
   */
  readonly #held = new Map<string, Stop>();
  #isDirty = true;
  #isReading = false;
  #isOver = false;
  /** The last failure of a rule that was reported. */
  #reported = "";
  /** Whether the subscriptions were once those to which the documents led. */
  #wasSettled = false;
  /** Why the documents lead nowhere at the moment: a rule failed. */
  failure: EscaleError | undefined;

  constructor(rules: Rules, host: ScopeHost) {
    this.#host = host;
    this.#rules = checkRules(rules, host);
    this.classNames = [...this.#rules.keys()];
    for (const target of new Set([...this.#rules.values()].flatMap((led) => [...led.keys()]))) {
      const sources = this.#sourcesOf(target);
      if (sources.has(target)) throw raise("bad_option", `scope: class ${target} leads to itself`);
      // A class of items may have rules of its own, too.
      for (const owned of [target, ...this.#itemsOf(target)]) {
        this.#sources.set(owned, new Set([...(this.#sources.get(owned) ?? []), ...sources]));
      }
    }
    this.#schedule();
  }

  /** Whether the subscriptions are those to which the documents lead. */
  get isSettled(): boolean {
    return this.#wasSettled && !this.#isReading;
  }

  get isReading(): boolean {
    return this.#isReading;
  }

  /** The classes that the rules lead to, and those of their items that the scope owns, too. */
  get targets(): readonly string[] {
    return [...this.#sources.keys()];
  }

  /** The classes that lead to a class, directly or not; none if no rule leads to it. */
  sourcesOf(className: string): ReadonlySet<string> | undefined {
    return this.#sources.get(className);
  }

  /** Whether it would end this subscription at once. */
  excludes(def: string): boolean {
    const isOwned = this.#host.isExclusive && this.isSettled && this.#sources.has(classOf(def));
    return isOwned && !this.#wanted.has(def) && this.#superfluous([def], this.#wanted).length > 0;
  }

  /** Whether there is a subscription among them to which no document leads: it is ended at once. */
  minds(defs: readonly string[]): boolean {
    return this.#host.isExclusive && defs.some((def) => this.#sources.has(classOf(def)) && !this.#wanted.has(def));
  }

  /** A document of its classes changed, or a load of them ended. */
  changed(): void {
    this.#isDirty = true;
    this.#schedule();
  }

  end(): void {
    this.#isOver = true;
    for (const letGo of this.#held.values()) letGo();
  }

  #sourcesOf(target: string, found = new Set<string>()): Set<string> {
    for (const [from, led] of this.#rules) {
      if (!led.has(target) || found.has(from)) continue;
      found.add(from);
      this.#sourcesOf(from, found);
    }
    return found;
  }

  #itemsOf(className: string): string[] {
    const { classes } = this.#host;
    return Object.keys(classes).filter((name) => classes[name]?.in === className && classes[name]?.sync !== false);
  }

  #schedule(): void {
    if (this.#isReading || this.#isOver) return;
    this.#isReading = true;
    queueMicrotask(() => void this.#refresh());
  }

  async #refresh(): Promise<void> {
    try {
      while (this.#isDirty && !this.#isOver) {
        this.#isDirty = false;
        const wanted = await this.#derive();
        // If something changed meanwhile, the result may contradict it.
        if (!this.#isDirty && !this.#isOver) this.#settle(wanted);
      }
      this.failure = undefined;
    } catch (error) {
      this.failure = toEscaleError(error);
      if (!this.#isOver) this.#host.onError(error);
    } finally {
      this.#isReading = false;
      if (this.#isDirty) this.#schedule();
      this.#host.settled();
    }
  }

  /** The defs that the documents lead to, with their classes. */
  async #derive(): Promise<Map<string, string>> {
    const wanted = new Map<string, string>();
    for (const [from, led] of this.#rules) {
      const documents = await this.#host.read(from, ALL);
      for (const [target, rule] of led) {
        try {
          for (const match of documents.flatMap((document) => rule(document))) this.#add(wanted, target, match);
        } catch (error) {
          // As an error of any other callback. A rule runs at each change, and tells once.
          if (this.#reported !== String(error)) report(error);
          this.#reported = String(error);
          throw raise("bad_option", `scope: the rule from ${from} to ${target} failed: ${String(error)}`, error);
        }
      }
    }
    return wanted;
  }

  #add(wanted: Map<string, string>, target: string, match: unknown): void {
    const host = this.#host;
    const { key, items } = (isMap(match) ? match : {}) as { key?: unknown; items?: unknown };
    const isKey = Array.isArray(key);
    wanted.set(host.defOf(target, isKey ? { key } : match), target);
    if (!isKey || items !== true) return;
    for (const name of this.#itemsOf(target)) {
      wanted.set(host.defOf(name, itemsMatch(host.classes[name] as ClassDeclaration, key as string[])), name);
    }
  }

  #settle(wanted: Map<string, string>): void {
    const host = this.#host;
    const before = this.#wanted;
    this.#wanted = wanted;
    for (const [def, className] of wanted) {
      if (before.has(def)) continue;
      const letGo = this.#held.get(def);
      this.#held.set(def, host.hold(className, def));
      letGo?.();
    }
    this.#wasSettled = true;
    const all = host.isExclusive ? [...host.core.memory().collections.map(({ def }) => def), ...host.waiting()] : [...this.#held.keys()];
    for (const def of this.#superfluous(all, wanted)) {
      this.#held.get(def)?.();
      this.#held.delete(def);
      host.end(def);
    }
  }

  /** Those of these subscriptions to which no document leads, and none that is still to come can lead. */
  #superfluous(defs: readonly string[], wanted: ReadonlyMap<string, string>): string[] {
    const { core, status } = this.#host;
    const loading = new Set(core.memory().collections.filter(({ ready }) => !ready).map(({ def }) => classOf(def)));
    // The rules do not see damaged documents, which are fetched again.
    const { documents, collections } = status.damaged;
    if (documents + collections > 0) return [];
    return defs.filter((def) => {
      const sources = this.#sources.get(classOf(def));
      return !!sources && !wanted.has(def) && ![...sources].some((from) => loading.has(from));
    });
  }
}

/** The rules, by the class of the document and by the class that it leads to. */
function checkRules(rules: Rules, { classes }: ScopeHost): Map<string, Map<string, Rule>> {
  const named = (of: unknown): [string, unknown][] => {
    if (!isMap(of)) throw raise("bad_option", "scope: must be { Class: { Other: (document) => [match, ..] } }");
    const entries = Object.entries(of).filter(([, rule]) => rule !== undefined);
    for (const [name] of entries) declaredClass({ classes }, name);
    return entries;
  };
  const checked = (rule: unknown): Rule => {
    if (typeof rule !== "function") throw raise("bad_option", "scope: a rule is a function of a document");
    return rule as Rule;
  };
  return new Map(named(rules).map(([from, led]) => [from, new Map(named(led).map(([to, rule]) => [to, checked(rule)]))]));
}
