// The public surface of the package, by its types: all that an application can import, call and pass.
// `node site/build/surface.mjs` prints it.
import { fileURLToPath } from "node:url";
import ts from "typescript";

const ENTRY = fileURLToPath(new URL("../../js/src/index.ts", import.meta.url));

/** The names that the entry `escale` exports, those of them that exist at run time, and the members of a session, of a list, and of the options of `open`. */
export function surfaceOf(entry = ENTRY) {
  const options = {
    target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext,
    lib: ["lib.esnext.d.ts", "lib.dom.d.ts"], noEmit: true, skipLibCheck: true, strict: true,
  };
  const program = ts.createProgram([entry], options);
  const checker = program.getTypeChecker();
  const isPublic = (symbol) => {
    const isPrivate = (declaration) => ts.getCombinedModifierFlags(declaration) & ts.ModifierFlags.Private;
    const isInternal = symbol.getJsDocTags().some(({ name }) => name === "internal");
    return !isInternal && !/^(__)?#/.test(symbol.name) && !symbol.declarations?.some(isPrivate);
  };
  const isTypeOnly = (symbol) => {
    const specifiers = symbol.declarations?.filter(ts.isExportSpecifier) ?? [];
    return specifiers.some(({ isTypeOnly, parent }) => isTypeOnly || parent.parent.isTypeOnly) || !(target(symbol).flags & ts.SymbolFlags.Value);
  };
  const target = (symbol) => (symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol);
  const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(entry))).filter(isPublic);
  const membersOf = (name) => {
    const found = exported.find((symbol) => symbol.name === name);
    return checker.getDeclaredTypeOfSymbol(target(found)).getProperties().filter(isPublic).map((symbol) => symbol.name).sort();
  };
  return {
    exports: exported.map(({ name }) => name).sort(),
    values: exported.filter((symbol) => !isTypeOnly(symbol)).map(({ name }) => name).sort(),
    session: membersOf("Session"),
    list: membersOf("Collection"),
    open: membersOf("OpenOptions"),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const surface = surfaceOf();
  for (const [part, names] of Object.entries(surface)) process.stdout.write(`${part} ${names.length}: ${names.join(" ")}\n`);
}
