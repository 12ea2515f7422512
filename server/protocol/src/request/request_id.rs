//! The ids of requests, for responses and logs.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// One counter per thread, up to this many threads: a single counter would move from processor to
/// processor with each request.
const COUNTERS: usize = 16;

thread_local! {
    static COUNTER: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed) % COUNTERS
    };
}

/// A counter on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

/// Makes ids that look like those of the hosted service and never repeat in a process.
#[derive(Debug)]
pub struct RequestIds {
    /// All of an id except its last twelve digits.
    prefix: String,
    counters: [Counter; COUNTERS],
}

impl RequestIds {
    pub fn new(seed: u128) -> RequestIds {
        let (high, low) = ((seed >> 32) as u32, seed as u32);
        RequestIds {
            prefix: format!(
                "{high:08x}-{:04x}-{:04x}-{:04x}-",
                low >> 16,
                low & 0xffff,
                (low >> 8) & 0xffff
            ),
            counters: Default::default(),
        }
    }

    pub fn next(&self) -> String {
        let counter = COUNTER.with(|counter| *counter);
        let before = self.counters[counter].0.fetch_add(1, Ordering::Relaxed);
        let count = before * COUNTERS as u64 + counter as u64 + 1;
        let mut id = String::with_capacity(36);
        id.push_str(&self.prefix);
        for digit in (0..12).rev() {
            let digit = (count >> (4 * digit)) as usize & 0xf;
            id.push(char::from(b"0123456789abcdef"[digit]));
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_of_all_threads_differ_and_have_the_form_of_a_guid() {
        let ids = RequestIds::new(0x1234_5678_9abc_def0);
        let one = |_: usize| ids.next();
        let all: HashSet<String> = std::thread::scope(|scope| {
            let run = || (0..300).map(one).collect::<Vec<_>>();
            // More threads than counters, so that some share one.
            let threads: Vec<_> = (0..COUNTERS + 2).map(|_| scope.spawn(run)).collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(all.len(), 300 * (COUNTERS + 2));
        for id in &all {
            let parts: Vec<_> = id.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12], "{id}");
            assert!(id.starts_with("12345678-9abc-def0-bcde-0000"), "{id}");
            assert!(
                id.bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-')),
                "{id}"
            );
        }
    }
}
