//! The list of observers. Passes them the facts of each exchange, up to its end.
//!
//! To add an observer, implement [`Observer`] in a file of the feature, and add a line to the list.

use crate::access_log::AccessLogLine;
use crate::advisor::Watched;
use crate::analytics::{Analytics, Entry};
use crate::connection::Aborted;
use crate::observer::{Answer, End, ExchangeFacts, HowEnded, Observer, Routing, content_length};
use crate::request::body::Reception;
use crate::requests::RequestUnderWay;
use crate::state::{Shared, Store};
use axum::body::Body;
use axum::http::Method;
use axum::http::header::HeaderMap;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use lazurite_protocol::auth::Caller;
use lazurite_protocol::properties::ServiceProperties;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Defines the observers. Each has a line: name, type of its state for an exchange, and sink.
macro_rules! observers {
    ($sinks:ident: $($name:ident: $observer:ty => $sink:expr,)*) => {
        /// The observers of one exchange; `None` for those that do not observe it.
        #[derive(Default)]
        pub struct Observers {
            $(pub $name: Option<$observer>,)*
        }

        impl Observers {
            /// Called with the head of a request.
            pub fn begin(store: &Store, facts: &ExchangeFacts, headers: &HeaderMap) -> Observers {
                let $sinks = Sinks::of(store);
                Observers {
                    $($name: <$observer>::begun(&$sink, facts, headers),)*
                }
            }

            /// Called once the operation is known.
            pub fn route(
                &mut self,
                store: &Store,
                facts: &ExchangeFacts,
                routing: &Routing<'_>,
                properties: &ServiceProperties,
            ) {
                let $sinks = Sinks::of(store);
                $(if self.$name.is_none() {
                    self.$name = <$observer>::routed(&$sink, facts, routing, properties);
                })*
            }

            /// Called once the caller is known.
            pub fn authenticate(
                &mut self,
                store: &Store,
                facts: &ExchangeFacts,
                routing: &Routing<'_>,
                caller: &Caller,
            ) {
                let $sinks = Sinks::of(store);
                $(let this = self.$name.take();
                self.$name = <$observer>::authenticated(this, &$sink, facts, routing, caller);)*
            }

            /// Drops observers that do not want to see the end. Returns whether any is left.
            fn answer(&mut self, $sinks: Sinks<'_>, facts: &ExchangeFacts, answer: &mut Answer) -> bool {
                $(if let Some(observer) = &mut self.$name && !observer.answered(&$sink, facts, answer) {
                    self.$name = None;
                })*
                false $(|| self.$name.is_some())*
            }

            fn sent(&mut self, data: &[u8]) {
                $(if let Some(observer) = &mut self.$name {
                    observer.sent(data);
                })*
            }

            fn end(self, $sinks: Sinks<'_>, facts: &ExchangeFacts, end: &End) {
                $(if let Some(observer) = self.$name {
                    observer.ended(&$sink, facts, end);
                })*
            }
        }
    };
}

observers! { sinks:
    analytics: Box<Entry> => *sinks.analytics,
    advisor: Box<Watched> => *sinks.shared.advisor,
    access_log: AccessLogLine => sinks.shared.access_log,
    requests: RequestUnderWay => *sinks.shared.requests,
}

/// The sinks of the observers: those of the process and those of the exchange's store.
#[derive(Clone, Copy)]
struct Sinks<'a> {
    shared: &'a Arc<Shared>,
    analytics: &'a Arc<Analytics>,
}

