//! A machine says when it has something to do. Woken before that time, it does nothing: a driver that wakes it
//! only then misses nothing.

use escale::sync::{Clock, Effect, Event, Machine};

/// Wakes a machine at a time before the one that it asked for, and checks that it does nothing.
pub fn check_asleep(machine: &mut Machine, wake_at: Option<u64>, clock: Clock) {
    if wake_at.is_some_and(|at| at <= clock.mono_ms) {
        return;
    }
    for effect in machine.handle(Event::Woke, clock) {
        match effect {
            Effect::WakeAt(at) => {
                assert_eq!(at, wake_at, "at {}, it changes its mind for no reason", clock.mono_ms);
            }
            other => panic!("at {}, it was to be woken at {wake_at:?}, and has {other:?}", clock.mono_ms),
        }
    }
}
