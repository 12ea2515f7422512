use super::*;
use crate::blob::copy_allow_list::{Lookup, system_lookup};
use crate::blob::fetcher::Timeouts;
use lazurite_base::wall_clock::SystemWallClock;
use lazurite_engine::{Config, Db, Environment, RandomIds};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Long enough for a server on this machine to answer, and short enough to wait for in a test.
const SHORT: Duration = Duration::from_millis(200);

/// A server that gives each connection the next of a list of answers, and an empty answer after the
/// last. Stops when it is dropped.
struct Origin {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    serving: tokio::task::JoinHandle<()>,
}

impl Origin {
    async fn answering(answers: &[&str]) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let (count, answers) = (
            asked.clone(),
            answers.iter().map(|answer| answer.to_string()),
        );
        let mut answers: Vec<_> = answers.rev().collect();
        let serving = tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut connection, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let _ = connection.read(&mut [0; 4096]).await;
                let answer = answers.pop().unwrap_or_default();
                let _ = connection.write_all(answer.as_bytes()).await;
                open.push(connection);
            }
        });
        Origin {
            address,
            asked,
            serving,
        }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn fetcher_with(hosts: &[&str], lookup: Arc<Lookup>) -> Arc<Fetcher> {
    let hosts: Vec<_> = hosts.iter().map(|host| host.to_string()).collect();
    let patience = Timeouts {
        connect: Duration::from_secs(5),
        answer: SHORT,
        silence: SHORT,
    };
    Arc::new(Fetcher::with(&hosts, patience, lookup).unwrap())
}

fn fetcher(hosts: &[&str]) -> Arc<Fetcher> {
    fetcher_with(hosts, system_lookup())
}

fn foreign(fetcher: &Arc<Fetcher>, url: &str) -> RemoteSource {
    let uri: Uri = url.parse().unwrap();
    assert!(fetcher.may_ask(&uri), "{url}");
    RemoteSource {
        fetcher: fetcher.clone(),
        uri,
        url: url.to_owned(),
        headers: HeaderMap::new(),
    }
}

fn source(origin: &Origin) -> RemoteSource {
    let url = format!("http://{}/file", origin.address);
    foreign(&fetcher(&["127.0.0.1"]), &url)
}

async fn stored(found: Found, bytes_max: u64) -> Result<Upload> {
    let directory = tempfile::TempDir::new().unwrap();
    let environment = Environment::system(Config::default().durability);
    let db = Db::open_with(directory.path(), Config::default(), environment).unwrap();
    let blobs = BlobService::open(
        &db,
        Arc::new(RandomIds),
        Arc::new(SystemWallClock::default()),
    )
    .unwrap();
    let kind = (UploadKind::PutBlob, bytes_max);
    found.store(&blobs, kind, Checksums::default(), None).await
}

fn failure_of<T>(outcome: Result<T>) -> (u16, String, String) {
    let Err(failure) = outcome else {
        panic!("it went well");
    };
    let (code, message) = (failure.code.to_string(), failure.message.to_string());
    let reason = failure.details.iter().map(|(_, text)| text.to_string());
    (
        failure.status.as_u16(),
        code,
        reason.fold(message, |all, text| all + " " + &text),
    )
}

#[tokio::test]
async fn names_that_lead_to_private_addresses_are_not_asked() {
    let origin = Origin::answering(&[]).await;
    let url = format!("http://localhost:{}/file", origin.address.port());
    let outcome = foreign(&fetcher(&["localhost"]), &url).get(None).await;
    let (status, code, message) = failure_of(outcome);
    assert_eq!((status, &*code), (403, "CannotVerifyCopySource"));
    assert!(message.contains("private:HOST"), "{message}");
    assert_eq!(origin.asked(), 0);
}

#[tokio::test]
async fn private_addresses_are_asked_if_they_are_named_or_the_name_may_have_them() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody";
    for hosts in [&["private:localhost"][..], &["localhost", "127.0.0.1"]] {
        let origin = Origin::answering(&[answer]).await;
        let url = format!("http://localhost:{}/file", origin.address.port());
        let found = foreign(&fetcher(hosts), &url).get(None).await.unwrap();
        assert_eq!(found.length(), 4);
        assert_eq!(stored(found, 4).await.unwrap().length(), 4);
    }
}

#[tokio::test]
async fn the_address_that_was_checked_is_the_one_that_is_asked() {
    let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let origin = Origin::answering(&[answer]).await;
    let (first, asked) = (origin.address, Arc::new(AtomicUsize::new(0)));
    let count = asked.clone();
    // From the second lookup on, the name leads to another address.
    let rebinding: Arc<Lookup> = Arc::new(move |name| {
        assert_eq!(name, "rebinding.example");
        let before = count.fetch_add(1, Ordering::Relaxed);
        let elsewhere = SocketAddr::from(([127, 0, 0, 2], 0));
        let found = if before == 0 { first } else { elsewhere };
        Box::pin(std::future::ready(Ok(vec![found])))
    });
    let hosts = ["rebinding.example", "127.0.0.1"];
    let fetcher = fetcher_with(&hosts, rebinding);
    let url = format!("http://rebinding.example:{}/", first.port());
    foreign(&fetcher, &url).get(None).await.unwrap();
    assert_eq!((origin.asked(), asked.load(Ordering::Relaxed)), (1, 1));
    // The second lookup leads to an internal address, which is refused.
    let (status, _, message) = failure_of(foreign(&fetcher, &url).get(None).await);
    assert_eq!(
        (status, asked.load(Ordering::Relaxed)),
        (403, 2),
        "{message}"
    );
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = Origin::answering(&[]).await;
    let head = format!(
        "HTTP/1.1 302 Found\r\nLocation: http://{}/\r\n",
        other.address
    );
    let origin = Origin::answering(&[&format!("{head}Content-Length: 0\r\n\r\n")]).await;
    let (status, code, _) = failure_of(source(&origin).get(None).await);
    assert_eq!((status, &*code), (400, "CannotVerifyCopySource"));
    assert_eq!((origin.asked(), other.asked()), (1, 0));
}

