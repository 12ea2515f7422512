//! The effects of faults, and their text form: `503; retry-after=2`, `latency=200ms`, `reset`,
//! `cut-body`, `lose-answer`.

use crate::clock::duration;
use crate::faults::Ending;
use axum::http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use lazurite_protocol::response::error::{Failure, Result};
use std::time::Duration;

/// The header with which a request asks for a fault of its own.
pub const HEADER: &str = "x-lazurite-fault";

/// Maximum latency. It limits how long a fault holds a connection.
const LATENCY_MAX: Duration = Duration::from_secs(60);
const RETRY_AFTER_SECONDS_MAX: u32 = 3600;
const MESSAGE_BUSY: &str = "The server is busy. (A fault that was asked for.)";
const MESSAGE_TIMED_OUT: &str =
    "The operation could not be completed within the permitted time. (A fault that was asked for.)";
const MESSAGE_INTERNAL: &str = "The server encountered an internal error. Please retry the request. (A fault that was asked for.)";

/// The errors that Azure Storage returns without a fault of the client. A status without a code
/// means the first error with that status. Source: Common REST API error codes.
const ERRORS: [(u16, &str, &str); 3] = [
    (503, "ServerBusy", MESSAGE_BUSY),
    (500, "InternalError", MESSAGE_INTERNAL),
    (500, "OperationTimedOut", MESSAGE_TIMED_OUT),
];

/// The effect of a fault.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kind {
    latency: Option<Latency>,
    effect: Option<Effect>,
}

/// The effect on the request, apart from its latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Error {
        status: u16,
        code: &'static str,
        message: &'static str,
        retry_after: Option<u32>,
    },
    /// The connection is reset before the operation runs.
    Reset,
    /// The operation runs, and the response breaks off after this many bytes of its body. `None`:
    /// after half of the body, or after 1 KiB if the length of the body is not known.
    CutBody(Option<u64>),
    /// The operation runs, and the connection is reset in place of the response.
    LoseAnswer,
}

/// The time that a request waits before its operation runs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Latency {
    /// Uniformly distributed between two durations, which may be equal.
    Uniform(Duration, Duration),
    Normal {
        mean: Duration,
        deviation: Duration,
    },
}

impl Kind {
    /// Reads the words of a fault, separated by `;`. The error is a sentence.
    pub fn parse(text: &str) -> std::result::Result<Kind, String> {
        let mut kind = Kind::default();
        let mut retry_after = None;
        for word in text.split(';').map(str::trim) {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name.trim(), Some(value.trim())),
                None => (word, None),
            };
            match (name, value) {
                ("latency", Some(value)) if kind.latency.is_none() => {
                    kind.latency = Some(Latency::parse(value)?);
                }
                ("retry-after", Some(value)) if retry_after.is_none() => {
                    retry_after = Some(seconds(value)?);
                }
                _ if kind.effect.is_none() => kind.effect = Some(Effect::parse(name, value)?),
                _ => {
                    return Err(format!(
                        "\"{word}\" comes after another word that excludes it."
                    ));
                }
            }
        }
        if let Some(after) = retry_after {
            kind.set_retry_after(after)?;
        }
        Ok(kind)
    }

    fn set_retry_after(&mut self, seconds: u32) -> std::result::Result<(), String> {
        match &mut self.effect {
            Some(Effect::Error {
                status: 503,
                retry_after,
                ..
            }) => {
                *retry_after = Some(seconds);
                Ok(())
            }
            _ => Err("retry-after belongs to a 503.".to_owned()),
        }
    }

    /// Draws the fault of one request. `random` returns numbers of at least 0 and below 1.
    pub fn draw(&self, random: &mut dyn FnMut() -> f64) -> Fault {
        Fault {
            latency: self.latency.map(|latency| latency.draw(random)),
            effect: self.effect,
        }
    }
}

impl Effect {
    fn parse(name: &str, value: Option<&str>) -> std::result::Result<Effect, String> {
        match (name, value) {
            ("reset", None) => Ok(Effect::Reset),
            ("lose-answer", None) => Ok(Effect::LoseAnswer),
            ("cut-body", None) => Ok(Effect::CutBody(None)),
            ("cut-body", Some(bytes)) => {
                let bytes = bytes
                    .parse()
                    .map_err(|_| format!("cut-body={bytes}: \"{bytes}\" is no number of bytes."))?;
                Ok(Effect::CutBody(Some(bytes)))
            }
            (error, None) => Effect::parse_error(error),
            (name, Some(_)) => Err(unknown(name)),
        }
    }

