//! Rights on paths beside a plain tree of owners, groups and bits, for callers drawn at random.

use super::path_tests::{create, lake};
use super::tests::*;
use crate::*;
use lazurite_engine::{Choices, test_seeds};
use std::collections::BTreeMap;

/// What stands at a path.
struct Node {
    is_directory: bool,
    owner: &'static str,
    group: &'static str,
    bits: u32,
    sticky: bool,
    /// Rights of a named user, before the mask, which is the bits of the group.
    named: Option<(&'static str, u32)>,
}

const USERS: [&str; 3] = ["u0", "u1", "u2"];
const GROUPS: [&str; 2] = ["g0", "g1"];

impl Node {
    fn random(is_directory: bool, random: &mut Choices) -> Node {
        let named = random
            .one_in(2)
            .then(|| (random.pick(&USERS), random.below(8) as u32));
        Node {
            is_directory,
            owner: random.pick(&USERS),
            group: random.pick(&GROUPS),
            // Most directories let most callers pass.
            bits: random.below(512) as u32 | if random.one_in(4) { 0 } else { 0o111 },
            sticky: is_directory && random.one_in(3),
            named,
        }
    }

    fn allows(&self, caller: &Caller, wanted: u32) -> bool {
        let mask = match self.named {
            Some(_) => self.bits >> 3 & 7,
            None => 7,
        };
        let is_member = caller.groups.iter().any(|group| group == self.group);
        let rights = match self.named {
            _ if caller.id == self.owner => self.bits >> 6,
            Some((user, rights)) if user == caller.id => rights & mask,
            _ if is_member => (self.bits >> 3) & mask,
            _ => self.bits,
        };
        rights & wanted == wanted
    }

    /// Sets it in the store.
    fn set(&self, store: &Store, path: &str) {
        let letters = |bits: u32| {
            let letter = |bit, letter| if bits & bit == 0 { '-' } else { letter };
            [letter(4, 'r'), letter(2, 'w'), letter(1, 'x')]
                .iter()
                .collect::<String>()
        };
        let [owner, group, other] = [6, 3, 0].map(|shift| letters(self.bits >> shift));
        let mut acl = format!("user::{owner},group::{group},other::{other}");
        if let Some((user, rights)) = self.named {
            acl += &format!(",user:{user}:{},mask::{group}", letters(rights));
        }
        let acl = AclChange::Set(AclEntry::parse_list(&acl, true).unwrap());
        let (owner, group) = (Some(self.owner.to_string()), Some(self.group.to_string()));
        let (address, none) = (address(path), Conditions::default());
        let set = store.set_access_control(&address, owner, group, Some(&acl), &none);
        set.unwrap().1.wait().unwrap();
        if self.sticky {
            let bits = Permissions::parse(&format!("1{:03o}", self.bits)).unwrap();
            let change = AclChange::Permissions(bits);
            let set = store.set_access_control(&address, None, None, Some(&change), &none);
            set.unwrap().1.wait().unwrap();
        }
    }
}

/// The paths from the root to the parent of a path.
fn parents(path: &str) -> Vec<&str> {
    let below = path.match_indices('/').map(|(at, _)| &path[..at]);
    std::iter::once("").chain(below).collect()
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

type Tree = BTreeMap<String, Node>;

fn random_tree(store: &Store, random: &mut Choices) -> Tree {
    let mut tree = Tree::new();
    tree.insert(String::new(), Node::random(true, random));
    for number in 0..30 {
        let directories = tree.iter().filter(|(_, node)| node.is_directory);
        let directories: Vec<String> = directories.map(|(path, _)| path.clone()).collect();
        let above = &directories[random.index(directories.len())];
        let path = format!("{above}/{number}")
            .trim_start_matches('/')
            .to_string();
        let is_directory = random.one_in(2);
        let kind = if is_directory {
            PathKind::Directory
        } else {
            PathKind::File
        };
        store.create_at(kind, &path).unwrap();
        tree.insert(path, Node::random(is_directory, random));
    }
    for (path, node) in &tree {
        node.set(store, path);
    }
    tree
}

#[test]
fn callers_have_the_rights_of_a_plain_tree() {
    let mut outcomes = BTreeMap::new();
    for seed in test_seeds(10) {
        let mut random = Choices::new(seed);
        let store = lake();
        let mut tree = random_tree(&store, &mut random);
        for _ in 0..300 {
            let caller = Caller {
                id: random.pick(&USERS).to_string(),
                groups: GROUPS
                    .iter()
                    .filter(|_| random.one_in(3))
                    .map(|g| g.to_string())
                    .collect(),
                has_all_rights: false,
            };
            let paths: Vec<&String> = tree.keys().filter(|path| !path.is_empty()).collect();
            let path = paths[random.index(paths.len())].clone();
            let at = BlobAddress {
                caller: Some(&caller),
                ..address(&path)
            };
            let (node, none) = (&tree[&path], Conditions::default());
            let passes = parents(&path)
                .iter()
                .all(|parent| tree[*parent].allows(&caller, 1));
            let above = &tree[parent(&path)];
            let (what, found, expected) = match random.below(4) {
                0 if !node.is_directory => {
                    let read = store.get_blob(&at, None, &none).map(drop);
                    ("read", read, passes && node.allows(&caller, 4))
                }
                1 if !node.is_directory => {
                    let written = store.create_path(&at, create(PathKind::File)).map(drop);
                    ("write", written, passes && node.allows(&caller, 2))
                }
                2 if node.is_directory => {
                    let request = ListPaths {
                        directory: path.clone(),
                        caller: Some(caller.clone()),
                        ..ListPaths::default()
                    };
                    let listed = store.list_paths(ACCOUNT, CONTAINER, &request).map(drop);
                    ("list", listed, passes && node.allows(&caller, 5))
                }
                3 if !node.is_directory => {
                    let owns = [node.owner, above.owner].contains(&&*caller.id);
                    let may = passes && above.allows(&caller, 3) && (!above.sticky || owns);
                    (
                        "delete",
                        store.delete_path(&at, false, &none).map(drop),
                        may,
                    )
                }
                _ => continue,
            };
            match found {
                Ok(()) => assert!(expected, "{what} {path} {caller:?}"),
                Err(Error::AuthorizationPermissionMismatch) => {
                    assert!(!expected, "{what} {path} {caller:?}");
                }
                Err(other) => panic!("{other:?}"),
            }
            *outcomes.entry((what, expected)).or_insert(0) += 1;
            if what == "delete" && expected {
                tree.remove(&path);
            }
        }
    }
    assert_eq!(outcomes.len(), 8, "{outcomes:?}");
}
