//! Code for one operating system is behind one seam in each crate that has such code: mostly a
//! module `platform`.

use std::path::{Path, PathBuf};

/// Rust code that only exists on one system.
const MARKS: [&str; 12] = [
    "(unix)",
    "(unix,",
    ", unix)",
    "(windows)",
    "(windows,",
    ", windows)",
    "target_os",
    "std::os::",
    "libc::",
    "rustix::",
    "tokio::signal::",
    "\"/proc",
];

/// The places for such code: modules for one system, the clock, the choice of the allocator in
/// `main.rs`, and the numbers of one kind of error in `error.rs`.
const SEAM: [&str; 10] = [
    "base/src/wall_clock.rs",
    "engine/src/base/error.rs",
    "engine/src/fs/platform/",
    "engine/src/fs/write_paths/",
    "engine/src/fs/mod.rs",
    "engine/src/fs/direct.rs",
    "engine/src/fs/log_file.rs",
    "engine/src/fs/map.rs",
    "server/services/src/platform/",
    "server/src/main.rs",
];

/// The crates of the workspace by folder. The benches run on the machines that we measure on.
fn crates(root: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let list = text.split_once("members = [").unwrap().1;
    let members = list
        .split_once(']')
        .unwrap()
        .0
        .split('"')
        .skip(1)
        .step_by(2);
    let product = members.filter(|member| !member.starts_with("benches/"));
    product.map(|member| root.join(member)).collect()
}

#[test]
fn code_for_one_system_stands_behind_the_seam() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    let mut unused = SEAM.to_vec();
    for path in crates(root)
        .iter()
        .flat_map(|name| sources(&name.join("src")))
    {
        let name = path.strip_prefix(root).unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        if let Some(place) = SEAM.iter().find(|place| name.starts_with(*place)) {
            unused.retain(|other| other != place || marks(&text).next().is_none());
        } else if !name.ends_with("_tests.rs") {
            found.extend(marks(&text).map(|(line, text)| format!("{name}:{line}: {text}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(unused.is_empty(), "no such code is in {unused:?}");
}

/// The lines with a mark, by number, up to the unit tests at the end of the file. Comments do not
/// count.
fn marks(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let program = text.split("]\nmod tests {").next().unwrap();
    let lines = program.lines().map(str::trim).enumerate();
    lines
        .filter(|(_, line)| !line.starts_with("//") && !line.starts_with("#[cfg(all(test,"))
        .filter(|(_, line)| MARKS.iter().any(|mark| line.contains(mark)))
        .map(|(index, line)| (index + 1, line))
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                sources(&path)
            } else {
                vec![path]
            }
        })
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .collect()
}

#[test]
fn marks_are_found_outside_comments_and_tests() {
    let text = "// std::os::unix\nuse std::os::unix::fs::FileExt;\n#[cfg(test)]\nmod tests {\n    use std::os::fd;\n}";
    let found: Vec<_> = marks(text).collect();
    assert_eq!(found, [(2, "use std::os::unix::fs::FileExt;")]);
}
