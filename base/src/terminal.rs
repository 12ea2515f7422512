//! Output on terminals.

use std::fmt;
use std::io::{self, IsTerminal, Stderr, Write};
use std::time::{Duration, Instant};

/// How often a changing line changes at most.
const INTERVAL: Duration = Duration::from_millis(200);

/// Text without control characters, which could act on a terminal.
pub fn plain(text: &str) -> String {
    let visible = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(visible).collect()
}

/// Prints a line on standard output. Ignores errors: a reader such as `head` may be gone.
pub fn print_line(line: impl fmt::Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// A line on a terminal that says how far a long work is. It is removed when it is dropped.
pub struct ChangingLine<W: Write = Stderr> {
    /// `None` where there is no terminal.
    out: Option<W>,
    changed: Option<Instant>,
}

impl ChangingLine {
    /// A line on standard error, if that is a terminal.
    pub fn on_stderr() -> ChangingLine {
        let stderr = io::stderr();
        ChangingLine::on(stderr.is_terminal().then_some(stderr))
    }

    /// A line that is not shown.
    pub fn hidden() -> ChangingLine {
        ChangingLine::on(None)
    }
}

impl<W: Write> ChangingLine<W> {
    fn on(out: Option<W>) -> ChangingLine<W> {
        ChangingLine { out, changed: None }
    }

    /// Shows a text in place of the one before, unless that was shown just now.
    pub fn show(&mut self, text: impl FnOnce() -> String) {
        let is_due = self
            .changed
            .is_none_or(|changed| changed.elapsed() >= INTERVAL);
        if let (Some(out), true) = (&mut self.out, is_due) {
            self.changed = Some(Instant::now());
            let _ = write!(out, "\r\x1b[K{}", plain(&text()));
            let _ = out.flush();
        }
    }
}

impl<W: Write> Drop for ChangingLine<W> {
    fn drop(&mut self) {
        if let (Some(out), Some(_)) = (&mut self.out, self.changed) {
            let _ = write!(out, "\r\x1b[K");
            let _ = out.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changing_line_is_shown_on_a_terminal_alone_and_removed_at_the_end() {
        let mut shown = Vec::new();
        let mut line = ChangingLine::on(Some(&mut shown));
        line.show(|| "half\n".to_owned());
        // Too early.
        line.show(|| unreachable!());
        drop(line);
        assert_eq!(shown, "\r\x1b[Khalf\u{fffd}\r\x1b[K".as_bytes());
        let mut hidden = ChangingLine::hidden();
        hidden.show(|| unreachable!());
    }
}
