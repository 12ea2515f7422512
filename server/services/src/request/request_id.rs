//! The names that answers and logs have for requests.

use std::sync::atomic::{AtomicU64, Ordering};

/// Ids that look like the service's and never repeat in a process's life.
#[derive(Debug)]
pub struct RequestIds {
    /// All but the last twelve digits.
    prefix: String,
    count: AtomicU64,
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
            count: AtomicU64::new(1),
        }
    }

    pub fn next(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let mut id = String::with_capacity(36);
        id.push_str(&self.prefix);
        for digit in (0..12).rev() {
            let digit = (count >> (4 * digit)) as usize & 0xf;
            id.push(char::from(b"0123456789abcdef"[digit]));
        }
        id
    }
}
