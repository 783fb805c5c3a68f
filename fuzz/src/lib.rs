//! The code that the fuzz targets share. The decoders under test (`doors`) and the bound of their cost are
//! those of `testkit`. `tests/hostile` replays the corpus with them.

pub use escale_testkit::hostile::{cost, doors};
pub use libfuzzer_sys;

#[global_allocator]
static ALLOCATOR: cost::Counting = cost::Counting;

/// The decoder of that name.
pub fn door(name: &str) -> &'static doors::Door {
    doors::DOORS.iter().find(|door| door.name == name).expect("a door of the target's name")
}

/// Defines a fuzz target that passes any bytes to the decoder of that name.
#[macro_export]
macro_rules! target {
    ($name:ident) => {
        $crate::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
            $crate::cost::knock($crate::door(stringify!($name)), bytes);
        });
    };
}
