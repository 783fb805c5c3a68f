export const title = "TypeScript";
export const versions = {
  "typescript-5.3": { typescript: "5.3.3" },
  "typescript-5.9": { typescript: "5.9.3" },
  "typescript-6": { typescript: "6.0.3" },
  "typescript-7": { typescript: "7.0.2" },
};
const tsc = (module, resolution, file) =>
  `tsc --noEmit --strict --target es2022 --lib es2022,dom --module ${module} --moduleResolution ${resolution} ${file}`;
export const cells = [
  { what: "`bundler`", test: tsc("esnext", "bundler", "types.mts") },
  { what: "`nodenext`", test: tsc("nodenext", "nodenext", "types.mts") },
  { what: "`node16`, CommonJS", test: tsc("node16", "node16", "types.cts") },
];
