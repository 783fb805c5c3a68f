//! Finds the places for mistakes, and inserts them.
//!
//! A mistake is text inserted before and after the original: `(if on(7) { a <= b } else { a < b })`. The
//! mistaken branch contains the original text without the mistakes inside it, since only one mistake is
//! active at a time.

use std::collections::HashSet;
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, ReturnType, Stmt, Type, UnOp};

/// A mistake.
pub struct Mutant {
    pub number: usize,
    pub line: usize,
    /// The function that contains it.
    pub within: String,
    pub was: String,
    pub is: String,
    /// The bytes of the copy that belong to the mistake alone.
    pub own: [usize; 2],
    /// The bytes of the copy from its beginning to its end, with the original text in between.
    pub around: [usize; 2],
}

/// A file with its mistakes.
pub struct Planted {
    pub text: String,
    pub mutants: Vec<Mutant>,
}

/// Text to insert, before or after a piece of the original.
struct Edit {
    at: usize,
    text: String,
    is_suffix: bool,
    /// The other end of that piece: its end for text before it, its start for text after it. So wider
    /// mistakes are put around narrower ones.
    other_end: usize,
    /// The order in which the edits were made.
    turn: usize,
    number: usize,
}

struct Planter<'a> {
    text: &'a str,
    switch: &'a str,
    next: &'a mut usize,
    left_out: &'a HashSet<usize>,
    within: Vec<String>,
    edits: Vec<Edit>,
    mutants: Vec<(Mutant, Range<usize>)>,
}

/// Plants mistakes into the text of a file, numbered from `next` on.
pub fn plant(text: &str, switch: &str, next: &mut usize, left_out: &HashSet<usize>) -> Planted {
    assert!(text.is_ascii());
    let file = syn::parse_file(text).expect("Rust");
    let mut planter =
        Planter { text, switch, next, left_out, within: Vec::new(), edits: Vec::new(), mutants: Vec::new() };
    planter.visit_file(&file);
    planter.written()
}

fn range(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}

impl Planter<'_> {
    fn source(&self, range: &Range<usize>) -> &str {
        &self.text[range.clone()]
    }

    /// A new mistake around `place`. `text` gets the condition that activates it, and gives the text before
    /// and after.
    fn around(
        &mut self,
        place: Range<usize>,
        was: &str,
        is: &str,
        text: impl FnOnce(String) -> (String, String),
    ) {
        let number = *self.next;
        *self.next += 1;
        if self.left_out.contains(&number) {
            return;
        }
        let (before, after) = text(format!("{}({number})", self.switch));
        let turn = self.edits.len();
        let edit = |at, text, is_suffix, other_end| Edit { at, text, is_suffix, other_end, turn, number };
        self.edits.push(edit(place.start, before, false, place.end));
        self.edits.push(edit(place.end, after, true, place.start));
        let line = self.text[..place.start].matches('\n').count() + 1;
        let short = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (was, is) = (short(was), short(is));
        let within = self.within.join("::");
        self.mutants.push((Mutant { number, line, within, was, is, own: [0; 2], around: [0; 2] }, place));
    }

    /// Replaces an expression by another one.
    fn instead(&mut self, place: Range<usize>, is: &str) {
        let was = self.source(&place).to_owned();
        self.around(place, &was, is, |on| (format!("(if {on} {{ {is} }} else {{ "), " })".to_owned()));
    }

    /// Makes a function return that value at once.
    fn at_once(&mut self, block: &Block, name: &str, is: &str) {
        let open = range(&block.brace_token.span.open());
        let place = open.end..open.end;
        self.around(place, name, is, |on| (format!(" if {on} {{ return {is}; }} "), String::new()));
    }

    fn written(mut self) -> Planted {
        // At one position, texts that end a piece come first, the narrowest first. Then come texts that begin
        // a piece, the widest first.
        self.edits.sort_by_key(|edit| {
            let inner = usize::MAX - edit.other_end;
            let turn = if edit.is_suffix { usize::MAX - edit.turn } else { edit.turn };
            (edit.at, !edit.is_suffix, inner, turn)
        });
        let mut out = String::new();
        let mut from = 0;
        for edit in &self.edits {
            out.push_str(&self.text[from..edit.at]);
            from = edit.at;
            let start = out.len();
            out.push_str(&edit.text);
            let mutant =
                &mut self.mutants.iter_mut().find(|(m, _)| m.number == edit.number).expect("planted").0;
            if edit.is_suffix {
                mutant.around[1] = out.len();
            } else {
                mutant.own = [start, out.len()];
                mutant.around = [start, out.len()];
            }
        }
        out.push_str(&self.text[from..]);
        Planted { text: out, mutants: self.mutants.into_iter().map(|(mutant, _)| mutant).collect() }
    }

    fn function(&mut self, sig: &syn::Signature, block: &Block, attrs: &[syn::Attribute]) -> bool {
        if sig.constness.is_some()
            || is_of_tests(attrs)
            || ["fmt", "drop"].contains(&sig.ident.to_string().as_str())
            || only_reserves(&sig.ident)
        {
            return false;
        }
        self.within.push(sig.ident.to_string());
        for is in given(&sig.output) {
            let name = format!("all of {}", sig.ident);
            self.at_once(block, &name, is);
        }
        true
    }

    fn binary(&mut self, binary: &syn::ExprBinary) {
        let whole = range(binary);
        let (left, right) = (range(&*binary.left), range(&*binary.right));
        if has_let(self.source(&whole)) {
            return;
        }
        for op in others(&binary.op) {
            let is = if op.ends_with('=') && !["==", "!=", "<=", ">="].contains(op) {
                format!("{} {op} {}", self.source(&left), self.source(&right))
            } else {
                format!("({}) {op} ({})", self.source(&left), self.source(&right))
            };
            self.instead(whole.clone(), &is);
        }
    }
}

