export const title = "Jest";
const packages = { jest: "30.5.2", "fake-indexeddb": "6.2.8", "@babel/preset-env": "8.0.7", "babel-jest": "30.5.2", "jest-environment-jsdom": "30.5.2", "jest-fixed-jsdom": "0.0.11" };
export const versions = { jest: packages };
export const cells = [
  { what: "as it is", test: "jest node.test.js" },
  { what: "modules", test: "node --experimental-vm-modules node_modules/jest/bin/jest.js -c modules.config.json" },
  { what: "jsdom", test: "jest jsdom.test.js", needs: "`testEnvironment: \"jest-fixed-jsdom\"`" },
];
