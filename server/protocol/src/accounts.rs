//! The accounts this server answers for, and their keys.

use arc_swap::{ArcSwap, Guard};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

/// The well-known account of the emulator. Client libraries have its name and key built in.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
/// The key of [`DEVELOPMENT_ACCOUNT`]. It is public by design.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A key with fewer bytes could be guessed. Keys of the hosted service have 64.
const KEY_BYTES_MIN: usize = 16;

/// Maximum length of an account name. A label of a host name has the same limit.
const NAME_CHARACTERS_MAX: usize = 63;

/// Separates account and fork in a name that addresses a fork.
pub const FORK_SEPARATOR: &str = "--";
/// The suffix of a name that addresses the read-only secondary of an account.
pub const SECONDARY: &str = "-secondary";
/// Maximum length of a fork's name. A label of a host name has at most 63 characters, which leaves
/// 21 for the account in `ACCOUNT--FORK`.
const FORK_CHARACTERS_MAX: usize = 40;

/// The parts of a name in a URL: the account, its fork, and the primary or secondary endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addressed {
    pub account: String,
    /// The name of the fork, from `ACCOUNT--FORK`; `None` for the account's own store.
    pub fork: Option<String>,
    /// Whether the name addresses the read-only secondary.
    pub secondary: bool,
}

impl fmt::Display for Addressed {
    /// The name that clients use.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.account)?;
        if let Some(fork) = &self.fork {
            write!(f, "{FORK_SEPARATOR}{fork}")?;
        }
        f.write_str(if self.secondary { SECONDARY } else { "" })
    }
}

/// True if a fork may have this name: 1 to 40 lower-case letters, digits and hyphens, without a
/// hyphen at either end or two in a row. Names that end in `secondary` are for secondaries.
pub fn is_fork_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= FORK_CHARACTERS_MAX
        && !name.is_empty()
        && name.bytes().all(|byte| is_letter(byte) || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains(FORK_SEPARATOR)
        && !name.ends_with("secondary")
}

/// True if URLs can address an account of this name. Azure's names are 3 to 24 lower-case letters
/// and digits; emulators and clients accept others too.
fn is_account_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    name.len() <= NAME_CHARACTERS_MAX
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(is_letter)
        && !name.contains(FORK_SEPARATOR)
}

/// True if a name addresses an account: by its own name, as a fork, or as the secondary of either.
/// Case does not matter, as in host names.
pub fn names_account(name: &str, account: &str) -> bool {
    let parts = name.split_at_checked(account.len());
    parts.is_some_and(|(start, rest)| {
        let is_whole = rest.is_empty() || rest == SECONDARY || rest.starts_with(FORK_SEPARATOR);
        is_whole && !account.is_empty() && start.eq_ignore_ascii_case(account)
    })
}

/// The name by which clients address a fork of an account.
pub fn name_of_fork(account: &str, fork: &str) -> String {
    [account, FORK_SEPARATOR, fork].concat()
}

/// The decoded keys of an account as of the call to [`Accounts::keys`]. Holds a guard, because all
/// requests would write to a reference count.
pub struct Keys(Guard<Arc<Decoded>>);

impl Deref for Keys {
    type Target = [Vec<u8>];

    fn deref(&self) -> &[Vec<u8>] {
        &self.0.keys
    }
}

#[derive(Default)]
struct Decoded {
    keys: Vec<Vec<u8>>,
    /// Whether one of the keys is the public key of the development account.
    is_well_known: bool,
}

impl From<Vec<Vec<u8>>> for Decoded {
    fn from(keys: Vec<Vec<u8>>) -> Decoded {
        static KNOWN: LazyLock<Option<Vec<u8>>> = LazyLock::new(|| decode_key(DEVELOPMENT_KEY));
        Decoded {
            is_well_known: keys.iter().any(|key| Some(key) == KNOWN.as_ref()),
            keys,
        }
    }
}

/// The accounts with one or two keys each. The keys may be replaced while the server uses them.
pub struct Accounts {
    keys: BTreeMap<String, ArcSwap<Decoded>>,
    /// The accounts with a hierarchical namespace (`--hns`).
    hierarchical: BTreeSet<String>,
    /// The account is always the first path segment, never a label of the host
    /// (`--disableProductStyleUrl`).
    pub path_style_only: bool,
}

