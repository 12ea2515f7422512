//! The minimal handler: an axum handler that only reads the body and sends an answer of the size
//! that it was taught. No service on this stack can be cheaper. Runs in a process of its own, so
//! that its CPU time is its own.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, RwLock};
use std::thread;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use axum::routing::put;
use axum::serve::ListenerExt;
use http_body_util::BodyExt;

use lazurite_bench_common::Outcome;

use crate::client::Account;
use crate::load::Sample;
use lazurite_bench_common::process::Process;

/// Where answers are taught; no account has this name.
const LESSON: &str = "/_answer";
/// Pads the head of the answer.
const FILL: HeaderName = HeaderName::from_static("x-fill");
/// Bytes of the head without filling: the status line, date, length and the frame of the filling
/// header.
const HEAD_BYTES: usize = 90;

/// A running handler, ended when dropped.
pub(super) struct MinimalHandler {
    child: Child,
    /// The child ends when this is closed, also if we are killed.
    _stdin: Option<ChildStdin>,
    port: u16,
}

impl MinimalHandler {
    /// Starts the child and waits until it listens.
    pub(super) fn start() -> Outcome<MinimalHandler> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("minimal-handler")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child
            .stdout
            .take()
            .ok_or("the minimal handler has no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let port = line.trim().parse();
        Ok(MinimalHandler {
            child,
            _stdin: stdin,
            port: port.map_err(|_| format!("the minimal handler printed {line:?}"))?,
        })
    }

    /// The development account, all of whose services are the handler.
    pub(super) fn account(&self) -> Account {
        Account::development(self.port, self.port, self.port)
    }

    pub(super) fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Teaches it to answer requests of the method of `sample` with as many bytes in head and body,
    /// and the same status.
    pub(super) fn teach(&self, sample: &Sample) -> Outcome<()> {
        let answer = &sample.answer;
        ureq::put(format!("http://127.0.0.1:{}{LESSON}", self.port))
            .header("x-method", &sample.method)
            .header("x-status", answer.status.to_string())
            .header("x-head-bytes", answer.head_bytes.to_string())
            .send(&answer.body[..])?;
        Ok(())
    }
}

impl Drop for MinimalHandler {
    fn drop(&mut self) {
        // An error means that the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child: prints its port and serves until its standard input is closed.
pub(crate) fn run() -> Outcome<usize> {
    thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0)
    });
    tokio::runtime::Runtime::new()?.block_on(serve())?;
    Ok(0)
}

type Lessons = Arc<RwLock<HashMap<Method, Lesson>>>;

/// An answer that was taught.
#[derive(Clone)]
struct Lesson {
    status: StatusCode,
    fill: HeaderValue,
    body: Bytes,
}

async fn serve() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let listener = listener.tap_io(|socket| {
        // As the server does; without it small answers wait.
        let _ = socket.set_nodelay(true);
    });
    let router = Router::new()
        .route(LESSON, put(learn))
        .layer(DefaultBodyLimit::disable())
        .fallback(answer)
        .with_state(Lessons::default());
    axum::serve(listener, router).await
}

async fn learn(State(lessons): State<Lessons>, headers: HeaderMap, body: Bytes) -> StatusCode {
    match lesson(&headers, body) {
        Some((method, lesson)) => {
            lessons.write().unwrap().insert(method, lesson);
            StatusCode::NO_CONTENT
        }
        None => StatusCode::BAD_REQUEST,
    }
}

fn lesson(headers: &HeaderMap, body: Bytes) -> Option<(Method, Lesson)> {
    let text = |name| headers.get(name)?.to_str().ok();
    let head_bytes: usize = text("x-head-bytes")?.parse().ok()?;
    let fill = "x".repeat(head_bytes.saturating_sub(HEAD_BYTES).max(1));
    let lesson = Lesson {
        status: text("x-status")?.parse().ok()?,
        fill: HeaderValue::from_str(&fill).ok()?,
        body,
    };
    Some((text("x-method")?.parse().ok()?, lesson))
}

/// All that the handler does.
async fn answer(State(lessons): State<Lessons>, request: Request<Body>) -> Response<Body> {
    let (parts, mut body) = request.into_parts();
    while let Some(Ok(_)) = body.frame().await {}
    let lesson = lessons.read().unwrap().get(&parts.method).cloned();
    let Some(lesson) = lesson else {
        return Response::builder()
            .status(404)
            .body(Body::empty())
            .expect("a status is valid");
    };
    let mut answer = Response::new(Body::from(lesson.body));
    *answer.status_mut() = lesson.status;
    answer.headers_mut().insert(FILL, lesson.fill);
    answer
}