impl<'a> Sinks<'a> {
    fn of(store: &'a Store) -> Sinks<'a> {
        Sinks {
            shared: &store.shared,
            analytics: &store.analytics,
        }
    }
}

impl Observers {
    /// Follows an answer to its end. An answer without a body has ended with its head. Otherwise
    /// the body is wrapped to report its end, if an observer wants to see it.
    pub fn follow(
        mut self,
        store: &Store,
        mut facts: ExchangeFacts,
        reception: Arc<Reception>,
        mut answer: Answer,
    ) -> Answer {
        facts.status = answer.status();
        facts.answered_after = facts.started.elapsed();
        let sinks = Sinks::of(store);
        if !self.answer(sinks, &facts, &mut answer) {
            return answer;
        }
        let is_lost = answer.extensions().get::<Aborted>().is_some();
        if is_lost || facts.method == Method::HEAD || answer.body().is_end_stream() {
            let end = End {
                received: reception.bytes(),
                sent: 0,
                took: facts.answered_after,
                how: if is_lost {
                    HowEnded::BrokenOff
                } else {
                    HowEnded::Whole
                },
            };
            self.end(sinks, &facts, &end);
            return answer;
        }
        let length = answer.body().size_hint().exact();
        let length = length.or_else(|| content_length(answer.headers()));
        let watch = Watch {
            observers: self,
            facts,
            reception,
            shared: sinks.shared.clone(),
            analytics: sinks.analytics.clone(),
        };
        answer.map(|body| {
            Body::new(WatchedBody {
                body,
                length,
                sent: 0,
                watch: Some(watch),
            })
        })
    }

    /// Called if the client disconnects before there is a response.
    pub fn abandon(self, store: &Store, facts: &ExchangeFacts, reception: &Reception) {
        let end = End {
            received: reception.bytes(),
            sent: 0,
            took: facts.started.elapsed(),
            how: HowEnded::Disconnected,
        };
        self.end(Sinks::of(store), facts, &end);
    }
}

/// The observers of an exchange whose response is being sent.
struct Watch {
    observers: Observers,
    facts: ExchangeFacts,
    reception: Arc<Reception>,
    shared: Arc<Shared>,
    analytics: Arc<Analytics>,
}

/// The body of a response. Counts the bytes that are sent, and reports the end to the observers.
struct WatchedBody {
    body: Body,
    /// Length that the client expects; `None` if unknown. The HTTP library sends no more than this.
    length: Option<u64>,
    sent: u64,
    /// `None` once the end was reported.
    watch: Option<Watch>,
}

impl WatchedBody {
    fn take(&mut self, data: &[u8]) {
        self.sent += data.len() as u64;
        if let Some(watch) = &mut self.watch {
            watch.observers.sent(data);
        }
    }

