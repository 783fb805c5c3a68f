//! A Rust crate as a tree of modules: the items that each defines, the names that it imports, and the paths in its code.
//!
//! The texts are read as tokens, so comments and strings hold no paths, and the arguments of macros do. Code for tests is left
//! out.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::str::FromStr;
use std::sync::OnceLock;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::files::{self, File};

/// The path of a module from the root of its crate, or of an item from its module.
pub type Path = Vec<String>;

/// The modules of a crate.
#[derive(Default)]
pub struct Crate {
    pub modules: BTreeMap<Path, Module>,
}

/// A module: a file, or a block of a file.
#[derive(Default)]
pub struct Module {
    pub file: String,
    /// The items that it defines, modules left out.
    pub items: BTreeSet<String>,
    pub imports: Vec<Import>,
    /// The paths that its code names outside of `use`.
    pub named: Vec<Path>,
    pub functions: Vec<Function>,
    /// The names of its public items and methods.
    pub public: Vec<String>,
    /// The modules that it declares, by their files.
    children: Vec<String>,
}

/// One name of a `use`.
pub struct Import {
    /// The name in this module; none for `*`.
    pub name: Option<String>,
    pub path: Path,
    /// Whether it is `pub`, at least for a part of the crate: a way through, and no use of its own.
    pub is_passed_on: bool,
}

/// A function that belongs to a type: a method, or a function that is given the type first, as `&mut`.
pub struct Function {
    pub of: Path,
}

/// The roots of the crates.
pub const CRATES: [&str; 4] = ["src/lib.rs", "server/src/lib.rs", "testkit/src/lib.rs", "sim/src/lib.rs"];

/// A crate of the repository, by the file of its root. All of them are read once.
pub fn of(root: &str) -> &'static Crate {
    static ALL: OnceLock<BTreeMap<&str, Crate>> = OnceLock::new();
    let all = || {
        let files = files::ending(&[".rs"]);
        CRATES.into_iter().map(|root| (root, read(&files, root))).collect()
    };
    &ALL.get_or_init(all)[root]
}

/// The modules of a crate, from the file of its root on.
pub fn read(files: &[File], root: &str) -> Crate {
    let mut all = Crate::default();
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    all.read_file(files, (root, folder), Vec::new());
    all
}

impl Crate {
    /// Reads a file and the files of its `mod` lines, which are in `home`.
    fn read_file(&mut self, files: &[File], (path, home): (&str, &str), at: Path) {
        let Some(file) = files.iter().find(|file| file.path == path) else { return };
        let tokens = TokenStream::from_str(&file.text).unwrap_or_else(|e| panic!("{path}: {e}"));
        self.read_items(path, tokens, &at);
        let children = std::mem::take(&mut self.modules.get_mut(&at).expect("just read").children);
        for name in children {
            let mut at = at.clone();
            at.push(name.clone());
            let home = format!("{home}/{name}");
            for path in [format!("{home}.rs"), format!("{home}/mod.rs")] {
                self.read_file(files, (&path, &home), at.clone());
            }
        }
    }

    fn read_items(&mut self, file: &str, tokens: TokenStream, at: &Path) {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        let mut tokens = tokens.into_iter().peekable();
        while let Some(item) = Item::next(&mut tokens) {
            match (item.keyword.as_str(), item.name) {
                _ if item.is_test => {}
                ("use", _) => {
                    let mut found = Vec::new();
                    use_tree(&mut item.tokens.into_iter().peekable(), &Vec::new(), &mut found);
                    let import = |(name, path)| Import { name, path, is_passed_on: item.is_public };
                    module.imports.extend(found.into_iter().map(import));
                }
                ("mod", Some(name)) => match item.tokens.into_iter().last() {
                    Some(TokenTree::Group(block)) => {
                        let mut at = at.clone();
                        at.push(name);
                        self.read_items(file, block.stream(), &at);
                    }
                    _ => module.children.push(name),
                },
                (keyword, name) => {
                    module.public.extend(name.clone().filter(|_| item.is_public));
                    match keyword {
                        "impl" => {
                            let (functions, public) = methods(&item.tokens);
                            module.functions.extend(functions);
                            module.public.extend(public);
                        }
                        "fn" => module.functions.extend(first_mut(&item.tokens).map(|of| Function { of })),
                        // A macro defines items that nobody can know without running it; most name them.
                        "" => defined_by_macro(&item.tokens, &mut module.items),
                        _ => {}
                    }
                    module.items.extend(name);
                    paths(item.tokens, &mut module.named);
                }
            }
        }
        self.modules.insert(at.clone(), module);
    }
}

