export const title = "Node";
export const versions = { "node-20": { node: "20.20.2" }, "node-22": { node: "22.23.3" } };
export const cells = [
  { what: "`import`", run: "node src/node.js" },
  { what: "`require`", run: "node common.cjs" },
];
