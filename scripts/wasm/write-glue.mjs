// Rewrites wasm-bindgen's glue, a module with one permanent wasm, as a function that makes a new instance at each call.
// After a panic no part of an instance can be trusted, and another takes its place. Usage: write-glue.mjs FROM TO
import { readFileSync, writeFileSync } from "node:fs";

const [from, to] = process.argv.slice(2);
let glue = readFileSync(from, "utf8");

/** Replaces a text that must occur exactly once: another version of wasm-bindgen may write another text. */
function replace(what, by) {
  if (glue.split(what).length !== 2) throw new Error(`${from}: not once: ${what}`);
  glue = glue.replace(what, () => by);
}

/** Cuts a text that must occur exactly once. */
function cut(what) {
  if (glue.split(what).length !== 2) throw new Error(`${from}: not once: ${what}`);
  glue = glue.replace(what, "");
}

if (/^import /m.test(glue)) throw new Error(`${from} imports something: it cannot stand in a function`);
glue = glue.replace(/^export (class|function|async function) /gm, "$1 ");
replace("wasm = instance.exports;", "wasm = guard(instance.exports);");

// Arrows take fewer bytes, and no imported function has a `this`.
const CATCHING = /^( {8}\w+: )function\(\) \{ return handleError\(function \((.*)\) \{\n((?: {12}.*\n)*) {8}\}, arguments\); \},$/gm;
glue = glue.replace(CATCHING, "$1handleError(($2) => {\n$3        }),");
glue = glue.replace(/^( {8}\w+: )function\((.*)\) \{$/gm, "$1($2) => {");
replace("function handleError(f, args) {", "const handleError = (f) => (...args) => {");
replace("return f.apply(this, args);", "return f(...args);");
if (/, arguments\)/.test(glue)) throw new Error(`${from}: a function is of another form`);

// Only the message of a panic would show a value so, and a panic stops the wasm without one.
glue = glue.replace(/^function debugString\(val\) \{\n(?: .*\n)*\}/m, "const debugString = (val) => typeof val;");

// Each engine that runs this wasm, with its references, has these.
const REGISTRY = "(typeof FinalizationRegistry === 'undefined')\n    ? { register: () => {}, unregister: () => {} }\n    : new";
if (glue.split(REGISTRY).length !== 3) throw new Error(`${from}: not twice: ${REGISTRY}`);
glue = glue.replaceAll(REGISTRY, "new");
cut(/^if \(!\('encodeInto' in cachedTextEncoder\)\) \{\n(?: .*\n)*\}\n/m);
// Nobody leaves a core to `using`, and every text is passed with the means to grow.
cut(/^if \(Symbol\.dispose\) .*\n/m);
cut(/^ {4}if \(realloc === undefined\) \{\n(?: {8}.*\n)* {4}\}\n/m);
if (/passStringToWasm0\([^,()]+, [^,()]+\)/.test(glue.replace("function passStringToWasm0", ""))) throw new Error(`${from}: a text without means to grow`);

// `wasm.ts` compiles the wasm itself, and once for all instances. So nothing here fetches it, or takes it in another form.
const START = "async function __wbg_load(";
if (glue.split(START).length !== 2) throw new Error(`${from}: not once: ${START}`);
glue = `${glue.slice(0, glue.indexOf(START))}async function start({ module_or_path: module }) {
    return __wbg_finalize_init(await WebAssembly.instantiate(module, guardImports(__wbg_get_imports())), module);
}
`;

// All texts are passed by the same two functions of the wasm, so no call names them. A text that an import gives goes back
// by one function.
const PASSING = /(passStringToWasm0\([^,;]+), wasm\.(\w+), wasm\.(\w+)\)/g;
const [[, , malloc, realloc]] = glue.matchAll(PASSING);
glue = glue.replace(PASSING, (all, call, m, r) => (m === malloc && r === realloc ? `${call})` : all));
replace(
  "function passStringToWasm0(arg, malloc, realloc) {",
  `function passStringToWasm0(arg) {\n    const { ${malloc}: malloc, ${realloc}: realloc } = wasm;`,
);
const RETURNING =
  /(?:const|var) (ptr\d+) = (?:isLikeNone\(ret\) \? 0 : )?passStringToWasm0\((.+)\);\n +(?:const|var) (len\d+) = WASM_VECTOR_LEN;\n +getDataViewMemory0\(\)\.setInt32\(arg0 \+ 4 \* 1, \3, true\);\n +getDataViewMemory0\(\)\.setInt32\(arg0 \+ 4 \* 0, \1, true\);/g;
