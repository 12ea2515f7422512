//! Code for one operating system is behind one seam in each crate: `engine/src/fs/platform` and
//! `server/services/src/platform`.

use std::path::{Path, PathBuf};

/// Rust code that only exists on one system.
const MARKS: [&str; 10] = [
    "cfg(unix",
    "cfg(windows",
    "cfg(not(unix",
    "cfg(not(windows",
    "target_os",
    "std::os::",
    "libc::",
    "rustix::",
    "tokio::signal::",
    "\"/proc",
];

/// Where such code may be. Four files of the engine and a half of `write_paths` exist on Linux
/// alone; `main.rs` chooses the allocator; `error.rs` has the numbers of one kind of error.
const SEAM: [&str; 10] = [
    "engine/src/base/error.rs",
    "engine/src/fs/platform/",
    "engine/src/fs/write_paths/",
    "engine/src/fs/mod.rs",
    "engine/src/fs/direct.rs",
    "engine/src/fs/large.rs",
    "engine/src/fs/log_file.rs",
    "engine/src/fs/map.rs",
    "server/services/src/platform/",
    "server/src/main.rs",
];

const CRATES: [&str; 11] = [
    "engine",
    "table",
    "queue",
    "blob",
    "server",
    "server/protocol",
    "server/services",
    "server/mover",
    "server/console",
    "server/query",
    "server/advisor",
];

#[test]
fn code_for_one_system_stands_behind_the_seam() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    let mut seen = 0;
    for path in CRATES
        .iter()
        .flat_map(|name| sources(&root.join(name).join("src")))
    {
        let name = path.strip_prefix(root).unwrap().to_str().unwrap();
        if SEAM.iter().any(|place| name.starts_with(place)) || name.ends_with("_tests.rs") {
            continue;
        }
        seen += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        found.extend(marks(&text).map(|(line, text)| format!("{name}:{line}: {text}")));
    }
    assert!(seen > 300, "{seen} files only");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The lines with a mark, by number, except those in unit tests at the end of the file.
fn marks(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let program = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = program.lines().map(str::trim).enumerate();
    lines
        .filter(|(_, line)| !line.starts_with("//") && MARKS.iter().any(|mark| line.contains(mark)))
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