#[tokio::test]
async fn a_source_longer_than_the_limit_is_refused_before_it_is_read() {
    let origin = Origin::answering(&["HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n"]).await;
    let found = source(&origin).get(None).await.unwrap();
    let (status, code, _) = failure_of(stored(found, 1000).await);
    assert_eq!((status, &*code), (413, "RequestBodyTooLarge"));
}

#[tokio::test]
async fn sources_without_a_length_are_read_up_to_the_limit() {
    let chunk = format!("258\r\n{}\r\n", "x".repeat(600));
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let origin = Origin::answering(&[&format!("{head}{chunk}{chunk}")]).await;
    let found = source(&origin).get(None).await.unwrap();
    let (status, code, _) = failure_of(stored(found, 1000).await);
    assert_eq!((status, &*code), (413, "RequestBodyTooLarge"));
}

#[tokio::test]
async fn servers_that_stop_in_the_middle_are_given_up() {
    let origin = Origin::answering(&["HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx"]).await;
    let found = source(&origin).get(None).await.unwrap();
    let (status, code, message) = failure_of(stored(found, 1000).await);
    assert_eq!((status, &*code), (500, "CannotVerifyCopySource"));
    assert!(message.contains("stopped coming"), "{message}");
}

#[tokio::test]
async fn servers_that_do_not_answer_are_given_up() {
    let origin = Origin::answering(&[]).await;
    let (status, code, message) = failure_of(source(&origin).get(None).await);
    assert_eq!((status, &*code), (500, "CannotVerifyCopySource"));
    assert!(message.contains("in time"), "{message}");
}

#[tokio::test]
async fn only_the_range_that_was_asked_for_is_taken() {
    let range = ByteRange {
        first: 2,
        last: Some(5),
    };
    let answer = |range: &str| {
        let head = "HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\n";
        format!("{head}{range}\r\nbody")
    };
    let good = [
        "Content-Range: bytes 2-5/100\r\n",
        "Content-Range: bytes 2-4/5\r\n",
    ];
    let bad = [
        "",
        "Content-Range: bytes 0-3/100\r\n",
        "Content-Range: bytes 2-6/100\r\n",
    ];
    for (text, is_good) in good
        .map(|text| (text, true))
        .into_iter()
        .chain(bad.map(|text| (text, false)))
    {
        let origin = Origin::answering(&[&answer(text)]).await;
        assert_eq!(
            source(&origin).get(Some(range)).await.is_ok(),
            is_good,
            "{text}"
        );
    }
}

/// Timer 2 in `/proc/net/tcp` is that of TCP keep-alive. Source: proc(5).
#[tokio::test]
#[cfg(target_os = "linux")]
async fn silent_servers_are_probed() {
    let origin = Origin::answering(&["HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx"]).await;
    let _found = source(&origin).get(None).await.unwrap();
    let remote = format!(":{:04X}", origin.address.port());
    let is_probed = || {
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        table.lines().any(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            fields[2].ends_with(&remote) && fields[5].starts_with("02:")
        })
    };
    // Polls: the socket is probed only after the sent bytes were acknowledged.
    let mut steps = 0;
    while !is_probed() {
        steps += 1;
        assert!(steps < 500);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Starts a server that answers every request, and closes each connection after `answers_max`
/// answers. Returns its address and the number of connections so far.
async fn serving(answers_max: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                for _ in 0..answers_max {
                    if connection.read(&mut [0; 4096]).await.unwrap_or(0) == 0 {
                        return;
                    }
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody";
                    connection.write_all(answer).await.unwrap();
                }
            });
        }
    });
    (address, connections)
}

async fn fetch_thrice(address: SocketAddr) {
    let fetcher = fetcher(&["127.0.0.1"]);
    for _ in 0..3 {
        let source = foreign(&fetcher, &format!("http://{address}/file"));
        let found = source.get(None).await.unwrap();
        assert_eq!(stored(found, 4).await.unwrap().length(), 4);
        // Gives the connection's task time to notice the response's end or the server's close.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn requests_to_one_server_share_a_connection() {
    let (address, connections) = serving(usize::MAX).await;
    fetch_thrice(address).await;
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_connection_that_the_other_server_closed_is_replaced() {
    let (address, connections) = serving(1).await;
    fetch_thrice(address).await;
    assert_eq!(connections.load(Ordering::Relaxed), 3);
}
