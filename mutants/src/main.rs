//! Plants mistakes (mutants) into a copy of the sources. All are in the same copy, and each is inactive until
//! its number is chosen.
//!
//! `escale-mutants ROOT COPY [NUMBER..]` reads a list of files from its input. It reads these files from
//! `ROOT` and writes them into `COPY` with the mistakes, except those whose numbers are given. It prints the
//! mistakes as JSON: file and line, the original text, the mistaken text, and the bytes of the copy that
//! belong to the mistake. So a mistake that does not compile can be left out in the next run. The numbers
//! stay the same in every run.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

use serde_json::json;

mod plant;
// The copy of the sources calls this module. Here it is only compiled.
#[allow(dead_code)]
mod switch;

use plant::{Mutant, Planted};

fn main() {
    let mut args = std::env::args().skip(1);
    let (root, copy) = (args.next().expect("ROOT"), args.next().expect("COPY"));
    let left_out: HashSet<usize> = args.map(|number| number.parse().expect("a number")).collect();
    let mut list = String::new();
    std::io::stdin().read_to_string(&mut list).expect("a list of files");
    let mut next = 1;
    let mut told = Vec::new();
    for file in list.lines().filter(|line| !line.is_empty()) {
        let text = std::fs::read_to_string(Path::new(&root).join(file)).expect("a file");
        let switch = if file.starts_with("server/") { "::escale::mutants::on" } else { "crate::mutants::on" };
        let Planted { text, mutants } = plant::plant(&text, switch, &mut next, &left_out);
        std::fs::write(Path::new(&copy).join(file), text).expect("a copy");
        told.extend(mutants.iter().map(|mutant| tell(file, mutant)));
    }
    println!("{}", serde_json::Value::Array(told));
}

fn tell(file: &str, mutant: &Mutant) -> serde_json::Value {
    json!({
        "number": mutant.number, "file": file, "line": mutant.line, "within": mutant.within, "was": mutant.was,
        "is": mutant.is, "own": mutant.own, "around": mutant.around,
    })
}