    /// Parses a status, perhaps with a code: `503` or `500 OperationTimedOut`.
    fn parse_error(text: &str) -> std::result::Result<Effect, String> {
        let (status, code) = text.split_once(' ').unwrap_or((text, ""));
        let Ok(number) = status.parse::<u16>() else {
            return Err(unknown(text));
        };
        let code = code.trim();
        let found = ERRORS
            .iter()
            .find(|error| error.0 == number && (code.is_empty() || error.1 == code));
        match found {
            Some(&(status, code, message)) => Ok(Effect::Error {
                status,
                code,
                message,
                retry_after: None,
            }),
            None if number == 429 => Err(
                "429: Azure Storage never answers 429. A throttled request is answered 503."
                    .to_owned(),
            ),
            None => Err(format!(
                "\"{text}\" is no error that can be injected. There are 503 ServerBusy, 500 InternalError and 500 OperationTimedOut."
            )),
        }
    }
}

fn unknown(word: &str) -> String {
    format!(
        "\"{word}\" is no fault. There are 503, 500, retry-after=SECONDS, latency=DURATION, reset, cut-body and lose-answer."
    )
}

fn seconds(text: &str) -> std::result::Result<u32, String> {
    let seconds = text.parse().ok();
    let seconds = seconds.filter(|seconds| *seconds <= RETRY_AFTER_SECONDS_MAX);
    seconds.ok_or_else(|| {
        format!("retry-after={text}: it takes a number of seconds up to {RETRY_AFTER_SECONDS_MAX}.")
    })
}

impl Latency {
    /// Parses `200ms`, `100ms..2s` or `normal(200ms, 50ms)` (mean and standard deviation).
    fn parse(text: &str) -> std::result::Result<Latency, String> {
        let wrong = || {
            format!(
                "latency={text}: it takes a duration such as 200ms, a range such as 100ms..2s, or normal(200ms, 50ms), up to {} s.",
                LATENCY_MAX.as_secs()
            )
        };
        let read = |text: &str| duration::parse(text.trim()).filter(|time| *time <= LATENCY_MAX);
        let normal = text
            .strip_prefix("normal(")
            .and_then(|rest| rest.strip_suffix(')'));
        let latency = if let Some((mean, deviation)) = normal.and_then(|text| text.split_once(','))
        {
            let (mean, deviation) = read(mean).zip(read(deviation)).ok_or_else(wrong)?;
            Latency::Normal { mean, deviation }
        } else {
            let (low, high) = text.split_once("..").unwrap_or((text, text));
            let (low, high) = read(low).zip(read(high)).ok_or_else(wrong)?;
            Latency::Uniform(low, high)
        };
        match latency {
            Latency::Uniform(low, high) if low > high => Err(wrong()),
            latency => Ok(latency),
        }
    }

    fn draw(self, random: &mut dyn FnMut() -> f64) -> Duration {
        let seconds = match self {
            Latency::Uniform(low, high) if low == high => return low,
            Latency::Uniform(low, high) => {
                low.as_secs_f64() + random() * (high - low).as_secs_f64()
            }
            Latency::Normal { mean, deviation } => {
                // The sum of twelve uniform numbers is nearly normal, with variance 1 and mean 6.
                let sum: f64 = (0..12).map(|_| random()).sum();
                mean.as_secs_f64() + (sum - 6.0) * deviation.as_secs_f64()
            }
        };
        Duration::from_secs_f64(seconds.clamp(0.0, LATENCY_MAX.as_secs_f64()))
    }
}

/// The fault that was drawn for one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    latency: Option<Duration>,
    effect: Option<Effect>,
}

impl Fault {
    /// The abnormal end of the response; `None` if it ends as usual.
    pub fn ending(&self) -> Option<Ending> {
        match self.effect {
            Some(Effect::Reset | Effect::LoseAnswer) => Some(Ending::Reset),
            Some(Effect::CutBody(bytes)) => Some(Ending::Cut(bytes)),
            Some(Effect::Error { .. }) | None => None,
        }
    }

