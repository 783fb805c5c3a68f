//! Plants mistakes: every one of them into one copy of the sources, each asleep until its number is named.
//!
//! `escale-mutants ROOT COPY [NUMBER..]` reads the files of `ROOT` that are listed on its input, and writes them into `COPY`
//! with the mistakes planted, but for those numbered. What it prints are the mistakes, as JSON: which file and line, what
//! stood there and what stands there instead, and which bytes of the copy are of it, so that one that does not compile can be
//! left out the next time. Numbers are the same whatever is left out.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

use serde_json::json;

mod plant;
// What is planted asks a copy of it: here it is only checked.
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
