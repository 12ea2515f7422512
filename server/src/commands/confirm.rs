//! Questions before something is deleted.

use lazurite_base::terminal::plain;
use std::io::{self, IsTerminal, Write};

/// Asks on the terminal, unless the answer is given. Error: the answer is no, or there is no
/// terminal to ask on.
pub fn confirm(question: &str, is_given: bool) -> Result<(), String> {
    if is_given {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(format!(
            "{question} There is no terminal to ask on, so nothing was changed. Add --yes to go ahead"
        ));
    }
    let _ = write!(io::stderr(), "{} [y/N] ", plain(question));
    let _ = io::stderr().flush();
    let mut answer = String::new();
    let _ = io::stdin().read_line(&mut answer);
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        Ok(())
    } else {
        Err("nothing was changed".to_owned())
    }
}
