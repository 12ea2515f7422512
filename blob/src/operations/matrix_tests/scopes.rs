//! Every operation with and without an encryption scope, on blobs with and without a scope, in
//! containers with and without a default. Source: `operations/encryption.rs`, which separates
//! observed behaviour from our decisions.

use super::*;
use crate::operations::encryption_tests::{key, with_key};

const DEFAULT_SCOPE: &str = "lake";
const OTHER_SCOPE: &str = "shore";
const GIVEN: [Option<&str>; 3] = [None, Some(DEFAULT_SCOPE), Some(OTHER_SCOPE)];

/// A container's settings for the scopes of its blobs.
#[derive(Debug, Clone, Copy)]
struct ScopeSettings {
    default: Option<&'static str>,
    denies: bool,
}

const FREE: ScopeSettings = ScopeSettings {
    default: None,
    denies: false,
};
const LENIENT: ScopeSettings = ScopeSettings {
    default: Some(DEFAULT_SCOPE),
    denies: false,
};
const STRICT: ScopeSettings = ScopeSettings {
    default: Some(DEFAULT_SCOPE),
    denies: true,
};
/// The container allows only the account's own key.
const PLAIN: ScopeSettings = ScopeSettings {
    default: None,
    denies: true,
};
const SETTINGS: [ScopeSettings; 4] = [FREE, LENIENT, STRICT, PLAIN];

impl ScopeSettings {
    fn store(self) -> Store {
        store_with(ContainerSettings {
            default_encryption_scope: self.default.map(str::to_string),
            deny_encryption_scope_override: self.denies,
            ..ContainerSettings::default()
        })
    }

    fn forbids(self, given: Option<&str>) -> bool {
        self.denies && given.is_some() && given != self.default
    }

    /// The scopes that blobs of the container can have.
    fn scopes(self) -> impl Iterator<Item = Option<&'static str>> {
        let possible = move |has: &Option<&'static str>| match has {
            None => self.default.is_none(),
            has => !self.forbids(*has),
        };
        GIVEN.into_iter().filter(possible)
    }
}

/// The outcome of a request that names this scope or none, on a blob in a scope or in none.
fn shown(
    scope_rule: Scope,
    home: ScopeSettings,
    has: Option<&str>,
    given: Option<&str>,
) -> &'static str {
    match scope_rule {
        Scope::Ignores => "ok",
        _ if home.forbids(given) => "RequestForbiddenByContainerEncryptionPolicy",
        Scope::Replaces | Scope::Allows => "ok",
        Scope::Needs if has == given.or(home.default) => "ok",
        Scope::Needs if has.is_none() => "BlobDoesNotUseCustomerSpecifiedEncryption",
        Scope::Needs if given.is_none() => "BlobUsesCustomerSpecifiedEncryption",
        Scope::Needs => "BlobCustomerSpecifiedEncryptionMismatch",
    }
}

fn naming(scope: Option<&str>) -> Conditions {
    Conditions {
        encryption_scope: scope.map(str::to_string),
        ..Conditions::default()
    }
}

fn code(outcome: Result<()>) -> String {
    outcome.map_or_else(|error| format!("{error:?}"), |()| "ok".into())
}

impl Store {
    /// The scope of a blob; `None` if it is in none, or not there.
    fn scope_of(&self, name: &str) -> Option<String> {
        let blob = self.properties(name).ok()?;
        blob.encryption_scope().map(str::to_string)
    }

    fn stage(&self, name: &str, id: &str, scope: Option<&str>) -> Result<()> {
        let upload = self.upload(UploadKind::PutBlock, b"block");
        let (service, conditions) = (self, naming(scope));
        done(
            service
                .at(at(0))
                .put_block(&address(name), id.as_bytes(), upload, &conditions),
        )
    }

    fn relist(&self, name: &str, ids: &[&str], scope: Option<&str>) -> Result<()> {
        let list = PutBlockList {
            conditions: naming(scope),
            ..latest(ids)
        };
        self.commit(name, list).map(|_| ())
    }
}

#[test]
fn every_operation_treats_scopes_as_in_its_table() {
    for home in SETTINGS {
        let store = home.store();
        store.make_sources();
        for operation in operations().into_iter().chain(others()) {
            let scope_rule = operation.scope;
            for has in home.scopes() {
                for given in GIVEN {
                    let cell =
                        format!("{} naming {given:?} on {has:?} in {home:?}", operation.name);
                    store.make_with(&cell, operation.on, &naming(has));
                    let outcome = code((operation.act)(&store, &cell, &naming(given), at(1)));
                    assert_eq!(outcome, shown(scope_rule, home, has, given), "{cell}");
                    let after = match scope_rule {
                        Scope::Replaces if outcome == "ok" => given.or(home.default),
                        Scope::Ignores if operation.name == "Delete Blob" => None,
                        _ => has,
                    };
                    assert_eq!(store.scope_of(&cell).as_deref(), after, "after {cell}");
                }
            }
        }
    }
}

