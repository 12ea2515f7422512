//! Visibility and expiry of messages: checks the numbers of a request and turns them into times.
//!
//! A message is visible at `now` if `visible_at <= now < expires_at`. Put fixes the expiry; no
//! later operation changes it.

use crate::model::*;
use crate::{Error, Result};
use lazurite_base::ticks::Ticks;

const VISIBILITY_PARAMETER: &str = "visibilitytimeout";

/// The checked timeouts of Put Message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lifetime {
    pub(crate) hidden_seconds: u64,
    /// Lifetime in seconds; `None`: never expires.
    ttl_seconds: Option<u64>,
}

impl Lifetime {
    /// When a message put at `now` ceases to exist.
    pub(crate) fn expires_at(self, now: Ticks) -> Ticks {
        self.ttl_seconds
            .map_or(Ticks::NEVER, |seconds| now.plus_seconds(seconds))
    }
}

/// Checks the timeouts of a new message. Source: Put Message, "URI parameters".
pub(crate) fn lifetime_of_new_message(request: &PutMessage<'_>) -> Result<Lifetime> {
    let hidden_seconds = visibility_seconds(request.visibility_seconds.unwrap_or(0), 0)?;
    let ttl = request.ttl_seconds.unwrap_or(MESSAGE_TTL_SECONDS_DEFAULT);
    let ttl_seconds = match u64::try_from(ttl) {
        Ok(seconds @ 1..) => Some(seconds),
        Err(_) if ttl == -1 => None,
        _ => {
            return Err(Error::InvalidQueryParameterValue {
                name: "messagettl",
                value: ttl.to_string(),
                reason: "The time to live must be -1 or a positive number of seconds.",
            });
        }
    };
    if ttl_seconds.is_some_and(|ttl| hidden_seconds >= ttl) {
        return Err(Error::InvalidQueryParameterValue {
            name: VISIBILITY_PARAMETER,
            value: hidden_seconds.to_string(),
            reason: "The visibility timeout must be less than the time to live.",
        });
    }
    Ok(Lifetime {
        hidden_seconds,
        ttl_seconds,
    })
}

/// Returns how long Get Messages hides the messages it returns, possibly beyond their expiry.
/// Source: Get Messages, "URI parameters".
pub(crate) fn seconds_hidden_by_get(request: &GetMessages) -> Result<u64> {
    visibility_seconds(
        request
            .visibility_seconds
            .unwrap_or(VISIBILITY_SECONDS_DEFAULT),
        1,
    )
}

/// When Update Message makes a message visible again. Source: Update Message, "URI parameters".
pub(crate) fn visible_after_update(seconds: u64, expires_at: Ticks, now: Ticks) -> Result<Ticks> {
    let visible_at = now.plus_seconds(seconds);
    if visible_at > expires_at {
        return Err(Error::InvalidQueryParameterValue {
            name: VISIBILITY_PARAMETER,
            value: seconds.to_string(),
            reason: "The message would become visible only after its expiry.",
        });
    }
    Ok(visible_at)
}

/// Checks the range of a visibility timeout.
pub(crate) fn visibility_seconds(seconds: i64, minimum: i64) -> Result<u64> {
    in_range(
        VISIBILITY_PARAMETER,
        seconds,
        minimum,
        VISIBILITY_SECONDS_MAX,
    )
}

/// Maximum number of messages that Get or Peek returns. Source: Get Messages, "URI parameters".
pub(crate) fn message_count(count: Option<i64>) -> Result<usize> {
    let count = in_range("numofmessages", count.unwrap_or(1), 1, MESSAGES_PER_GET_MAX)?;
    Ok(count as usize)
}

/// Returns `value` if it lies in `minimum..=maximum`; `minimum` is at least 0.
pub(crate) fn in_range(name: &'static str, value: i64, minimum: i64, maximum: i64) -> Result<u64> {
    let out_of_range = Error::OutOfRangeQueryParameterValue {
        name,
        value,
        minimum,
        maximum,
    };
    if (minimum..=maximum).contains(&value) {
        u64::try_from(value).map_err(|_| out_of_range)
    } else {
        Err(out_of_range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Ticks = Ticks(1_000_000_000);

    fn put(ttl: Option<i64>, visibility: Option<i64>) -> Result<Lifetime> {
        let request = PutMessage {
            text: "",
            ttl_seconds: ttl,
            visibility_seconds: visibility,
            ..PutMessage::default()
        };
        lifetime_of_new_message(&request)
    }

    #[test]
    fn new_message_by_default_expires_after_seven_days_and_is_visible_at_once() {
        let lifetime = put(None, None).unwrap();
        assert_eq!(lifetime.hidden_seconds, 0);
        assert_eq!(lifetime.expires_at(NOW), NOW.plus_seconds(604_800));
    }

    #[test]
    fn time_to_live_is_positive_or_minus_one() {
        for endless in [-1, i64::MAX] {
            let lifetime = put(Some(endless), None).unwrap();
            assert_eq!(lifetime.expires_at(NOW), Ticks::NEVER);
        }
        assert!(put(Some(1), None).is_ok());
        for ttl in [0, -2, i64::MIN] {
            assert!(matches!(
                put(Some(ttl), None),
                Err(Error::InvalidQueryParameterValue { name: "messagettl", value, .. }) if value == ttl.to_string()
            ));
        }
    }

    #[test]
    fn visibility_of_put_is_zero_to_seven_days_and_less_than_the_time_to_live() {
        assert!(put(Some(-1), Some(604_800)).is_ok());
        assert!(put(Some(11), Some(10)).is_ok());
        assert!(matches!(
            put(None, Some(604_800)),
            Err(Error::InvalidQueryParameterValue { .. })
        ));
        assert!(matches!(
            put(Some(10), Some(10)),
            Err(Error::InvalidQueryParameterValue { .. })
        ));
        for visibility in [-1, 604_801, i64::MAX] {
            assert!(matches!(
                put(Some(-1), Some(visibility)),
                Err(Error::OutOfRangeQueryParameterValue {
                    minimum: 0,
                    maximum: 604_800,
                    ..
                })
            ));
        }
    }

    #[test]
    fn visibility_of_get_starts_at_one_second() {
        let get = |visibility| {
            seconds_hidden_by_get(&GetMessages {
                count: None,
                visibility_seconds: visibility,
            })
        };
        assert_eq!(get(None).unwrap(), 30);
        assert_eq!(get(Some(604_800)).unwrap(), 604_800);
        assert!(matches!(
            get(Some(0)),
            Err(Error::OutOfRangeQueryParameterValue { minimum: 1, .. })
        ));
    }

    #[test]
    fn update_may_hide_a_message_until_its_expiry_but_not_longer() {
        let expires_at = NOW.plus_seconds(60);
        assert_eq!(
            visible_after_update(60, expires_at, NOW).unwrap(),
            expires_at
        );
        assert!(visible_after_update(61, expires_at, NOW).is_err());
        assert!(visible_after_update(60, expires_at, Ticks(NOW.0 + 1)).is_err());
    }

    #[test]
    fn get_and_peek_return_1_to_32_messages() {
        assert_eq!(message_count(None).unwrap(), 1);
        assert_eq!(message_count(Some(32)).unwrap(), 32);
        for count in [0, -1, 33] {
            assert!(matches!(
                message_count(Some(count)),
                Err(Error::OutOfRangeQueryParameterValue {
                    minimum: 1,
                    maximum: 32,
                    ..
                })
            ));
        }
    }
}
