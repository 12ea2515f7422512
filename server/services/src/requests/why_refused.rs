//! Why a request was refused, in the words of its response.

use crate::requests::head::without_secrets;
use lazurite_protocol::response::error::{ClientSigned, Failure, WRONG_SERVICE};
use lazurite_protocol::target::without_secret_parameters;

/// Maximum length of a reason in a list, in bytes.
const REASON_BYTES_MAX: usize = 300;

/// Names of details that give the reason in one phrase, the best first.
const REASONS: [&str; 4] = [
    WRONG_SERVICE,
    "AuthenticationErrorDetail",
    "Reason",
    "ExtendedErrorDetail",
];

/// Why a request was refused.
#[derive(Debug, Clone)]
pub struct WhyRefused {
    pub code: String,
    /// The reason in one phrase.
    pub reason: String,
    /// All details of the response: name and text.
    pub details: Vec<(&'static str, String)>,
    /// The string that the client signed by mistake, if it is known.
    pub client_signed: Option<Box<ClientSigned>>,
}

impl WhyRefused {
    /// Memory of the texts in bytes.
    pub(super) fn bytes(&self) -> usize {
        let texts = self.details.iter();
        let texts = texts.map(|(name, text)| name.len() + text.capacity());
        let details = self.details.capacity() * size_of::<(&'static str, String)>();
        let signed = self.client_signed.as_ref().map_or(0, |signed| {
            size_of::<ClientSigned>() + signed.text.capacity() + signed.mistake.len()
        });
        let own = size_of::<WhyRefused>() + self.code.capacity() + self.reason.capacity();
        own + details + texts.sum::<usize>() + signed
    }

    /// The reason for a failure, in the words of its response. Secrets are removed.
    pub fn of(failure: &Failure) -> Box<WhyRefused> {
        let details: Vec<_> = failure
            .details
            .iter()
            .map(|(name, text)| (*name, without_secrets(text)))
            .collect();
        let detail = REASONS
            .into_iter()
            .find_map(|reason| details.iter().find(|(name, _)| *name == reason));
        let message = without_secret_parameters(&failure.message);
        let first = detail.map_or(&*message, |(_, text)| text.as_str());
        let phrase = first.lines().next().unwrap_or_default();
        let phrase = phrase
            .split(" Server used following")
            .next()
            .unwrap_or_default();
        let mut reason = phrase.to_owned();
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        Box::new(WhyRefused {
            code: failure.code.clone().into_owned(),
            reason,
            details,
            client_signed: failure.client_signed.as_ref().map(|signed| {
                Box::new(ClientSigned {
                    text: without_secrets(&signed.text),
                    mistake: signed.mistake.clone(),
                })
            }),
        })
    }
}
