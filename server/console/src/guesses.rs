//! Counts wrong passwords, and delays the refusals of clients that guess.

use axum::http::header::{HeaderValue, RETRY_AFTER};
use lazurite_base::locks::lock;
use lazurite_protocol::response::error::{Failure, Result};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Number of wrong passwords per minute that are not delayed.
const FREE_FAILURES: u32 = 10;
/// The delay that each further wrong password adds.
const GUESS_DELAY: Duration = Duration::from_millis(500);
/// Maximum number of refusals of one client that wait at the same time.
const WAITING_MAX: u32 = 8;
/// Maximum number of clients that are counted separately. The others are counted together.
const GUESSERS_MAX: usize = 1024;
const MINUTE: Duration = Duration::from_secs(60);

/// Slows down clients that guess the password. A few wrong passwords a minute cost nothing; after
/// these, a client's refusals are delayed, one after the other. The right password never waits.
#[derive(Debug, Default)]
pub struct Guesses(Mutex<HashMap<Option<IpAddr>, Guesser>>);

#[derive(Debug)]
struct Guesser {
    /// The beginning of the minute in which wrong passwords are counted.
    since: Instant,
    wrong: u32,
    /// When the latest refusal is due.
    due: Instant,
}

impl Guesses {
    /// Waits until this client's wrong password may be refused. Errors: `429` if too many of its
    /// requests wait already.
    pub async fn delay(&self, client: IpAddr) -> Result<()> {
        let Some(due) = self.count(network(client), Instant::now()) else {
            let message = "Too many wrong passwords were tried. Wait for a moment.";
            let retry = HeaderValue::from_static("1");
            return Err(
                Failure::new(429, "TooManyAttempts", message).with_header(RETRY_AFTER, retry)
            );
        };
        tokio::time::sleep_until(due.into()).await;
        Ok(())
    }

    /// Counts a wrong password. Returns when the refusal is due; `None` if too many wait.
    fn count(&self, client: IpAddr, now: Instant) -> Option<Instant> {
        let mut guessers = lock(&self.0);
        guessers.retain(|_, guesser| now < guesser.since + MINUTE);
        let is_counted = guessers.len() < GUESSERS_MAX || guessers.contains_key(&Some(client));
        let guesser = guessers
            .entry(is_counted.then_some(client))
            .or_insert(Guesser {
                since: now,
                wrong: 0,
                due: now,
            });
        guesser.wrong = guesser.wrong.saturating_add(1);
        if guesser.wrong <= FREE_FAILURES {
            return Some(now);
        }
        let due = guesser.due.max(now) + GUESS_DELAY;
        if due > now + GUESS_DELAY * WAITING_MAX {
            return None;
        }
        guesser.due = due;
        Some(due)
    }
}

/// The part of an address that identifies a client: an IPv6 client can use a whole /64 network.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => {
            let prefix = u128::from(address) >> 64 << 64;
            IpAddr::V6(prefix.into())
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_passwords_wait_by_client_and_one_client_does_not_wait_for_another() {
        let guesses = Guesses::default();
        let now = Instant::now();
        let of = |last: u8| IpAddr::from([10, 0, 0, last]);
        for _ in 0..FREE_FAILURES {
            assert_eq!(guesses.count(of(1), now), Some(now));
        }
        for place in 1..=WAITING_MAX {
            let due = now + GUESS_DELAY * place;
            assert_eq!(guesses.count(of(1), now), Some(due));
        }
        assert_eq!(guesses.count(of(1), now), None);
        assert_eq!(guesses.count(of(2), now), Some(now));
        let later = now + GUESS_DELAY;
        assert_eq!(
            guesses.count(of(1), later),
            Some(later + GUESS_DELAY * WAITING_MAX)
        );
        let next_minute = now + MINUTE;
        assert_eq!(guesses.count(of(1), next_minute), Some(next_minute));
    }

    #[test]
    fn clients_beyond_those_that_are_counted_are_counted_as_one() {
        let guesses = Guesses::default();
        let now = Instant::now();
        let of = |number: u32| IpAddr::from(number.to_be_bytes());
        for number in 0..GUESSERS_MAX as u32 {
            guesses.count(of(number), now);
        }
        let others = GUESSERS_MAX as u32..;
        let free = others
            .take(100)
            .filter(|number| guesses.count(of(*number), now) == Some(now));
        assert_eq!(free.count(), FREE_FAILURES as usize);
        assert_eq!(guesses.0.lock().unwrap().len(), GUESSERS_MAX + 1);
        let network_of = |text: &str| network(text.parse().unwrap());
        assert_eq!(network_of("2001:db8::1"), network_of("2001:db8::2:3"));
        assert_eq!(network_of("::ffff:10.0.0.1"), of(0x0a00_0001));
    }
}