#[test]
fn blocks_are_listed_in_the_scope_they_were_put_in() {
    for home in SETTINGS {
        let store = home.store();
        let cells = home
            .scopes()
            .flat_map(|has| home.scopes().map(move |put| (has, put)));
        for (has, put) in cells {
            for given in GIVEN {
                let cell = format!("{given:?} of blocks in {put:?} on {has:?} in {home:?}");
                store.make_with(&cell, BlobType::BlockBlob, &naming(has));
                store.stage(&cell, "a", put).unwrap();
                let expected = shown(Scope::Needs, home, put, given);
                assert_eq!(code(store.relist(&cell, &["a"], given)), expected, "{cell}");
                let after = if expected == "ok" { put } else { has };
                assert_eq!(store.scope_of(&cell).as_deref(), after, "after {cell}");
                // Blocks that were listed once keep their scope, even if they are listed again.
                if expected == "ok" {
                    for given in GIVEN {
                        let expected = shown(Scope::Needs, home, put, given);
                        let again = store.relist(&cell, &["a", "a"], given);
                        assert_eq!(code(again), expected, "{given:?} again of {cell}");
                    }
                }
            }
        }
    }
}

#[test]
fn uncommitted_blocks_are_all_in_the_scope_of_the_first() {
    for home in SETTINGS {
        let store = home.store();
        for first in home.scopes() {
            for second in GIVEN {
                let cell = format!("{second:?} after {first:?} in {home:?}");
                store.stage(&cell, "a", first).unwrap();
                let expected = shown(Scope::Needs, home, first, second);
                assert_eq!(code(store.stage(&cell, "b", second)), expected, "{cell}");
                assert_eq!(code(store.stage(&cell, "a", second)), expected, "{cell}");
            }
        }
    }
}

#[test]
fn lists_of_nothing_and_of_new_blocks_change_the_scope() {
    let store = store();
    store.stage("name", "a", Some(DEFAULT_SCOPE)).unwrap();
    store.relist("name", &["a"], Some(DEFAULT_SCOPE)).unwrap();
    store.stage("name", "b", Some(OTHER_SCOPE)).unwrap();
    let both = store.relist("name", &["a", "b"], Some(OTHER_SCOPE));
    assert_err!(both, Error::BlobCustomerSpecifiedEncryptionMismatch);
    store.relist("name", &["b"], Some(OTHER_SCOPE)).unwrap();
    assert_eq!(store.scope_of("name").as_deref(), Some(OTHER_SCOPE));
    store.relist("name", &[], None).unwrap();
    assert_eq!(store.scope_of("name"), None);
}

#[test]
fn names_that_no_scope_has_are_refused() {
    let store = store();
    let long = "x".repeat(64);
    for name in [
        "ab",
        "Lake",
        "la--ke",
        "-lake",
        "lake-",
        "la_ke",
        "$root",
        "$account-encryption-key",
        &long,
    ] {
        let put = store.stage("name", "a", Some(name));
        assert_err!(put, Error::InvalidHeaderValue { .. });
        let settings = ContainerSettings {
            default_encryption_scope: Some(name.to_string()),
            ..ContainerSettings::default()
        };
        let service = &store;
        let made = service
            .at(at(0))
            .create_container_with(ACCOUNT, "scoped", settings);
        assert_err!(made, Error::InvalidHeaderValue { .. });
    }
    store.stage("name", "a", Some(&long[1..])).unwrap();
    store.stage("other", "a", Some("1-2-3")).unwrap();
}

#[test]
fn keys_count_before_a_default_scope_unless_the_container_insists_on_it() {
    let put = |store: &Store, conditions: Conditions| {
        let mut request = store.put_request(b"");
        request.upload = store.sealed(UploadKind::PutBlob, b"body", key(1));
        request.conditions = conditions;
        done(store.at(at(0)).put_blob(&address("name"), request))
    };
    for home in SETTINGS {
        let store = home.store();
        let expected = if home.denies {
            "RequestForbiddenByContainerEncryptionPolicy"
        } else {
            "ok"
        };
        assert_eq!(code(put(&store, with_key(1))), expected, "{home:?}");
        let both = Conditions {
            encryption_scope: Some(DEFAULT_SCOPE.to_string()),
            ..with_key(1)
        };
        assert_err!(put(&store, both), Error::InvalidHeaderValue { .. });
    }
    // On blobs with a key, a request without a scope does not name the container's default.
    let store = LENIENT.store();
    put(&store, with_key(1)).unwrap();
    let set = |conditions: Conditions| {
        let metadata = Metadata::new();
        let service = &store;
        done(
            service
                .at(at(1))
                .set_blob_metadata(&address("name"), metadata, &conditions),
        )
    };
    assert_err!(
        set(naming(None)),
        Error::BlobUsesCustomerSpecifiedEncryption
    );
    assert_err!(
        set(naming(Some(DEFAULT_SCOPE))),
        Error::BlobCustomerSpecifiedEncryptionMismatch
    );
    set(with_key(1)).unwrap();
}
