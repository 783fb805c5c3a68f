//! Says which mistake is active: the one with the number in `ESCALE_MUTANT`, or none. With `ESCALE_REACHED`,
//! the number of each mistake that is reached is appended to that file.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

struct Setting {
    awake: u32,
    reached: Option<std::path::PathBuf>,
}

static SETTING: OnceLock<Setting> = OnceLock::new();
static SEEN: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// Whether that mistake is active.
#[inline]
pub fn on(number: u32) -> bool {
    let setting = SETTING.get_or_init(|| Setting {
        awake: std::env::var("ESCALE_MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(0),
        reached: std::env::var_os("ESCALE_REACHED").map(Into::into),
    });
    if let Some(path) = &setting.reached {
        let bit = 1 << (number % 64);
        if SEEN[number as usize / 64].fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
            let _ = file.and_then(|mut file| file.write_all(format!("{number}\n").as_bytes()));
        }
    }
    setting.awake == number
}
