// Promises that every reply keeps about its time, its epoch and its results.
import { isNotExecuted } from "../faults.mjs";
import { list } from "./form.mjs";

function resultsOf({ request, reply }) {
  const ops = list(request.message?.ops);
  const results = list(reply.results);
  const mistakes = [];
  let from = 0;
  for (const [i, result] of results.entries()) {
    const at = ops.findIndex(({ id }, n) => n >= from && id === result.id);
    if (at < 0) mistakes.push(`results[${i}] is of no operation of the request, or out of order`);
    else from = at + 1;
    if ((result.ok === undefined) === (result.fault === undefined)) mistakes.push(`results[${i}] has not one of ok and fault`);
  }
  return mistakes;
}

/**
 * A session's number: an executed operation under one of the next numbers is counted, and no number is counted that
 * the session never gave. `known` has the numbers that were seen before the request was sent.
 */
function seqOf({ request, reply, known }) {
  const { seq = 0 } = reply;
  const mistakes = seq > known.sent.highest ? [`seq is ${seq}, and the session gave no number above ${known.sent.highest}`] : [];
  const { ops, epoch } = request.message;
  if (epoch && JSON.stringify(epoch) !== JSON.stringify(reply.epoch)) return mistakes;
  let next = known.seen + 1;
  const results = list(reply.results);
  for (const [i, op] of list(ops).entries()) {
    const isExecuted = results[i]?.id === op.id && (results[i].ok || !isNotExecuted(results[i].fault));
    if (!isExecuted || op.seq > next || (results[i].fault?.code === "bad_value" && i === results.length - 1)) break;
    if (op.seq === next) next += 1;
    if (seq < op.seq) mistakes.push(`seq is ${seq}, and operation ${op.seq} has a result`);
  }
  return mistakes;
}

/** Operations that the reply's number counts for the first time, without their results. */
function uncountedOf({ request, reply, known }) {
  const results = list(reply.results);
  if (results.some(({ fault }) => fault && isNotExecuted(fault))) return [];
  const ids = new Set(results.map(({ id }) => id));
  return list(request.message.ops)
    .filter(({ id, seq }) => seq > known.seen && seq <= reply.seq && !ids.has(id))
    .map(({ id, seq }) => `seq is ${reply.seq}, and operation ${seq}, ${id}, has no result`);
}

export const replyWatches = [
  {
    id: "watch.now",
    at: "pull",
    says: "the server's time in milliseconds, read **before** the reply's snapshot was opened",
    hint: "Milliseconds since 1970, not seconds.",
    test: ({ reply }) => (reply.now >= 1e9 && reply.now < 1e10 ? [`now is ${reply.now}: seconds`] : reply.now < 1e12 ? [`now is ${reply.now}`] : []),
  },
  {
    id: "watch.delta",
    at: "versions-and-time",
    says: "`delta` is at least that second plus the skew.",
    hint: "The reference server has 2,000.",
    rule: "R4",
    test: ({ reply }) => (reply.delta >= 1000 ? [] : [`delta is ${reply.delta}`]),
  },
  {
    id: "watch.results",
    at: "operations",
    says: "`results` has one result for each operation, in the order of `ops`.",
    hint: "Each result has the id of its operation, and either ok or fault.",
    test: resultsOf,
  },
  {
    id: "watch.seq",
    at: "operations",
    says: "The reply's `seq` is the number of the session's last executed operation, read in the reply's snapshot.",
    hint: "Read it in the snapshot that answers the parts, after the operations were executed.",
    rule: "R11",
    test: seqOf,
  },
  {
    id: "watch.counted",
    at: "behaviour-of-a-session",
    says: "a `seq` that counts operations without their results, or does not count an executed one;",
    hint: "Complete the results in the snapshot in which seq is read: a copy of the request may have executed more.",
    rule: "R11",
    test: uncountedOf,
  },
];