glue = glue.replace(RETURNING, "returnText(arg0, $2);");
glue += `
function returnText(to, text) {
    const ptr = isLikeNone(text) ? 0 : passStringToWasm0(text);
    const view = getDataViewMemory0();
    view.setInt32(to, ptr, true);
    view.setInt32(to + 4, WASM_VECTOR_LEN, true);
}
`;

// The values of these settings that the core uses (src/web/transport/http.rs, src/web/idb). The others are dead text.
const USED = { IdbTransactionMode: ["readonly", "readwrite"], ReferrerPolicy: ["", "no-referrer"], RequestCredentials: ["omit"] };
for (const [name, values] of Object.entries(USED)) {
  const list = `const __wbindgen_enum_${name} = [${values.map((value) => JSON.stringify(value)).join(", ")}`;
  const at = glue.indexOf(`${list}, `);
  if (at < 0) throw new Error(`${from}: not there: ${list}`);
  glue = glue.slice(0, at) + list + glue.slice(glue.indexOf("];", at));
}

writeFileSync(
  to,
  `// wasm-bindgen's glue, in a function: one call, one instance (scripts/wasm/write-glue.mjs).
export function makeGlue() {
let isDead = false, death, exported;
/** The listeners for the death of this instance. Each can be removed: an object that lives as long as the instance must hold no
 * session. */
const listeners = new Set();
function onDeath(listener) {
  if (death) queueMicrotask(() => listener(death));
  else listeners.add(listener);
  return () => listeners.delete(listener);
}
/** Calls of a dead instance do nothing. The browser may still hold callbacks of it. */
const nothing = () => [0, 0, 0, 0];
const dead = new Proxy({}, { get: () => nothing });
/** An exception leaves the wasm in the middle of a call. It is never entered again. */
function guard(exports) {
  exported = exports;
  const guarded = Object.create(null);
  for (const [name, value] of Object.entries(exports)) {
    guarded[name] = typeof value !== "function" ? value : (...values) => {
      if (isDead) return nothing();
      try {
        return value(...values);
      } catch (error) {
        kill(error);
        throw error;
      }
    };
  }
  return guarded;
}
/** A dead instance may still be in the middle of a call. Its calls to the outside fail: it could write anything. */
function guardImports(modules) {
  for (const imports of Object.values(modules)) {
    for (const [name, value] of Object.entries(imports)) {
      if (typeof value !== "function") continue;
      imports[name] = (...values) => {
        if (isDead) throw new Error("this instance of the wasm is dead");
        return value(...values);
      };
    }
  }
  return modules;
}
function kill(error) {
  if (isDead) return;
  const released = end();
  // The instance may be in the middle of a call. A listener must not run inside it.
  queueMicrotask(() => {
    death = { error, released };
    for (const listener of [...listeners]) listener(death);
    listeners.clear();
  });
}
/** Ends the instance: nothing enters it any more, and nothing that was in its memory is left there. */
async function end() {
  if (isDead) return;
  isDead = true;
  const { memory, __wbindgen_externrefs: table } = exported;
  wasm = dead;
  wasmInstance = wasmModule = exported = undefined;
  const released = release(table);
  // Its memory is cleared after the present call has ended: code that runs on cleared memory may never end.
  await undefined;
  new Uint8Array(memory.buffer).fill(0);
  await released;
}
/** Releases the resources that only the instance would have released: connections, requests, Node's timers, and the locks
 * that it marked. */
async function release(table) {
  const freed = [];
  for (let i = 0; i < table.length; i++) {
    const value = table.get(i);
    if (value === null || value === undefined) continue;
    try {
      if (typeof value === "function") {
        if (value.escaleFreed !== undefined) { value(); freed.push(value.escaleFreed); }
      } else if (typeof value === "object") {
        if (globalThis.IDBOpenDBRequest && value instanceof IDBOpenDBRequest) {
          // No code would fill the database that is being made.
          value.onupgradeneeded = () => value.transaction.abort();
          value.onsuccess = () => value.result.close();
        } else if (globalThis.IDBDatabase && value instanceof IDBDatabase) value.close();
        else if (globalThis.WebSocket && value instanceof WebSocket) value.close();
        else if (globalThis.BroadcastChannel && value instanceof BroadcastChannel) value.close();
        else if (globalThis.AbortController && value instanceof AbortController) value.abort();
        // Node's handle of a timer, which would keep the process alive. In a browser the handle is a number.
        else if (value.constructor?.name === "Timeout") clearTimeout(value);
      }
    } catch { /* What cannot be let go is not held for long: the page's end frees it. */ }
  }
  await Promise.allSettled(freed);
}
${glue}
return { default: start, open, wipe, onDeath, isDead: () => isDead, end };
}
`,
);