impl Accounts {
    /// Reads `name:key1[:key2];name2:key…`. Ignores quotes around the text, blanks and empty
    /// entries. The error is a sentence.
    pub fn parse(text: &str) -> Result<Accounts, String> {
        let mut keys: BTreeMap<String, ArcSwap<Decoded>> = BTreeMap::new();
        let entries = text
            .trim()
            .trim_matches(['"', '\''])
            .split(';')
            .map(str::trim);
        for entry in entries.filter(|entry| !entry.is_empty()) {
            let (name, decoded) = parse_entry(entry)?;
            if keys.contains_key(&name) {
                return Err(format!("account \"{name}\" is named twice"));
            }
            keys.insert(name, ArcSwap::from_pointee(Decoded::from(decoded)));
        }
        let shadowed = keys.keys().find(|name| {
            let primary = name.strip_suffix(SECONDARY);
            primary.is_some_and(|primary| keys.contains_key(primary))
        });
        if let Some(name) = shadowed {
            return Err(format!(
                "account \"{name}\" has the name of another's read-only secondary"
            ));
        }
        if keys.is_empty() {
            return Err("no account is named; the form is name:key1[:key2];name2:key1".to_owned());
        }
        Ok(Accounts {
            keys,
            hierarchical: BTreeSet::new(),
            path_style_only: false,
        })
    }

    /// The emulator's well-known account alone.
    pub fn development() -> Accounts {
        Accounts::parse(&format!("{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY}"))
            .expect("the well-known key is base64")
    }

    /// Sets whether accounts are addressed by path alone; by default, by host name too.
    pub fn path_style_only(self, path_style_only: bool) -> Accounts {
        Accounts {
            path_style_only,
            ..self
        }
    }

    /// Gives these accounts a hierarchical namespace; all accounts if `names` is empty. Error, as a
    /// sentence: a name is of no account.
    pub fn with_hierarchy(self, names: &[String]) -> Result<Accounts, String> {
        if let Some(unknown) = names.iter().find(|name| !self.keys.contains_key(*name)) {
            return Err(format!("there is no account \"{unknown}\""));
        }
        let hierarchical = if names.is_empty() {
            self.keys.keys().cloned().collect()
        } else {
            names.iter().cloned().collect()
        };
        Ok(Accounts {
            hierarchical,
            ..self
        })
    }

    /// Whether an account has a hierarchical namespace: new containers of it have directories, and
    /// it serves Data Lake Storage.
    pub fn is_hierarchical(&self, account: &str) -> bool {
        self.hierarchical.contains(account)
    }

    /// The account that `name` addresses; `None` if there is no such account.
    pub fn find(&self, name: &str) -> Option<Addressed> {
        self.find_primary(name).or_else(|| {
            let primary = self.find_primary(name.strip_suffix(SECONDARY)?)?;
            Some(Addressed {
                secondary: true,
                ..primary
            })
        })
    }

    fn find_primary(&self, name: &str) -> Option<Addressed> {
        let addressed = |account: &str, fork: Option<&str>| Addressed {
            account: account.to_owned(),
            fork: fork.map(str::to_owned),
            secondary: false,
        };
        if self.keys.contains_key(name) {
            return Some(addressed(name, None));
        }
        // Most names that address no account are hosts such as `localhost` and `127.0.0.1`.
        if !name.contains('-') {
            return None;
        }
        let (account, fork) = name.rsplit_once(FORK_SEPARATOR)?;
        let is_known = self.keys.contains_key(account) && is_fork_name(fork);
        is_known.then(|| addressed(account, Some(fork)))
    }

    /// The names of all accounts, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    /// The decoded keys of an account that [`Accounts::find`] has found.
    pub fn keys(&self, account: &str) -> Keys {
        let keys = self.keys.get(account).map(ArcSwap::load);
        Keys(keys.unwrap_or_else(|| Guard::from_inner(Arc::default())))
    }

    /// Replaces the keys of the accounts. Error, as a sentence: `newer` has other accounts. They
    /// are fixed at start, because other parts of the server depend on them.
    pub fn replace_keys(&self, newer: &Accounts) -> Result<(), String> {
        if !self.names().eq(newer.names()) {
            return Err("other accounts are named than at start: restart to serve them".to_owned());
        }
        for (keys, newer) in self.keys.values().zip(newer.keys.values()) {
            keys.store(newer.load_full());
        }
        Ok(())
    }

