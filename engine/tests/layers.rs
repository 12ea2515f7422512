//! The folders of `src` are layers: each imports only those before it, and no two files of a layer
//! import each other in a circle.
//!
//! Imports are read from the text: every path that begins with `crate::` or `super::`, tests and
//! comments left out.

#![allow(
    clippy::disallowed_methods,
    reason = "it reads the source, not a store"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// From the lowest up. What stands in no folder is the highest: `Db` and what callers hold.
const LAYERS: [&str; 9] = [
    "base", "fs", "format", "tree", "values", "write", "catalog", "work", "",
];

/// Modules by path (`tree::cache`), and what each imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

fn source() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))
}

fn read_modules(folder: &Path, prefix: &str, modules: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let module = match (prefix, name.as_str()) {
            (prefix, "mod") => prefix.to_owned(),
            ("", name) => name.to_owned(),
            (prefix, name) => format!("{prefix}::{name}"),
        };
        if name == "tests" {
            continue;
        }
        if path.is_dir() {
            read_modules(&path, &module, modules);
        } else if module != "lib" {
            let text = fs::read_to_string(&path).unwrap();
            modules.insert(module, without_tests(&text));
        }
    }
}

/// The text without comments and without what is compiled for tests only; tests are at the foot of
/// a file.
fn without_tests(text: &str) -> String {
    let code = text.split("\nmod tests").next().unwrap();
    let code = code.split("#[cfg(test)]\nimpl ").next().unwrap();
    let lines = code.lines().map(|line| match line.find("//") {
        Some(comment) => &line[..comment],
        None => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// What the crate's root gives other names to: `Error` is `base::error::Error`.
fn root_names() -> BTreeMap<String, String> {
    let text = fs::read_to_string(source().join("lib.rs")).unwrap();
    let mut names = BTreeMap::new();
    for statement in text.split("pub use ").skip(1) {
        let statement = statement.split(';').next().unwrap();
        for path in expand(statement) {
            let name = path.rsplit("::").next().unwrap().to_owned();
            names.insert(name, path);
        }
    }
    names
}

/// The paths that a `use` names: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(path: &str) -> Vec<String> {
    let path: String = path.split_whitespace().collect();
    let Some((before, group)) = path.split_once('{') else {
        return vec![path];
    };
    let group = &group[..group.rfind('}').unwrap_or(group.len())];
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for letter in group.chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        if letter == ',' && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().unwrap().push(letter);
        }
    }
    let parts = parts.iter().filter(|part| !part.is_empty());
    parts
        .flat_map(|part| expand(&format!("{before}{part}")))
        .collect()
}

/// The paths after every `start` (`crate::`, `super::`) in the code, groups of a `use` expanded.
fn paths_behind(code: &str, start: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(start) {
        let rest = &code[at + start.len()..];
        let is_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
        let end = rest.find(|letter| !is_path(letter)).unwrap_or(rest.len());
        let end = if rest[end..].starts_with('{') {
            rest.find(';').unwrap_or(end)
        } else {
            end
        };
        found.extend(expand(&rest[..end]));
    }
    found
}

fn imports() -> Imports {
    let mut modules = BTreeMap::new();
    read_modules(source(), "", &mut modules);
    let names = root_names();
    let resolve = |path: &str| {
        let first = path.split("::").next().unwrap();
        let path = names.get(first).map_or(path, |full| full);
        let mut module = path;
        while !modules.contains_key(module) {
            module = module.rsplit_once("::")?.0;
        }
        Some(module.to_owned())
    };
    let mut imports = Imports::new();
    for (module, code) in &modules {
        let is_folder = source().join(module.replace("::", "/")).is_dir();
        let parent = match module.rsplit_once("::") {
            _ if is_folder => module,
            Some((parent, _)) => parent,
            None => "",
        };
        let beside = paths_behind(code, "super::").into_iter();
        let beside = beside.map(|path| format!("{parent}::{path}"));
        let paths = paths_behind(code, "crate::").into_iter().chain(beside);
        let mut found: BTreeSet<String> = paths.filter_map(|path| resolve(&path)).collect();
        found.remove(module);
        imports.insert(module.clone(), found);
    }
    imports
}

fn layer(module: &str) -> usize {
    let folder = module.split("::").next().unwrap();
    let named = LAYERS.iter().position(|layer| *layer == folder);
    named.unwrap_or(LAYERS.len() - 1)
}

#[test]
fn no_layer_imports_one_above_it() {
    let mut upward = Vec::new();
    for (module, imports) in imports() {
        let above = imports.iter().filter(|other| layer(other) > layer(&module));
        upward.extend(above.map(|other| format!("{module} imports {other}")));
    }
    assert!(upward.is_empty(), "upward imports:\n{}", upward.join("\n"));
}

/// Folders inside a layer count as one module. A layer's `mod.rs` may hold what its own modules are
/// written for: it names them without `crate::`.
fn unit(module: &str) -> String {
    module.split("::").take(2).collect::<Vec<_>>().join("::")
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let mut left: Imports = BTreeMap::new();
    for (module, imports) in imports() {
        let here = unit(&module);
        let others = imports.iter().map(String::as_str).map(unit);
        let others = others.filter(|other| *other != here);
        left.entry(here.clone()).or_default().extend(others);
    }
    // What imports nothing that is left is in no circle.
    loop {
        let keys: BTreeSet<String> = left.keys().cloned().collect();
        let before = left.len();
        left.retain(|_, imports| imports.iter().any(|other| keys.contains(other)));
        if left.len() == before {
            break;
        }
    }
    // Neither is what nothing imports.
    loop {
        let used: BTreeSet<String> = left.values().flatten().cloned().collect();
        let before = left.len();
        left.retain(|module, _| used.contains(module));
        if left.len() == before {
            break;
        }
    }
    let keys: BTreeSet<String> = left.keys().cloned().collect();
    let circles: Vec<String> = left
        .iter()
        .map(|(module, imports)| {
            format!(
                "{module} -> {:?}",
                imports.intersection(&keys).collect::<Vec<_>>()
            )
        })
        .collect();
    assert!(circles.is_empty(), "circles:\n{}", circles.join("\n"));
}
