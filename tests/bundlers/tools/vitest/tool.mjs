export const title = "Vitest";
export const versions = { vitest: { vitest: "4.1.12", jsdom: "26.1.0", "fake-indexeddb": "6.2.8" } };
export const cells = [
  { what: "Node", test: "vitest run session" },
  { what: "`escale/testing`", test: "vitest run repository" },
  { what: "jsdom", test: "vitest run page --environment jsdom" },
];
