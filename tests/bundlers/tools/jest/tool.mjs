export const title = "Jest";
const babel = { "babel-jest": "30.5.2", "@babel/preset-env": "8.0.7" };
const jsdom = { "jest-environment-jsdom": "30.5.2", "jest-fixed-jsdom": "0.0.11" };
export const versions = { jest: { jest: "30.5.2", "fake-indexeddb": "6.2.8", ...babel, ...jsdom } };
export const cells = [
  { what: "Node", test: "jest node.test.js" },
  { what: "`escale/testing`", test: "jest repository.test.js" },
  { what: "jsdom", test: "jest jsdom.test.js", needs: '`testEnvironment: "jest-fixed-jsdom"`' },
];
