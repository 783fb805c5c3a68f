// A channel between tabs.
import assert from "node:assert/strict";
import { test } from "node:test";

import { channelOf } from "../../../js/dist/platform/channel.js";

const name = () => `escale-test-${process.pid}-${Math.random()}`;

test("each tab hears the others, and not itself", async () => {
  const [here, there] = [name(), name()];
  const heard = [];
  let arrived;
  const arrival = new Promise((resolve) => (arrived = resolve));
  const first = channelOf(here, () => heard.push("first"));
  const second = channelOf(here, (message) => arrived(heard.push(["second", message])));
  const other = channelOf(there, () => heard.push("other"));
  // Without it, nothing keeps this process alive.
  second.ref();
  first.postMessage({ put: ["a"] });
  await arrival;
  assert.deepEqual(heard, [["second", { put: ["a"] }]]);
  for (const channel of [first, second, other]) channel.close();
});

test("where browsers have no channels there is none", (t) => {
  const { BroadcastChannel } = globalThis;
  t.after(() => (globalThis.BroadcastChannel = BroadcastChannel));
  delete globalThis.BroadcastChannel;
  assert.equal(channelOf(name(), () => {}), undefined);
});

test("a channel does not keep the process alive", (t) => {
  const made = [];
  const { BroadcastChannel } = globalThis;
  t.after(() => (globalThis.BroadcastChannel = BroadcastChannel));
  globalThis.BroadcastChannel = class {
    constructor(of) {
      made.push(of);
    }
    unref() {
      made.push("unref");
    }
  };
  channelOf("one", () => {});
  assert.deepEqual(made, ["one", "unref"]);
});
