import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { testTodos } from "./src/todos-cases.js";

testTodos({
  test,
  expect,
  beforeEach,
  afterEach,
  fakeTimers: () => vi.useFakeTimers(),
  realTimers: () => vi.useRealTimers(),
  advance: (ms) => vi.advanceTimersByTimeAsync(ms),
});