    /// Whether this account has the well-known key of the development account.
    pub fn is_well_known(&self, account: &str) -> bool {
        let keys = self.keys.get(account);
        keys.is_some_and(|keys| keys.load().is_well_known)
    }

    /// Whether any account has the well-known key of the development account.
    pub fn has_development_key(&self) -> bool {
        self.names().any(|name| self.is_well_known(name))
    }

    /// The name of an account with a key that could be guessed, if there is one.
    pub fn with_weak_key(&self) -> Option<&str> {
        let is_weak = |name: &&str| self.keys(name).iter().any(|key| key.len() < KEY_BYTES_MIN);
        self.names().find(is_weak)
    }

    /// The first account and its first key in base64, for the connection string shown at start.
    pub fn first(&self) -> (&str, String) {
        let (name, keys) = self
            .keys
            .first_key_value()
            .expect("there is at least one account");
        let encoded = base64::engine::general_purpose::STANDARD.encode(&keys.load().keys[0]);
        (name, encoded)
    }
}

/// The name and the decoded keys of one entry, `name:key1[:key2]`. Error: a sentence.
fn parse_entry(entry: &str) -> Result<(String, Vec<Vec<u8>>), String> {
    let mut parts = entry.split(':').map(str::trim);
    let name = parts.next().unwrap_or_default().to_owned();
    let given: Vec<_> = parts.collect();
    if !(1..=2).contains(&given.len()) {
        return Err(format!(
            "account \"{name}\" needs one or two base64 keys, as in name:key1:key2"
        ));
    }
    let decoded: Option<Vec<_>> = given.into_iter().map(decode_key).collect();
    let Some(decoded) = decoded else {
        return Err(format!("account \"{name}\" has a key that is not base64"));
    };
    if !is_account_name(&name) {
        return Err(format!(
            "account \"{name}\" cannot be addressed: a name has 1 to {NAME_CHARACTERS_MAX} letters, digits, hyphens, underscores \
             and dots, begins with a letter or a digit, and has no \"--\", which stands before the name of a fork"
        ));
    }
    Ok((name, decoded))
}