/// An item of a module, as its tokens.
struct Item {
    /// Empty for the call of a macro.
    keyword: String,
    name: Option<String>,
    is_public: bool,
    is_test: bool,
    /// Everything after the keyword.
    tokens: Vec<TokenTree>,
}

impl Item {
    fn next(from: &mut Peekable<impl Iterator<Item = TokenTree>>) -> Option<Item> {
        let (mut is_public, mut is_test, mut is_exported) = (false, false, false);
        let mut keyword = String::new();
        let mut tokens: Vec<TokenTree> = Vec::new();
        while let Some(token) = from.next() {
            let text = match &token {
                TokenTree::Punct(c) if keyword.is_empty() && c.as_char() == '#' && tokens.is_empty() => {
                    from.next_if(|next| next.to_string() == "!");
                    let attribute = from.next().map(|group| group.to_string()).unwrap_or_default();
                    is_test |= is_cfg_test(&attribute);
                    is_exported |= attribute.contains("wasm_bindgen");
                    continue;
                }
                TokenTree::Ident(word) if keyword.is_empty() && tokens.is_empty() => word.to_string(),
                _ => String::new(),
            };
            match text.as_str() {
                "pub" => {
                    is_public = true;
                    from.next_if(|next| is_group(next, Delimiter::Parenthesis));
                    continue;
                }
                "unsafe" | "async" | "extern" | "default" => {
                    from.next_if(|next| matches!(next, TokenTree::Literal(_)));
                    continue;
                }
                // `const fn` is a function.
                "const" if from.peek().is_some_and(|next| next.to_string() == "fn") => continue,
                "use" | "mod" | "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const"
                | "static" | "impl" | "macro_rules" => {
                    keyword = text;
                    continue;
                }
                _ => {}
            }
            let ends = match &token {
                TokenTree::Punct(c) => c.as_char() == ';',
                token => {
                    is_group(token, Delimiter::Brace)
                        && !["use", "const", "static", "type"].contains(&keyword.as_str())
                }
            };
            tokens.push(token);
            if ends {
                break;
            }
        }
        if keyword.is_empty() && tokens.is_empty() {
            return None;
        }
        let is_word = |token: &&TokenTree| matches!(token, TokenTree::Ident(_));
        let name = tokens.iter().find(is_word).map(ToString::to_string);
        let name = name.filter(|_| !["", "use", "impl"].contains(&keyword.as_str()));
        // JavaScript calls it by another name.
        let is_public = is_public && !is_exported;
        Some(Item { keyword, name, is_public, is_test, tokens })
    }
}

fn is_cfg_test(attribute: &str) -> bool {
    let words: Vec<&str> = attribute.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    words.get(1) == Some(&"cfg") && words.contains(&"test") && !words.contains(&"not")
}

fn is_group(token: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter)
}

/// The names of a `use`, each with its whole path.
fn use_tree(
    tokens: &mut Peekable<impl Iterator<Item = TokenTree>>,
    prefix: &Path,
    found: &mut Vec<(Option<String>, Path)>,
) {
    let mut path = prefix.clone();
    let mut name: Option<String> = None;
    let mut is_done = false;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if word == "as" => {
                name = tokens.next().map(|token| token.to_string());
            }
            // `{self}` is the module that the list is of.
            TokenTree::Ident(word) if word == "self" && !path.is_empty() => {}
            TokenTree::Ident(word) => path.push(word.to_string()),
            TokenTree::Group(list) => {
                let mut tokens = list.stream().into_iter().peekable();
                while tokens.peek().is_some() {
                    use_tree(&mut tokens, &path, found);
                }
                is_done = true;
            }
            TokenTree::Punct(c) if c.as_char() == '*' => {
                found.push((None, path.clone()));
                is_done = true;
            }
            TokenTree::Punct(c) if c.as_char() == ',' || c.as_char() == ';' => break,
            _ => {}
        }
    }
    if !is_done && path.len() > prefix.len().min(1) {
        found.push((name.or_else(|| path.last().cloned()), path));
    }
}

