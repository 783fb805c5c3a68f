import js from "@eslint/js";
import { defineConfig, globalIgnores } from "eslint/config";
import globals from "globals";
import tseslint from "typescript-eslint";

export default defineConfig(
  globalIgnores([
    "pkg/",
    "**/*.d.ts",
    "**/*.test-d.ts",
    "js/dist/",
    "target/",
    "**/dist/",
    "site/pages/",
    "site/.vitepress/cache/",
    "data/",
    "tests/bundlers/tools/**/!(tool).*",
  ]),
  js.configs.recommended,
  { rules: { "no-console": "error", eqeqeq: "error", "object-shorthand": "error" } },
  {
    files: ["js/src/**/*.ts", "www/**/*.ts"],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // A promise returned inside `try` would escape its `catch`.
      "@typescript-eslint/return-await": ["error", "error-handling-correctness-only"],
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      // Values from an application are checked against their types, because JavaScript does not check them.
      "@typescript-eslint/no-unnecessary-condition": "off",
      "@typescript-eslint/consistent-indexed-object-style": "off",
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-empty-function": ["error", { allow: ["arrowFunctions"] }],
      "@typescript-eslint/no-invalid-void-type": "off",
      "@typescript-eslint/no-meaningless-void-operator": "off",
      "@typescript-eslint/non-nullable-type-assertion-style": "off",
    },
  },
  {
    files: ["www/**/*.ts"],
    // `return fail(..)` in a function without a result reads as one sentence.
    rules: { "@typescript-eslint/no-confusing-void-expression": "off" },
  },
  {
    files: ["**/*.mjs", "**/*.js"],
    // Both worlds: tests hand functions to pages.
    languageOptions: { globals: { ...globals.node, ...globals.browser } },
    rules: { "no-console": "off" },
  },
  {
    files: ["handler/**/*.mjs", "tests/conformance/support/*.mjs"],
    // The engine's steps are generators, so that any of them may wait for a storage.
    rules: { "require-yield": "off" },
  },
);
