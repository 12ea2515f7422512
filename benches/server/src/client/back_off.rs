//! Repeats a request while the server is busy, as the SDKs' clients for tables do by default: three
//! times at most. Each repetition waits for the time that the server names, or else for 0.8 s,
//! doubled each time. Source: azure-core for Python, `RetryPolicy`; azure-data-tables,
//! `TablesRetryPolicy`.

use std::time::Duration;

use crate::client::error::Error;

/// Maximum number of repetitions of a request.
const REPETITIONS_MAX: u32 = 3;
/// The first wait if the server names none.
const WAIT_FIRST: Duration = Duration::from_millis(800);

/// The repetitions of one request.
#[derive(Default)]
pub(super) struct BackOff {
    repetitions: u32,
}

impl BackOff {
    /// The wait before the next repetition; `None` if the answer is to be taken as it is.
    pub(super) fn wait_after<T>(&mut self, answer: &Result<T, Error>) -> Option<Duration> {
        let Err(Error::Refused {
            status: 503,
            retry_after,
            ..
        }) = answer
        else {
            return None;
        };
        if self.repetitions == REPETITIONS_MAX {
            return None;
        }
        let doubled = WAIT_FIRST * 2_u32.pow(self.repetitions);
        self.repetitions += 1;
        Some(retry_after.map_or(doubled, Duration::from_secs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, retry_after: Option<u64>) -> Result<(), Error> {
        Err(Error::Refused {
            operation: "GET".into(),
            status,
            code: String::new(),
            message: String::new(),
            retry_after,
        })
    }

    #[test]
    fn busy_server_is_asked_again_three_times_with_longer_waits() {
        let mut back_off = BackOff::default();
        let busy = refused(503, None);
        let waits: Vec<_> = (0..4).map(|_| back_off.wait_after(&busy)).collect();
        let millis = |millis| Some(Duration::from_millis(millis));
        assert_eq!(waits, [millis(800), millis(1600), millis(3200), None]);
    }

    #[test]
    fn wait_that_the_server_names_comes_first_and_other_refusals_stand() {
        let mut back_off = BackOff::default();
        let two = Duration::from_secs(2);
        assert_eq!(back_off.wait_after(&refused(503, Some(2))), Some(two));
        assert_eq!(back_off.wait_after(&refused(412, None)), None);
        assert_eq!(back_off.wait_after(&Ok(())), None);
    }
}