/// The paths in code, and those of the `use` lines in it.
fn paths(tokens: impl IntoIterator<Item = TokenTree>, found: &mut Vec<Path>) {
    let mut tokens = tokens.into_iter().peekable();
    let mut before = ' ';
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => {
                paths(group.stream(), found);
                before = ' ';
            }
            TokenTree::Punct(c) => before = c.as_char(),
            TokenTree::Literal(_) => before = ' ',
            TokenTree::Ident(word) if word == "use" && before != '.' => {
                let mut names = Vec::new();
                use_tree(&mut tokens, &Vec::new(), &mut names);
                found.extend(names.into_iter().map(|(_, path)| path));
            }
            // A field, a method, or a lifetime.
            TokenTree::Ident(_) if before == '.' || before == '\'' => before = ' ',
            TokenTree::Ident(word) => {
                let path = rest_of_path(word.to_string(), &mut tokens);
                let is_called = tokens
                    .peek()
                    .is_some_and(|next| is_group(next, Delimiter::Parenthesis) || next.to_string() == "!");
                let is_type = path[0].starts_with(|c: char| c.is_ascii_uppercase());
                // A word alone is a variable, a field or a keyword, unless it is called.
                if path.len() > 1 || is_type || is_called {
                    found.push(path);
                }
                before = ' ';
            }
        }
    }
}

/// A path, from its first word on.
fn rest_of_path(first: String, tokens: &mut Peekable<impl Iterator<Item = TokenTree>>) -> Path {
    let mut path = vec![first];
    let is_colon = |token: &TokenTree| matches!(token, TokenTree::Punct(c) if c.as_char() == ':');
    // `a::b` is two colons and a word. A single colon comes after the name of a field or an argument.
    while let Some(TokenTree::Punct(c)) = tokens.peek() {
        if c.as_char() != ':' || c.spacing() != proc_macro2::Spacing::Joint {
            break;
        }
        tokens.next();
        tokens.next_if(is_colon);
        match tokens.next_if(|token| matches!(token, TokenTree::Ident(_))) {
            Some(word) => path.push(word.to_string()),
            None => break,
        }
    }
    path
}

/// The methods of an `impl`, if it is not that of a trait, and the names of those that are public.
fn methods(tokens: &[TokenTree]) -> (Vec<Function>, Vec<String>) {
    let (mut functions, mut public) = (Vec::new(), Vec::new());
    let Some((TokenTree::Group(body), head)) = tokens.split_last() else { return (functions, public) };
    if head.iter().any(|token| token.to_string() == "for") {
        return (functions, public);
    }
    let of = type_path(after_generics(head));
    let mut tokens = body.stream().into_iter().peekable();
    while let Some(item) = Item::next(&mut tokens) {
        if item.keyword == "fn" && !item.is_test {
            functions.push(Function { of: of.clone() });
            public.extend(item.name.filter(|_| item.is_public));
        }
    }
    (functions, public)
}

/// The type of the first argument of a function, if that is `&mut T` with a type of a name.
fn first_mut(tokens: &[TokenTree]) -> Option<Path> {
    let arguments = tokens.iter().find_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => Some(group.stream()),
        _ => None,
    })?;
    let arguments: Vec<TokenTree> = arguments.into_iter().collect();
    let at = arguments.iter().position(|token| token.to_string() == ":")?;
    let mut of = arguments[at + 1..].iter().peekable();
    of.next_if(|token| token.to_string() == "&")?;
    if of.next_if(|token| token.to_string() == "'").is_some() {
        of.next();
    }
    of.next_if(|token| token.to_string() == "mut")?;
    let path = type_path(&of.cloned().collect::<Vec<_>>());
    (!path.is_empty() && path[0] != "dyn" && path[0] != "impl").then_some(path)
}

/// The tokens after `<..>` at their begin.
fn after_generics(tokens: &[TokenTree]) -> &[TokenTree] {
    if tokens.first().is_none_or(|first| first.to_string() != "<") {
        return tokens;
    }
    let mut depth = 0;
    let mut before = String::new();
    for (at, token) in tokens.iter().enumerate() {
        let token = token.to_string();
        depth += i32::from(token == "<") - i32::from(token == ">" && before != "-");
        if depth == 0 {
            return &tokens[at + 1..];
        }
        before = token;
    }
    tokens
}

/// The path of a type, without its parameters.
fn type_path(tokens: &[TokenTree]) -> Path {
    let words = tokens.iter().take_while(|token| token.to_string() != "<");
    words
        .filter(|token| matches!(token, TokenTree::Ident(_)))
        .map(ToString::to_string)
        .take_while(|word| word != "where")
        .collect()
}

/// The names after the keywords of items, at any depth.
fn defined_by_macro(tokens: &[TokenTree], items: &mut BTreeSet<String>) {
    let mut is_named = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                defined_by_macro(&group.stream().into_iter().collect::<Vec<_>>(), items);
                is_named = false;
            }
            TokenTree::Ident(word) if is_named => {
                items.insert(word.to_string());
                is_named = false;
            }
            TokenTree::Ident(word) => {
                is_named =
                    ["struct", "enum", "trait", "type", "fn", "const"].contains(&word.to_string().as_str());
            }
            _ => is_named = false,
        }
    }
}
