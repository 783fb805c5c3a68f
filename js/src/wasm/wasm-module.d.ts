// The form in which servers at the edge import wasm.
declare module "*.wasm?module" {
  const module: WebAssembly.Module;
  export default module;
}
