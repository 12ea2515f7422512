//! Checks two rules. In each crate of the workspace, no files import each other in a circle. The
//! folders of the engine are layers, and each imports only the layers below it.
//!
//! Imports are read from the text. A file imports another if it names something that the other
//! defines, in a `use` or as a path. A file that uses a re-exported name imports the file that
//! defines the name. Tests and comments are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The words before the name of an item.
const ITEMS: [&str; 8] = [
    "fn", "struct", "enum", "trait", "const", "static", "type", "union",
];

/// The folders of the engine, from the lowest layer up. Files outside of the folders are the
/// highest layer, `""`: `Db` and the types that its callers hold.
const LAYERS: [&str; 9] = [
    "base", "fs", "format", "tree", "values", "write", "catalog", "work", "",
];

/// One file: the names that it defines or introduces, and every path that it names.
#[derive(Debug, Default)]
struct Module {
    file: String,
    parent: Option<String>,
    /// The child modules: the path of each, by name.
    children: BTreeMap<String, String>,
    /// The names that `use` statements introduce, with their paths.
    names: BTreeMap<String, Vec<String>>,
    /// The modules that a `use` statement names with `::*`.
    globs: Vec<Vec<String>>,
    /// The names of the items that the file defines.
    items: BTreeSet<String>,
    /// The paths of its `use` statements and of its code.
    paths: Vec<Vec<String>>,
}

/// The files of one crate, by module path: `crate::state::store`.
#[derive(Debug, Default)]
struct Crate(BTreeMap<String, Module>);

/// For each file, by path: the other files that it imports from, and the names that it imports.
type Imports = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The target of a path: a module, and the name that it defines; `None` for the module itself.
type Found = Option<(String, Option<String>)>;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The words and signs of a source text, without comments and without the content of texts.
fn tokens(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 128;
    let starts = |at: usize, sign: &str| bytes[at..].starts_with(sign.as_bytes());
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'/' if starts(at, "//") => {
                while at < bytes.len() && bytes[at] != b'\n' {
                    at += 1;
                }
            }
            b'/' if starts(at, "/*") => at += text[at..].find("*/").unwrap() + 2,
            b'"' => at = end_of_text(bytes, at + 1),
            b'r' if raw_text(&text[at..]).is_some() => at += raw_text(&text[at..]).unwrap(),
            b'\'' if starts(at + 1, "\\") => at += 3 + text[at + 3..].find('\'').unwrap(),
            b'\'' => {
                // A character, or a lifetime, which has no second quote.
                let letter = text[at + 1..].chars().next().unwrap();
                let after = at + 1 + letter.len_utf8();
                at = if starts(after, "'") {
                    after + 1
                } else {
                    at + 1
                };
            }
            byte if is_word(byte) => {
                while at < bytes.len() && is_word(bytes[at]) {
                    at += 1;
                }
                found.push(text[start..at].to_owned());
            }
            b':' if starts(at, "::") => {
                at += 2;
                found.push("::".to_owned());
            }
            byte => {
                at += 1;
                if !byte.is_ascii_whitespace() {
                    found.push((byte as char).to_string());
                }
            }
        }
    }
    found
}

