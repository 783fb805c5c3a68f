export const title = "Vitest";
export const versions = { vitest: { vitest: "4.1.12", jsdom: "26.1.0", "fake-indexeddb": "6.2.8" } };
export const cells = [
  { what: "Node", test: "vitest run session" },
  { what: "jsdom, `incognito`", test: "vitest run page --environment jsdom" },
  { what: "`escale/testing`", test: "vitest run repository" },
];
