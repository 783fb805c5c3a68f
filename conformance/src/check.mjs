// A check: a sentence of docs/protocol.md, and the code that finds out whether a server keeps it.

/** A server broke a promise. `exchange` is the request and the answer that show it. */
export class Failure extends Error {
  constructor(message, exchange) {
    super(message);
    this.exchange = exchange;
  }
}

/** A check that does not concern this server, found out while it ran. */
export class Skip extends Error {}

/**
 * Declares a check.
 *
 * - `at`: the anchor of the section in docs/protocol.md; `says`: the words there that it checks.
 * - `rule`: the rule of docs/rules.md, if one stands behind the words.
 * - `hint`: the usual cause of a failure.
 * - `needs`: the options without which it cannot run.
 * - `parts`: the parts of the schema language that it is about, which a server may lack.
 * - `limitMs`: its end, if it needs longer than others on a busy machine.
 * - `isSlow`: it waits for seconds; `isAlone`: nothing else may run meanwhile, because it stops the server.
 */
export function check(id, facts, run) {
  const { at, says, hint, rule, needs = [], parts = [], limitMs, isSlow = false, isAlone = false } = facts;
  return Object.freeze({ id, at, says, hint, rule, needs, parts, limitMs, isSlow, isAlone, run });
}
