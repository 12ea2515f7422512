//! Finds the string that a client signed by mistake: tries the known mistakes until one matches the
//! client's signature.
//!
//! For the pages of the console; the response to the client does not change.

use crate::accounts::{DEVELOPMENT_KEY, decode_key};
use crate::auth::signature::verify;
use crate::request::context::Context;
use crate::response::error::ClientSigned;

/// Longer strings to sign are not tried: each attempt hashes the whole string.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// Returns the string that matches `signature`, with the mistake; `None` if no known mistake
/// explains it. `text` is the server's string to sign, and `query` the part of it that comes from
/// the query.
pub fn client_signed(
    context: &Context,
    text: &str,
    query: &str,
    keys: &[Vec<u8>],
    signature: &str,
) -> Option<Box<ClientSigned>> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let (account, path) = (context.account_of_client(), &context.raw_path);
    let resource = format!("/{account}{path}");
    let without_account = path.strip_prefix(&format!("/{account}")).unwrap_or(path);
    let candidates = [
        (
            text.replacen(&resource, path, 1),
            "The client signed the path as it stands in the URL. The account comes before it, once more: /ACCOUNT/ACCOUNT/CONTAINER/BLOB.",
        ),
        (
            text.replacen(&resource, without_account, 1),
            "The client signed the path without the account.",
        ),
        (
            format!("{text}\n"),
            "The client signed a line break more, at the end.",
        ),
        (
            text.strip_suffix(query).unwrap_or(text).to_owned(),
            "The client did not sign the parameters of the query.",
        ),
        (
            text.replacen(&context.header("x-ms-date").unwrap_or_default(), "", 1),
            "The client signed an empty x-ms-date, and sent one.",
        ),
    ];
    let is_other = |candidate: &&(String, &str)| candidate.0 != text;
    let found = candidates
        .iter()
        .filter(is_other)
        .find(|(candidate, _)| verify(keys, candidate.as_bytes(), signature));
    let known_key = || {
        let known = [decode_key(DEVELOPMENT_KEY)?];
        let mistake = "The string is right and the key is not: it is that of the emulator, and the account has one of its own.";
        verify(&known, text.as_bytes(), signature).then(|| (text.to_owned(), mistake))
    };
    let (text, mistake) = found.cloned().or_else(known_key)?;
    Some(Box::new(ClientSigned {
        text,
        mistake: mistake.into(),
    }))
}

#[cfg(test)]
mod tests {
    use crate::auth::shared_key::{SignedRequest, verify};
    use crate::auth::signature::sign;
    use crate::request::context::ServiceKind;
    use crate::response::error::Failure;
    use crate::testing::{accounts, request};

    const SIGNED: &str = "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 01 Mar 2024 12:34:56 GMT\nx-ms-version:2021-12-02\n\
                          /devstoreaccount1/devstoreaccount1/c/b\ncomp:metadata";

    fn refused(key: &[u8], text: &str, account_key: &[u8]) -> Failure {
        let headers = [
            ("x-ms-date", "Fri, 01 Mar 2024 12:34:56 GMT"),
            ("x-ms-version", "2021-12-02"),
        ];
        let target = "/c/b?comp=metadata";
        let context = request(
            ServiceKind::Blob,
            "GET",
            target,
            "devstoreaccount1",
            &headers,
        );
        let authorization = format!("SharedKey devstoreaccount1:{}", sign(key, text.as_bytes()));
        let request = SignedRequest { context: &context };
        verify(&request, &authorization, &[account_key.to_vec()]).unwrap_err()
    }

    #[test]
    fn a_known_mistake_is_found_by_the_signature() {
        let key = b"0123456789abcdef";
        for (from, to, words) in [
            (
                "/devstoreaccount1/devstoreaccount1/c/b",
                "/devstoreaccount1/c/b",
                "once more",
            ),
            (
                "/devstoreaccount1/devstoreaccount1/c/b",
                "/c/b",
                "without the account",
            ),
            ("metadata", "metadata\n", "line break"),
            ("\ncomp:metadata", "", "parameters"),
        ] {
            let text = SIGNED.replace(from, to);
            let refused = refused(key, &text, key).into_content();
            let signed = refused.client_signed.unwrap();
            assert_eq!(signed.text, text);
            assert!(signed.mistake.contains(words), "{}", signed.mistake);
        }
        assert!(refused(key, "GET", key).client_signed.is_none());
        assert!(refused(b"another", SIGNED, key).client_signed.is_none());
    }

    #[test]
    fn key_of_the_emulator_is_recognised() {
        let known = accounts().keys("devstoreaccount1");
        let refused = refused(&known[0], SIGNED, b"0123456789abcdef").into_content();
        let signed = refused.client_signed.unwrap();
        assert!(signed.text == SIGNED && signed.mistake.contains("emulator"));
    }
}
