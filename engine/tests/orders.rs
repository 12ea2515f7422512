//! Runs `empty_spans.rs` in every order of its steps that the memory model allows (loom): a span
//! that a scan explored never hides a put that was applied during the exploration.

/// The parts of the engine that `empty_spans.rs` uses, with loom's locks and atomics.
mod base {
    pub mod key {
        pub type SequenceNumber = u64;
    }
    pub mod sync {
        pub use loom::sync::Mutex;
        pub use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
    }
    pub mod mutex {
        pub fn lock<T>(mutex: &loom::sync::Mutex<T>) -> loom::sync::MutexGuard<'_, T> {
            mutex.lock().unwrap()
        }
    }
}

#[path = "../src/tree/empty_spans.rs"]
#[allow(dead_code, reason = "tests use a part of it")]
mod empty_spans;

use empty_spans::EmptySpans;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

fn main() {
    // A panic on a stack of loom aborts under Wine 8. Wine first calls the exception handlers of
    // the thread's own stack if that lies at lower addresses, and one of them ends the search.
    if cfg!(all(windows, target_env = "gnu")) {
        println!("not run: Wine 8 aborts a panic on a stack of loom");
        return;
    }
    loom::model(|| {
        let spans = Arc::new(EmptySpans::default());
        let published = Arc::new(AtomicU64::new(1));
        let writer = {
            let (spans, published) = (spans.clone(), published.clone());
            thread::spawn(move || {
                spans.begin_puts(2);
                spans.note_put(b"m");
                published.store(2, Ordering::Release);
            })
        };
        let at = published.load(Ordering::Acquire);
        if let Some(scan) = spans.explore(b"a", at) {
            // At sequence number 1 the scan sees no row, whatever the memtable holds by now.
            let live: &[u8] = if at == 2 { b"m" } else { b"z" };
            spans.settle(scan, Some(live));
        }
        writer.join().unwrap();
        let end = spans.end_around(b"a", 2);
        assert!(
            end.is_none_or(|end| end.as_slice() <= b"m".as_slice()),
            "a put is hidden"
        );
    });
    println!("a put is never hidden by a span that a scan explores meanwhile: ok");
}