fn has_let(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "let")
}

fn is_of_tests(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| match &attr.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string().contains("test"),
        meta => meta.path().is_ident("test"),
    })
}

/// Whether a function of that name only reserves memory: without it the program does the same, only slower.
fn only_reserves(name: &syn::Ident) -> bool {
    let name = name.to_string();
    name == "reserve" || name.starts_with("reserve_")
}

fn others(op: &BinOp) -> &'static [&'static str] {
    match op {
        BinOp::Lt(_) => &["<=", ">="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<="],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) => &["-"],
        BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Rem(_) => &["+"],
        BinOp::Div(_) => &["*"],
        BinOp::BitAnd(_) | BinOp::BitXor(_) => &["|"],
        BinOp::BitOr(_) => &["&"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::AddAssign(_) => &["-="],
        BinOp::SubAssign(_) => &["+="],
        BinOp::BitAndAssign(_) => &["|="],
        BinOp::BitOrAssign(_) => &["&="],
        _ => &[],
    }
}

/// The values that a function of that type can return without doing anything.
fn given(output: &ReturnType) -> Vec<&'static str> {
    let ReturnType::Type(_, kind) = output else { return vec!["()"] };
    of_type(kind)
}

fn of_type(kind: &Type) -> Vec<&'static str> {
    let Type::Path(path) = kind else {
        let is_unit = matches!(kind, Type::Tuple(tuple) if tuple.elems.is_empty());
        return if is_unit { vec!["()"] } else { Vec::new() };
    };
    let Some(last) = path.path.segments.last() else { return Vec::new() };
    match last.ident.to_string().as_str() {
        "bool" => vec!["true", "false"],
        "Option" => vec!["None"],
        "Vec" | "String" | "BTreeMap" | "BTreeSet" | "HashMap" | "HashSet" => vec!["Default::default()"],
        "u8" | "u16" | "u32" | "u64" | "usize" | "i64" | "Version" => vec!["0", "1"],
        "Result" => {
            let syn::PathArguments::AngleBracketed(inner) = &last.arguments else { return Vec::new() };
            let Some(syn::GenericArgument::Type(inner)) = inner.args.first() else { return Vec::new() };
            of_type(inner)
                .into_iter()
                .filter_map(|inner| {
                    Some(match inner {
                        "()" => "Ok(())",
                        "true" => "Ok(true)",
                        "false" => "Ok(false)",
                        "None" => "Ok(None)",
                        "Default::default()" => "Ok(Default::default())",
                        "0" => "Ok(0)",
                        "1" => "Ok(1)",
                        _ => return None,
                    })
                })
                .collect()
        }
        _ => Vec::new(),
    }
}

impl<'ast> Visit<'ast> for Planter<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if self.function(&item.sig, &item.block, &item.attrs) {
            visit::visit_block(self, &item.block);
            self.within.pop();
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if self.function(&item.sig, &item.block, &item.attrs) {
            visit::visit_block(self, &item.block);
            self.within.pop();
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default
            && self.function(&item.sig, block, &item.attrs)
        {
            visit::visit_block(self, block);
            self.within.pop();
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_of_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_of_tests(&item.attrs) {
            return;
        }
        let named = match &*item.self_ty {
            Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        self.within.push(named.unwrap_or_default());
        visit::visit_item_impl(self, item);
        self.within.pop();
    }

    // Constants are evaluated by the compiler, so a mistake in one cannot be activated later.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            let place = range(&**guard);
            if !has_let(self.source(&place)) {
                let was = self.source(&place).to_owned();
                self.around(place.clone(), &was, "true", |on| (format!("({on} || "), ")".to_owned()));
                self.around(place, &was, "false", |on| (format!("(!{on} && "), ")".to_owned()));
            }
        }
        visit::visit_arm(self, arm);
    }

    fn visit_stmt(&mut self, stmt: &'ast Stmt) {
        if let Stmt::Expr(Expr::MethodCall(call), Some(_)) = stmt
            && only_reserves(&call.method)
        {
            return;
        }
        if let Stmt::Expr(expr, Some(_)) = stmt
            && matches!(expr, Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_) | Expr::Try(_))
        {
            let place = range(stmt);
            let was = self.source(&place).to_owned();
            self.around(place, &was, "nothing", |on| (format!("if !{on} {{ "), " }".to_owned()));
        }
        visit::visit_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Binary(binary) => self.binary(binary),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
                let inner = self.source(&range(&*unary.expr)).to_owned();
                if !has_let(&inner) {
                    self.instead(range(expr), &inner);
                }
            }
            Expr::If(branch) if !matches!(&*branch.cond, Expr::Binary(_) | Expr::Unary(_) | Expr::Let(_)) => {
                let place = range(&*branch.cond);
                if !has_let(self.source(&place)) {
                    let was = self.source(&place).to_owned();
                    let is = format!("!({was})");
                    self.around(place, &was, &is, |on| (format!("({on} != ("), "))".to_owned()));
                }
            }
            Expr::Lit(literal) => {
                if let syn::Lit::Int(int) = &literal.lit
                    && let Ok(n) = int.base10_parse::<u128>()
                    && int.suffix().is_empty()
                {
                    let top = [
                        u128::from(u8::MAX),
                        u128::from(u16::MAX),
                        u128::from(u32::MAX),
                        u128::from(u64::MAX),
                    ];
                    let is = if top.contains(&n) { n - 1 } else { n + 1 };
                    self.instead(range(expr), &is.to_string());
                }
            }
            _ => {}
        }
        visit::visit_expr(self, expr);
    }
}