    fn end(&mut self, how: HowEnded) {
        let Some(watch) = self.watch.take() else {
            return;
        };
        let end = End {
            received: watch.reception.bytes(),
            sent: self.sent,
            took: watch.facts.started.elapsed(),
            how,
        };
        let sinks = Sinks {
            shared: &watch.shared,
            analytics: &watch.analytics,
        };
        watch.observers.end(sinks, &watch.facts, &end);
    }
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(task));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.take(data);
                }
                if self.body.is_end_stream() || self.length == Some(self.sent) {
                    self.end(HowEnded::Whole);
                }
            }
            None if self.length.is_none_or(|length| self.sent >= length) => {
                self.end(HowEnded::Whole);
            }
            None | Some(Err(_)) => self.end(HowEnded::BrokenOff),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for WatchedBody {
    fn drop(&mut self) {
        self.end(HowEnded::Disconnected);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access_log::{AccessLog, Form};
    use crate::output::Output;
    use crate::request::operation::Logged;
    use crate::requests::Ring;
    use crate::state::{DataDirectory, Settings, Stores};
    use axum::http::Response;
    use http_body_util::BodyExt;
    use lazurite_engine::fs::MemoryFs;
    use lazurite_engine::{Config, Durability, Environment};
    use lazurite_protocol::properties::LogClass;
    use lazurite_protocol::request::context::ServiceKind;
    use lazurite_protocol::testing::{origin, request};
    use std::io::{self, Write};
    use std::sync::Mutex;

    /// A body of these parts, the last one first. A part that is `None` is an error.
    struct Parts(Vec<Option<&'static str>>);

    impl HttpBody for Parts {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
            let next = self.0.pop().map(|part| match part {
                Some(part) => Ok(Frame::data(Bytes::from_static(part.as_bytes()))),
                None => Err(io::ErrorKind::Other.into()),
            });
            Poll::Ready(next)
        }
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Serves an answer of these parts, of which the client takes the first `taken`. Returns the
    /// records of the access log, of the ring, and of logs and metrics.
    async fn seen(method: Method, parts: &[Option<&'static str>], taken: usize) -> [String; 3] {
        let environment = Environment {
            fs: Arc::new(MemoryFs::volatile()),
            ..Environment::system(Durability::Memory)
        };
        let config = Config {
            durability: Durability::Memory,
            ..Config::default()
        };
        let directory = DataDirectory::open("data".as_ref(), config, environment).unwrap();
        let written = Written::default();
        let output = Output::start("a test", written.clone()).unwrap();
        let shared = Arc::new(Shared {
            access_log: AccessLog::new(output.writer(), Form::Text),
            requests: Arc::new(Ring::new(10, 1 << 20)),
            ..Arc::into_inner(Shared::for_tests()).unwrap()
        });
        let stores = Stores::open(directory, Settings::for_tests(), shared.clone()).unwrap();
        let store = stores.current();
        let mut entries = store.analytics.entries_for_tests();

        let context = request(ServiceKind::Blob, "GET", "/c/b", "devstoreaccount1", &[]);
        let target = context.target.clone();
        let headers = HeaderMap::new();
        let facts = ExchangeFacts::new(origin(ServiceKind::Blob), method, target, &headers);
        let mut observers = Observers::begin(&store, &facts, &headers);
        let mut properties = ServiceProperties::default();
        properties.logging.read = true;
        let routing = Routing {
            context: &context,
            operation: Some(Logged {
                name: "GetBlob",
                class: LogClass::Read,
            }),
        };
        observers.route(&store, &facts, &routing, &properties);
        observers.authenticate(&store, &facts, &routing, &Caller::Owner);
        let parts = Parts(parts.iter().rev().copied().collect());
        let mut answer = observers.follow(
            &store,
            facts,
            Arc::default(),
            Response::new(Body::new(parts)),
        );
        for _ in 0..taken {
            let _ = answer.body_mut().frame().await;
        }
        drop(answer);

        output.close();
        let line = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let (_, line) = line.trim_end().rsplit_once(" ms").unwrap();
        let record = &shared.requests.latest(1, |_| true)[0];
        let outcome = entries.try_recv().unwrap().unwrap().outcome();
        [
            line.to_owned(),
            format!("{}, {}", record.ended.word(), record.response_bytes),
            outcome.ending.to_owned(),
        ]
    }

    #[tokio::test]
    async fn an_answer_that_its_client_takes_is_whole() {
        let parts = [Some("hello"), Some("world")];
        let whole = [", 10 B out", "whole, 10", "Success"];
        assert_eq!(seen(Method::GET, &parts, 3).await, whole);
        let head = ["", "whole, 0", "Success"];
        assert_eq!(seen(Method::HEAD, &parts, 0).await, head);
    }

    #[tokio::test]
    async fn a_client_that_goes_away_midway_is_recorded_by_all() {
        let parts = [Some("hello"), Some("world")];
        let half = [", 5 B out, disconnected", "disconnected, 5", "NetworkError"];
        assert_eq!(seen(Method::GET, &parts, 1).await, half);
        let none = [", disconnected", "disconnected, 0", "NetworkError"];
        assert_eq!(seen(Method::GET, &parts, 0).await, none);
    }

    #[tokio::test]
    async fn an_answer_that_fails_is_broken_off() {
        let parts = [Some("hello"), None];
        let broken = [", 5 B out, broken off", "broken off, 5", "ServerOtherError"];
        assert_eq!(seen(Method::GET, &parts, 2).await, broken);
    }
}
