//! Output on terminals.

use std::fmt;
use std::io::{self, Write};

/// Text without control characters, which could act on a terminal.
pub fn plain(text: &str) -> String {
    let visible = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(visible).collect()
}

/// Prints a line on standard output. Ignores errors: a reader such as `head` may be gone.
pub fn print_line(line: impl fmt::Display) {
    let _ = writeln!(io::stdout(), "{line}");
}
