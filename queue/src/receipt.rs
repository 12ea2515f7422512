//! Pop receipts, which authorise a consumer to update or delete a message.
//!
//! A receipt is 64 random bits, stored with the message and replaced by every Put, Get and Update,
//! so that at most one receipt per message is valid, and only for that message. On the wire it is a
//! letter for its version and the bits in hex: no character of it has a special meaning in a URL,
//! even if a client forgets to encode it.

/// The secret that proves possession of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Receipt(pub(crate) u64);

const VERSION: &str = "a";
const LENGTH: usize = VERSION.len() + 16;

impl Receipt {
    /// Parses the text of a receipt. `None` if it is malformed.
    pub(crate) fn parse(text: &str) -> Option<Receipt> {
        let digits = text.strip_prefix(VERSION)?;
        let lower_hex = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        if text.len() != LENGTH || !digits.bytes().all(lower_hex) {
            return None;
        }
        u64::from_str_radix(digits, 16).ok().map(Receipt)
    }
}

impl std::fmt::Display for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{VERSION}{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn receipts_round_trip_through_text(bits: u64) {
            let text = Receipt(bits).to_string();
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            prop_assert_eq!(Receipt::parse(&text), Some(Receipt(bits)));
        }

        #[test]
        fn accepted_receipts_are_exactly_those_displayed(text in "(a?[0-9a-fA-F+]{14,18}|\\PC{0,20})") {
            if let Some(receipt) = Receipt::parse(&text) {
                prop_assert_eq!(receipt.to_string(), text);
            }
        }
    }
}
