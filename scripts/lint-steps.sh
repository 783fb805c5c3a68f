# The checks that run no test; sourced after steps.sh.

format_steps() {
  step "Format" cargo fmt --all --check
  step "Format of the fuzz targets" cargo fmt --manifest-path fuzz/Cargo.toml --check
  step "Format of what plants mistakes" cargo fmt --manifest-path mutants/Cargo.toml --check
}

type_steps() {
  step "Types" tsc
  step "Types of the demonstration" npm run --silent --if-present typecheck --workspace www
  step "ESLint" eslint .
}

lint_steps() {
  format_steps
  # In the profile of the tests, so that both share what builds C and runs at the build.
  step "Clippy" cargo clippy --locked --profile test --workspace --all-targets --all-features -- -D warnings
  step "Clippy for browsers" \
    cargo clippy --locked --package escale --lib --target wasm32-unknown-unknown -- -D warnings
  type_steps
}
