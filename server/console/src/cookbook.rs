//! The table design cookbook inside the program: the pages of `docs/guide` and the programs that
//! they quote. The console and the command `guide` show them.

use include_dir::{Dir, include_dir};
use std::path::Path;

static FILES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../docs/guide");

/// A map of the patterns and how they lead to each other, as SVG.
pub const MAP: &str = include_str!("../../docs/guide/map.svg");

/// The name of the page that lists the others.
pub const CONTENTS: &str = "README";

/// A page in Markdown by its name, without extension; `None` if there is none.
pub fn page(name: &str) -> Option<&'static str> {
    FILES.get_file(format!("{name}.md"))?.contents_utf8()
}

/// A program of the pages by its file name; `None` if there is none.
pub fn program(name: &str) -> Option<&'static str> {
    FILES
        .get_file(Path::new("code").join(name))?
        .contents_utf8()
}

/// Whether a page has programs of its own.
pub fn has_program(page: &str) -> bool {
    program(&format!("{}.py", page.replace('-', "_"))).is_some()
}

/// All programs with what they share, each by the name of its file.
pub fn programs() -> impl Iterator<Item = (&'static str, &'static str)> {
    let files = FILES.get_dir("code").into_iter().flat_map(Dir::files);
    files.filter_map(|file| Some((file.path().file_name()?.to_str()?, file.contents_utf8()?)))
}

/// The names of all pages except [`CONTENTS`], in alphabetical order.
pub fn names() -> Vec<&'static str> {
    let stems = FILES.files().filter_map(|file| {
        let name = file.path().to_str()?;
        name.strip_suffix(".md").filter(|name| *name != CONTENTS)
    });
    let mut names: Vec<_> = stems.collect();
    names.sort_unstable();
    names
}

/// The heading of a page; empty if it has none.
pub fn title(page: &str) -> &str {
    let heading = page.lines().find_map(|line| line.strip_prefix("# "));
    heading.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_a_heading_and_its_programs() {
        assert!(names().len() > 20 && page(CONTENTS).is_some());
        for name in names() {
            let text = page(name).unwrap();
            assert!(!title(text).is_empty(), "{name}");
            let quoted = text.split("<!-- code: ").skip(1);
            for file in quoted.filter_map(|rest| rest.split('#').next()) {
                assert!(program(file).is_some(), "{name}: {file}");
            }
        }
        assert!(page("../advisor").is_none() && program("../README.md").is_none());
    }
}
