//! Continuation tokens: keys with any characters as header and query text.
//!
//! A token is `1!<length>!<payload>`. The payload is the key in base64, with `*`, `_` and `-` for
//! `+`, `/` and `=`. The form is the service's own, as observed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_protocol::response::error::{Failure, Result};

/// The continuation token for a key.
pub fn write(key: &str) -> String {
    let payload: String = STANDARD.encode(key).chars().map(to_token).collect();
    format!("1!{}!{payload}", payload.len())
}

/// The key of a token. Text that does not have the form of a token is taken as the key itself, for
/// handwritten queries; a malformed token is refused.
pub fn read(token: &str) -> Result<String> {
    let Some((length, payload)) = token
        .strip_prefix("1!")
        .and_then(|rest| rest.split_once('!'))
    else {
        return Ok(token.to_owned());
    };
    let base64: String = payload.chars().map(from_token).collect();
    let fits = length.parse() == Ok(payload.len());
    let key = STANDARD
        .decode(base64)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .filter(|_| fits);
    key.ok_or_else(|| {
        Failure::invalid_input("The continuation token is not one that this service gave.")
    })
}

fn to_token(character: char) -> char {
    match character {
        '+' => '*',
        '/' => '_',
        '=' => '-',
        other => other,
    }
}

fn from_token(character: char) -> char {
    match character {
        '*' => '+',
        '_' => '/',
        '-' => '=',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_carry_any_key_in_the_form_of_the_service() {
        assert_eq!(write("pkadca2e0d"), "1!16!cGthZGNhMmUwZA--");
        assert_eq!(write(""), "1!0!");
        assert_eq!(write("???>>>"), "1!8!Pz8_Pj4*");
        for key in [
            "",
            "a",
            "ab",
            "é\u{10ffff}",
            "1!2!x",
            "\u{3f}\u{3e}\u{ff}\u{fe}",
            "a b+c/d",
        ] {
            assert_eq!(read(&write(key)).unwrap(), key);
        }
    }

    #[test]
    fn hand_made_keys_pass_and_broken_tokens_do_not() {
        assert_eq!(read("plain key").unwrap(), "plain key");
        for broken in ["1!5!cGth", "1!4!????", "1!4!_____", "1!x!cGth"] {
            assert!(read(broken).is_err(), "{broken}");
        }
    }
}
