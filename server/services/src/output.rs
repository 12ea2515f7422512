//! Standard output, standard error and the log of `--debug`. Each has its own writing thread, so
//! that no request waits for a reader.
//!
//! Many programs start the server with pipes that they never read: with Python's `PIPE`, or by
//! default in Node and in Java. Lines that are written faster than they are read are dropped, and a
//! line with their number follows once there is room.

use crate::platform;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Maximum number of lines that wait to be written. Further ones are dropped and counted.
const LINES_WAITING_MAX: usize = 16 * 1024;
/// How long a line waits for others, so that they are written together.
const GATHER: Duration = Duration::from_millis(5);
/// Maximum time to wait until an output has written its last lines.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);
/// Pause between attempts to queue the end of an output while the queue is full.
const CLOSE_STEP: Duration = Duration::from_millis(10);

enum Message {
    Text(Vec<u8>),
    End,
}

/// Queues text for an output. Never blocks: when the queue is full, text is dropped.
#[derive(Debug, Clone)]
pub struct LineWriter {
    messages: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

/// An output with a thread that writes queued text until `close`.
#[derive(Debug)]
pub struct Output {
    writer: LineWriter,
    ended: Receiver<()>,
}

impl Output {
    /// Writes to `sink` on its own thread. `name` appears in the message about dropped lines.
    pub fn start(name: &'static str, sink: impl Write + Send + 'static) -> io::Result<Output> {
        let (messages, received) = sync_channel(LINES_WAITING_MAX);
        let (end, ended) = sync_channel(1);
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = dropped.clone();
        let run = move || {
            write_all(name, sink, &received, &lost);
            let _ = end.try_send(());
        };
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(run)?;
        Ok(Output {
            writer: LineWriter { messages, dropped },
            ended,
        })
    }

    /// Standard output without the lock and the buffer of the standard library, whose waits cannot
    /// be interrupted.
    pub fn stdout() -> io::Result<Output> {
        Output::start("standard output", platform::standard_output()?)
    }

    /// An output to standard error, on its own thread.
    pub fn stderr() -> io::Result<Output> {
        Output::start("standard error", platform::standard_error()?)
    }

    pub fn writer(&self) -> LineWriter {
        self.writer.clone()
    }

    /// Ends the output after its queued lines, waiting at most a second. Later lines are dropped.
    pub fn close(self) {
        let deadline = Instant::now() + CLOSE_PATIENCE;
        while let Err(TrySendError::Full(_)) = self.writer.messages.try_send(Message::End) {
            if Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(CLOSE_STEP);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        match self.ended.recv_timeout(left) {
            Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}

/// True if standard output is a terminal whose user has not switched colours off. Source:
/// no-color.org.
pub fn shows_colour() -> bool {
    let is_switched_off = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !is_switched_off
}

/// Writes a line to standard error and waits until it is written, for at most a second: a full pipe
/// without a reader would otherwise hold up the program. For the main thread, whose lines must
/// appear in order.
pub fn say(text: impl Into<String>) {
    // Without a writing thread the wait would have no bound, so the line is dropped.
    if let Ok(output) = Output::stderr() {
        output.writer().line(text.into());
        output.close();
    }
}

impl LineWriter {
    /// Queues text that ends in a line feed. If the queue is full, drops the text and counts it.
    pub fn text(&self, text: Vec<u8>) {
        if self.messages.try_send(Message::Text(text)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn line(&self, mut line: String) {
        line.push('\n');
        self.text(line.into_bytes());
    }
}

/// For the log's formatter, which writes each event with one call.
impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_all(name: &str, sink: impl Write, messages: &Receiver<Message>, dropped: &AtomicU64) {
    let mut out = io::BufWriter::new(sink);
    let mut ended = false;
    while !ended && let Ok(first) = messages.recv() {
        std::thread::sleep(GATHER);
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                // Ignored: requests are served even if the output is closed or its disk is full.
                Message::Text(text) => drop(out.write_all(&text)),
                Message::End => {
                    ended = true;
                    break;
                }
            }
            next = messages.try_recv().ok();
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(out, "({lost} lines were dropped: {name} is too slow)");
        }
        let _ = out.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    /// A sink in which each write waits for a permit.
    struct Stuck(Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn stuck() -> (Output, std::sync::mpsc::Sender<()>, Arc<Mutex<Vec<u8>>>) {
        let (permit, permits) = channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let output = Output::start("a test", Stuck(permits, written.clone())).unwrap();
        (output, permit, written)
    }

    #[test]
    fn unread_output_never_blocks_a_writer() {
        let (output, permit, written) = stuck();
        let writer = output.writer();
        let count = 4 * LINES_WAITING_MAX;
        for number in 0..count {
            writer.line(format!("line {number}"));
        }
        let began = Instant::now();
        output.close();
        assert!(began.elapsed() < 10 * CLOSE_PATIENCE);
        // Once the sink is unblocked, a line gives the number of dropped lines.
        drop(permit);
        let deadline = Instant::now() + 20 * CLOSE_PATIENCE;
        let text = || String::from_utf8(written.lock().unwrap().clone()).unwrap();
        while !text().contains("lines were dropped: a test is too slow") {
            assert!(Instant::now() < deadline, "{}", text().len());
            std::thread::sleep(CLOSE_STEP);
        }
        assert!(text().lines().count() < count);
    }

    /// `End` may fit into the queue after the last line although lines before it were dropped.
    #[test]
    fn dropped_lines_are_counted_before_the_output_ends() {
        let (messages, received) = sync_channel(LINES_WAITING_MAX);
        messages
            .send(Message::Text(b"the last line\n".to_vec()))
            .unwrap();
        messages.send(Message::End).unwrap();
        let mut written = Vec::new();
        write_all("a test", &mut written, &received, &AtomicU64::new(3));
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "the last line\n(3 lines were dropped: a test is too slow)\n"
        );
    }

    #[test]
    fn accepted_lines_are_written_before_the_output_ends() {
        let (output, permit, written) = stuck();
        drop(permit);
        let writer = output.writer();
        (0..1000).for_each(|number| writer.line(format!("line {number}")));
        // A line queued after `End` does not keep the thread alive.
        let late = output.writer();
        output.close();
        late.line("late".to_owned());
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1000);
        assert!(text.ends_with("line 999\n"));
    }
}
