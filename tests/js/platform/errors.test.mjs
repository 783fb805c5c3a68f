// Errors of the entries next to the main one: of its class, with the kind and the cure of their table.
import assert from "node:assert/strict";
import { test } from "node:test";

import { COMMON } from "../../../js/dist/base/faults.js";
import { EscaleError } from "../../../js/dist/index.js";
import { codeOf, faultOf, raised, refused } from "../../../js/dist/platform/errors.js";

test("an error has the kind and the cure of its table, and its cause", () => {
  const cause = new Error("below");
  const error = faultOf(COMMON, "bad_reply", "files: epoch", cause);
  assert.ok(error instanceof EscaleError);
  assert.deepEqual([error.code, error.kind, error.retryable, error.message, error.cure, error.cause], ["bad_reply", "bug", false, "files: epoch", COMMON.bad_reply[1], cause]);
});

test("those of the kinds C, O and X can succeed later, and no others", () => {
  const cure = "Wait.";
  const kinds = Object.fromEntries([..."ANBXDCOS"].map((kind) => [kind, faultOf({ offline: [kind, cure] }, "offline", "").retryable]));
  assert.deepEqual(kinds, { A: false, N: false, B: false, X: true, D: false, C: true, O: true, S: false });
});

test("a code that the table lacks is the server's own, with the kind that it gave", () => {
  for (const code of ["own_code", "toString", "__proto__"]) {
    const error = refused(COMMON, 418, code, { kind: "A", message: "x".repeat(500) });
    assert.deepEqual([error.code, error.kind, error.retryable], [code, "refused", false]);
    assert.equal(error.message, `the server answered 418: ${"x".repeat(200)}`);
  }
  for (const kind of [undefined, "", "CO", "Z", "constructor", 5]) {
    const error = refused(COMMON, 418, "own_code", { kind });
    assert.deepEqual([error.kind, error.retryable], ["unexpected", true], `a server of no kind: ${kind}`);
  }
  assert.equal(refused(COMMON, 400, "bad_reply", { kind: "X" }).kind, "bug");
});

test("an error of the main entry's table is made by its code alone", () => {
  const error = raised("worker_failed", "w.js is missing");
  assert.deepEqual([error.code, error.kind, error.retryable, error.message], ["worker_failed", "unexpected", true, "w.js is missing"]);
  assert.equal(raised("closed", "").retryable, false);
});

test("the code of whatever was thrown", () => {
  assert.deepEqual([raised("closed", ""), { code: "x" }, new Error("x"), undefined, null, "text"].map(codeOf), ["closed", "x", undefined, undefined, undefined, undefined]);
});
