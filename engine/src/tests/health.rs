//! A failure stops all writing, unless it passes.

use crate::Error;
use crate::base::health::Health;

#[test]
fn only_a_failure_that_stays_stops_all_writing() {
    let health = Health::default();
    for passing in [Error::Closed, Error::NoSpace { path: "f".into() }] {
        health.note(&passing);
        assert!(health.check_writable().is_ok(), "{passing}");
    }
    let lasting = Error::ReadOnly {
        reason: "first".to_owned(),
    };
    health.note(&lasting);
    let second = Error::ReadOnly {
        reason: "second".to_owned(),
    };
    health.note(&second);
    assert_eq!(health.failure().unwrap().to_string(), lasting.to_string());
    assert!(matches!(
        health.check_writable(),
        Err(Error::ReadOnly { .. })
    ));
    assert!(health.check_open().is_ok());
    health.close();
    assert!(matches!(health.check_writable(), Err(Error::Closed)));
}
