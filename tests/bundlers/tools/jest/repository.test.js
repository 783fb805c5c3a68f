import { testTodos } from "./src/todos-cases.js";

testTodos({
  test,
  expect,
  beforeEach,
  afterEach,
  // Jest would hold back microtasks too, which are no timers.
  fakeTimers: () => jest.useFakeTimers({ doNotFake: ["nextTick", "queueMicrotask"] }),
  realTimers: () => jest.useRealTimers(),
  advance: (ms) => jest.advanceTimersByTimeAsync(ms),
});