/// Shows only the names: keys must not appear in logs.
impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// Base64 as users paste it: standard or URL-safe letters, with or without padding.
pub fn decode_key(text: &str) -> Option<Vec<u8>> {
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let text = text.replace('-', "+").replace('_', "/");
    let key = GeneralPurpose::new(&alphabet::STANDARD, config)
        .decode(text)
        .ok()?;
    (!key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_as_people_write_them() {
        let accounts = Accounts::parse(" \"one:AAEC:AwQF; two:_-8\" ").unwrap();
        assert_eq!(accounts.first(), ("one", "AAEC".to_owned()));
        assert_eq!(*accounts.keys("one"), [vec![0, 1, 2], vec![3, 4, 5]]);
        assert_eq!(*accounts.keys("two"), [vec![0xff, 0xef]]);
        for (name, account, fork, secondary) in [
            ("two", "two", None, false),
            ("two-secondary", "two", None, true),
            ("two--pr-42", "two", Some("pr-42"), false),
            ("two--pr-42-secondary", "two", Some("pr-42"), true),
        ] {
            let found = accounts.find(name).unwrap();
            let found = (&*found.account, found.fork.as_deref(), found.secondary);
            assert_eq!(found, (account, fork, secondary), "{name}");
        }
        let long = format!("two--{}", "f".repeat(41));
        for name in [
            "three",
            "two-",
            "two--",
            "two--A",
            "two--a-",
            "two---a",
            "two--a--b",
            "two--a.b",
            "two-secondary--a",
            "two--secondary",
            "three--a",
            &long,
        ] {
            assert_eq!(accounts.find(name), None, "{name}");
        }
    }

    #[test]
    fn keys_are_replaced_and_never_shown() {
        let accounts = Accounts::parse("one:AAEC;two:AA").unwrap();
        assert!(!accounts.has_development_key());
        assert!(Accounts::development().has_development_key());
        let newer = Accounts::parse("one:AwQF;two:AA").unwrap();
        accounts.replace_keys(&newer).unwrap();
        assert_eq!(*accounts.keys("one"), [vec![3, 4, 5]]);
        assert!(accounts.replace_keys(&Accounts::development()).is_err());
        assert_eq!(format!("{accounts:?}"), r#"["one", "two"]"#);
    }

    #[test]
    fn a_hierarchical_namespace_is_given_to_all_accounts_or_by_name() {
        let hierarchical = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| name.to_string()).collect();
            let accounts = Accounts::parse("one:AAEC;two:AA").unwrap();
            let accounts = accounts.with_hierarchy(&names)?;
            Ok(["one", "two"].map(|name| accounts.is_hierarchical(name)))
        };
        assert_eq!(hierarchical(&[]), Ok([true, true]));
        assert_eq!(hierarchical(&["two"]), Ok([false, true]));
        let refusal = Err("there is no account \"three\"".to_owned());
        assert_eq!(hierarchical(&["one", "three"]), refusal);
        let flat = Accounts::parse("one:AAEC").unwrap();
        assert!(!flat.is_hierarchical("one"));
    }

    #[test]
    fn a_short_key_is_known_by_its_account() {
        let weak = |text: &str| {
            Accounts::parse(text)
                .unwrap()
                .with_weak_key()
                .map(str::to_owned)
        };
        let long = "QUFBQUFBQUFBQUFBQUFBQQ";
        assert_eq!(
            weak(&format!("one:{long};two:{long}:AAAA")).as_deref(),
            Some("two")
        );
        assert_eq!(weak(&format!("one:{long};two:{DEVELOPMENT_KEY}")), None);
    }

    #[test]
    fn accounts_without_a_key_are_refused_by_name() {
        for text in ["one:AA;one:AB", "one:AA;one-secondary:AA"] {
            assert!(Accounts::parse(text).is_err(), "{text}");
        }
        for (text, reason) in [
            ("", "no account is named"),
            ("one", "needs one or two base64 keys"),
            ("one:", "a key that is not base64"),
            ("one:???", "a key that is not base64"),
            ("one:AA:AA:AA", "needs one or two base64 keys"),
            (":AAAA", "cannot be addressed"),
        ] {
            let refusal = Accounts::parse(text).unwrap_err();
            assert!(refusal.contains(reason), "{text}: {refusal}");
        }
    }

    #[test]
    fn accounts_that_urls_cannot_address_are_refused_by_name() {
        let parse = |name: &str| Accounts::parse(&format!("x:a2V5;{name}:a2V5"));
        let long = "a".repeat(63);
        for name in ["a", "Aaa", "aa-a", "a_b", "a.b", "1", "y-secondary", &long] {
            assert!(parse(name).is_ok(), "{name}");
        }
        let longer = "a".repeat(64);
        for name in [
            "",
            "x--y",
            "z--y",
            "-a",
            "_lazurite",
            ".",
            "..",
            "a/b",
            "a b",
            "a%20",
            "ä",
            "a?",
            &longer,
        ] {
            let refusal = parse(name).unwrap_err();
            let shown = format!("account \"{name}\" cannot be addressed");
            assert!(refusal.starts_with(&shown), "{refusal}");
            assert!(refusal.contains("fork"), "{refusal}");
        }
    }

    #[test]
    fn the_longest_name_of_a_fork_is_found() {
        let accounts = Accounts::parse("two:AA").unwrap();
        let fork = "f".repeat(FORK_CHARACTERS_MAX);
        let found = accounts.find(&format!("two--{fork}")).unwrap();
        assert_eq!(found.fork, Some(fork));
    }

    #[test]
    fn an_account_is_named_by_itself_its_forks_and_its_secondary() {
        for name in [
            "two",
            "TWO",
            "two-secondary",
            "two--pr",
            "two--pr-secondary",
        ] {
            assert!(names_account(name, "two"), "{name}");
        }
        for name in ["tw", "twos", "two-", "two-second", "one", "one--two", ""] {
            assert!(!names_account(name, "two"), "{name}");
        }
        assert!(!names_account("", "") && !names_account("--a", ""));
        assert_eq!(name_of_fork("two", "pr"), "two--pr");
    }
}
