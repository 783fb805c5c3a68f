export const title = "TypeScript";
export const versions = { "typescript-5.2": { typescript: "5.2.2" } };
const tsc = "tsc --noEmit --strict --target es2022 --moduleResolution";
const refused = "| grep EscaleNeedsTypeScript53OrLater";
export const cells = [
  { what: "`bundler`: refused by name", test: `${tsc} bundler --module esnext uses.mts ${refused}`, needs: "TypeScript 5.3" },
  { what: "`node10`: refused by name", test: `${tsc} node10 --module esnext uses.mts ${refused}`, needs: "TypeScript 5.3" },
];
