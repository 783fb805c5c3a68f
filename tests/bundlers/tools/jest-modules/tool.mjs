export const title = "Jest";
export const versions = { "jest-modules": { jest: "30.5.2", "fake-indexeddb": "6.2.8" } };
export const manifest = { type: "module" };
export const cells = [
  { what: "modules", test: "node --experimental-vm-modules node_modules/jest/bin/jest.js -c jest.config.json", needs: "Jest's own flag for modules" },
];
