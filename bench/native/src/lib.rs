//! The native core and the server's engine, timed without a browser: the programs are in `benches/`. They are a crate of
//! their own, so that no build of the tests compiles them.
