//! Text for terminals.

use std::fmt;
use std::io::{self, Write};

/// Text without control characters, which could act on a terminal.
pub fn plain(text: &str) -> String {
    let visible = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(visible).collect()
}

/// Prints a line on standard output. It is no failure if the reader has gone, as `head` does.
pub fn print_line(line: impl fmt::Display) {
    let _ = writeln!(io::stdout(), "{line}");
}