fn end_of_text(bytes: &[u8], mut at: usize) -> usize {
    while bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// The length of a raw text that begins here: `r"..."`, `r#"..."#`.
fn raw_text(text: &str) -> Option<usize> {
    let hashes = text[1..].bytes().take_while(|&byte| byte == b'#').count();
    let start = 1 + hashes;
    text[start..].starts_with('"').then(|| {
        let end = format!("\"{}", "#".repeat(hashes));
        start + 1 + text[start + 1..].find(&end).unwrap() + end.len()
    })
}

/// The tokens without the items that are compiled for tests only.
fn without_tests(tokens: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_attribute = tokens[at] == "#" && tokens.get(at + 1).is_some_and(|next| next == "[");
        let end = if is_attribute {
            closing(tokens, at + 1)
        } else {
            at
        };
        let is_for_tests = is_attribute
            && tokens[at + 2] == "cfg"
            && tokens[at..end].iter().any(|token| token == "test")
            && !tokens[at..end]
                .iter()
                .any(|token| token == "not" || token == "any");
        if is_for_tests {
            at = end_of_item(tokens, end + 1);
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// The place of the sign that closes the group which begins at `open`.
fn closing(tokens: &[String], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

/// The position after an item, a field or a statement.
fn end_of_item(tokens: &[String], mut at: usize) -> usize {
    while tokens[at] == "#" {
        at = closing(tokens, at + 1) + 1;
    }
    let first = tokens[at..].iter().find(|token| {
        let is_item = [
            "fn", "impl", "struct", "enum", "trait", "mod", "use", "const",
        ];
        is_item.contains(&token.as_str()) || [";", "{", ","].contains(&token.as_str())
    });
    let first = first.map_or("", String::as_str);
    let ends_with_block = !["use", "const"].contains(&first);
    let ends_with_comma = [";", "{", ","].contains(&first);
    while at < tokens.len() {
        match tokens[at].as_str() {
            ";" => return at + 1,
            "," if ends_with_comma => return at + 1,
            "}" => return at,
            "{" if ends_with_block => return closing(tokens, at) + 1,
            "(" | "[" | "{" => at = closing(tokens, at),
            _ => {}
        }
        at += 1;
    }
    at
}

/// Adds the paths that a `use` names, each with the name that it gives: `a::{b, c as d}` gives `b`
/// to `a::b` and `d` to `a::c`.
fn use_paths(tokens: &[String], before: &[String], found: &mut Vec<(Vec<String>, String)>) {
    let mut path = before.to_vec();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].as_str() {
            "::" => {}
            "{" => {
                let inside = &tokens[at + 1..closing(tokens, at)];
                let mut depth = 0;
                let parts = inside.split(|token| {
                    depth += i32::from(token == "{") - i32::from(token == "}");
                    token == "," && depth == 0
                });
                for part in parts.filter(|part| !part.is_empty()) {
                    use_paths(part, &path, found);
                }
                return;
            }
            "as" => {
                let name = tokens[at + 1].clone();
                found.push((path, name));
                return;
            }
            "self" if !path.is_empty() => {}
            word => path.push(word.to_owned()),
        }
        at += 1;
    }
    let name = path.last().cloned().unwrap_or_default();
    found.push((path, name));
}

impl Crate {
    fn read(root: &Path) -> Crate {
        let mut all = Crate::default();
        let lib = root.join("src/lib.rs");
        let file = if lib.exists() {
            lib
        } else {
            root.join("src/main.rs")
        };
        all.read_module("crate", None, &file, &root.join("src"));
        all
    }

    /// Reads a file and the modules that it declares, whose files are in `folder`.
    fn read_module(&mut self, path: &str, parent: Option<&str>, file: &Path, folder: &Path) {
        let text = fs::read_to_string(file).unwrap();
        let tokens = without_tests(&tokens(&text));
        let shown = file.strip_prefix(workspace()).unwrap();
        let mut module = Module {
            file: shown.to_str().unwrap().replace('\\', "/"),
            parent: parent.map(str::to_owned),
            ..Module::default()
        };
        let mut at = 0;
        while at < tokens.len() {
            let word = tokens[at].as_str();
            let end = at
                + tokens[at..]
                    .iter()
                    .position(|token| token == ";")
                    .unwrap_or(0);
            if word == "use" && end > at {
                let mut found = Vec::new();
                use_paths(&tokens[at + 1..end], &[], &mut found);
                // A re-export is not an import here: the files that use the name import it.
                let is_handed_on = at > 0 && matches!(tokens[at - 1].as_str(), "pub" | ")");
                for (mut path, name) in found {
                    if name == "*" {
                        path.pop();
                        module.globs.push(path);
                        continue;
                    }
                    if !is_handed_on {
                        module.paths.push(path.clone());
                    }
                    module.names.insert(name, path);
                }
                at = end;
            } else if word == "mod" && end == at + 2 {
                let name = &tokens[at + 1];
                let child = format!("{path}::{name}");
                let (plain, in_folder) = (
                    folder.join(format!("{name}.rs")),
                    folder.join(name).join("mod.rs"),
                );
                let file = if plain.exists() { plain } else { in_folder };
                self.read_module(&child, Some(path), &file, &folder.join(name));
                module.children.insert(name.clone(), child);
            } else if ITEMS.contains(&word) {
                module.items.extend(tokens.get(at + 1).cloned());
            } else if is_name(word) {
                let mut named = vec![tokens[at].clone()];
                while tokens.get(at + 1).is_some_and(|sign| sign == "::")
                    && tokens.get(at + 2).is_some_and(|word| is_name(word))
                {
                    named.push(tokens[at + 2].clone());
                    at += 2;
                }
                if named.len() > 1 {
                    module.paths.push(named);
                }
            }
            at += 1;
        }
        self.0.insert(path.to_owned(), module);
    }

    /// The target of a path in `module`; `None` if that is outside of the crate.
    fn resolve(&self, module: &str, path: &[String], depth: usize) -> Found {
        if depth > 16 {
            return None;
        }
        let here = &self.0[module];
        let first = path.first()?;
        let rest = &path[1..];
        match first.as_str() {
            "crate" => self.below("crate", rest, depth),
            "self" => self.below(module, rest, depth),
            "super" => self.below(here.parent.as_deref()?, rest, depth),
            name if here.children.contains_key(name) || here.names.contains_key(name) => {
                self.below(module, path, depth)
            }
            _ => None,
        }
    }

    fn below(&self, module: &str, path: &[String], depth: usize) -> Found {
        let here = &self.0[module];
        let Some(first) = path.first() else {
            return Some((module.to_owned(), None));
        };
        if first == "super" {
            return self.below(here.parent.as_deref()?, &path[1..], depth);
        }
        if let Some(child) = here.children.get(first) {
            return self.below(child, &path[1..], depth);
        }
        if let Some(named) = here.names.get(first) {
            let whole: Vec<String> = named.iter().chain(&path[1..]).cloned().collect();
            return self.resolve(module, &whole, depth + 1);
        }
        if !here.items.contains(first) {
            for glob in &here.globs {
                if let Some((other, None)) = self.resolve(module, glob, depth + 1)
                    && self.0[&other].items.contains(first)
                {
                    return Some((other, Some(first.clone())));
                }
            }
        }
        Some((module.to_owned(), Some(first.clone())))
    }

    fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (path, module) in &self.0 {
            let found = imports.entry(module.file.clone()).or_default();
            for named in &module.paths {
                let Some((other, Some(name))) = self.resolve(path, named, 0) else {
                    continue;
                };
                let file = &self.0[&other].file;
                if *file != module.file {
                    found.entry(file.clone()).or_default().insert(name);
                }
            }
        }
        imports
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
}

/// The files that `from` reaches over imports.
fn reached(imports: &Imports, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![from.to_owned()];
    while let Some(file) = left.pop() {
        for other in imports[&file].keys() {
            if found.insert(other.clone()) {
                left.push(other.clone());
            }
        }
    }
    found
}

/// The circles: sets of files each of which reaches all others of its set.
fn circles(imports: &Imports) -> BTreeSet<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<String>> = imports
        .keys()
        .map(|file| (file, reached(imports, file)))
        .collect();
    let in_circle = imports.keys().filter(|file| reached[file].contains(*file));
    in_circle
        .map(|file| {
            let others = reached[file].iter();
            others
                .filter(|other| reached[other].contains(file))
                .cloned()
                .collect()
        })
        .collect()
}

/// The crates of the workspace, by their folders.
fn crates() -> Vec<PathBuf> {
    let manifest = fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    let members = manifest.split_once("members = [").unwrap().1;
    let members = members.split_once(']').unwrap().0;
    let names = members.split('"').skip(1).step_by(2);
    names.map(|name| workspace().join(name)).collect()
}

/// The imports of a circle, one a line, each with a few of its names.
fn described(circle: &BTreeSet<String>, imports: &Imports) -> String {
    let mut lines = format!("a circle of {} files:\n", circle.len());
    for file in circle {
        for (other, names) in imports[file]
            .iter()
            .filter(|(other, _)| circle.contains(*other))
        {
            let names: Vec<&str> = names.iter().map(String::as_str).take(8).collect();
            lines += &format!("  {file} -> {other}: {}\n", names.join(", "));
        }
    }
    lines
}

#[test]
fn no_files_of_a_crate_import_each_other_in_a_circle() {
    let mut found = String::new();
    for root in crates() {
        let imports = Crate::read(&root).imports();
        for circle in circles(&imports) {
            found += &described(&circle, &imports);
        }
    }
    assert!(found.is_empty(), "{found}");
}

#[test]
fn no_layer_of_the_engine_imports_one_above_it() {
    let layer = |file: &str| {
        let below = file.strip_prefix("engine/src/").unwrap();
        let folder = below.split_once('/').map_or("", |(folder, _)| folder);
        let named = LAYERS.iter().position(|layer| *layer == folder);
        named.unwrap_or_else(|| panic!("{folder} stands in no list of layers"))
    };
    let mut upward = String::new();
    for (file, imports) in Crate::read(&workspace().join("engine")).imports() {
        for other in imports.keys().filter(|other| layer(other) > layer(&file)) {
            upward += &format!("{file} imports {other}\n");
        }
    }
    assert!(upward.is_empty(), "upward imports:\n{upward}");
}