    /// Waits for the latency. Then refuses the request if its operation must not run.
    pub async fn strike(&self) -> Result<()> {
        if let Some(latency) = self.latency {
            tokio::time::sleep(latency).await;
        }
        match self.effect {
            Some(Effect::Error {
                status,
                code,
                message,
                retry_after,
            }) => {
                let mark = HeaderValue::from_static("injected");
                let failure = Failure::new(status, code, message);
                let failure = failure.with_header(HeaderName::from_static(HEADER), mark);
                Err(match retry_after {
                    Some(seconds) => failure.with_header(RETRY_AFTER, seconds.into()),
                    None => failure,
                })
            }
            // Only for the logs: the connection is reset, so the client does not receive it.
            Some(Effect::Reset) => Err(Failure::new(500, "InternalError", MESSAGE_INTERNAL)),
            Some(Effect::CutBody(_) | Effect::LoseAnswer) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str) -> Fault {
        let mut numbers = (0..).map(|number| f64::from(number % 10) / 10.0);
        Kind::parse(text)
            .unwrap()
            .draw(&mut || numbers.next().unwrap())
    }

    #[test]
    fn faults_are_read_from_their_words() {
        let busy = drawn("503; retry-after=2");
        assert_eq!(busy, drawn("retry-after=2;503 ServerBusy"));
        assert_eq!(drawn("500"), drawn("500 InternalError"));
        assert_ne!(drawn("500"), drawn("500 OperationTimedOut"));
        let slow = drawn("latency=200ms; reset");
        assert_eq!(slow.latency, Some(Duration::from_millis(200)));
        assert_eq!(slow.ending(), Some(Ending::Reset));
        assert_eq!(drawn("lose-answer").ending(), Some(Ending::Reset));
        assert_eq!(drawn("cut-body").ending(), Some(Ending::Cut(None)));
        assert_eq!(drawn("cut-body=7").ending(), Some(Ending::Cut(Some(7))));
        assert_eq!(drawn("latency=1s").ending(), None);
    }

    #[test]
    fn other_words_are_refused_with_a_reason() {
        for (text, reason) in [
            ("", "no fault"),
            ("429", "never answers 429"),
            ("409", "can be injected"),
            ("412 ConditionNotMet", "can be injected"),
            ("503 InternalError", "can be injected"),
            ("200", "can be injected"),
            ("503; 500", "excludes"),
            ("503; reset", "excludes"),
            ("reset; retry-after=1", "belongs to a 503"),
            ("500; retry-after=1", "belongs to a 503"),
            ("503; retry-after=soon", "retry-after"),
            ("503; retry-after=3601", "retry-after"),
            ("latency=61s", "latency"),
            ("latency=2s..1s", "latency"),
            ("latency=normal(1s)", "latency"),
            ("latency=fast", "latency"),
            ("latency", "no fault"),
            ("cut-body=half", "cut-body"),
            ("reset=1", "no fault"),
            ("explode", "no fault"),
        ] {
            let refused = Kind::parse(text).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }

    #[test]
    fn latencies_stay_within_their_bounds() {
        let mut state = 1_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let milliseconds = |text: &str, random: &mut dyn FnMut() -> f64| {
            let kind = Kind::parse(text).unwrap();
            let draws =
                (0..1000).map(|_| kind.draw(random).latency.unwrap().as_secs_f64() * 1000.0);
            draws.collect::<Vec<_>>()
        };
        let uniform = milliseconds("latency=100ms..200ms", &mut random);
        assert!(uniform.iter().all(|time| (100.0..=200.0).contains(time)));
        assert!(uniform.iter().any(|time| *time < 120.0));
        assert!(uniform.iter().any(|time| *time > 180.0));
        let normal = milliseconds("latency=normal(100ms, 20ms)", &mut random);
        let mean = normal.iter().sum::<f64>() / 1000.0;
        assert!((95.0..105.0).contains(&mean), "{mean}");
        let wide = milliseconds("latency=normal(1s, 60s)", &mut random);
        assert!(wide.iter().all(|time| (0.0..=60_000.0).contains(time)));
    }
}
