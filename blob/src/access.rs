//! Who may do what with a path of a hierarchical container: owner, group, and POSIX access control
//! lists, as text, as set by requests, and as inherited by new paths. Source: Access control lists
//! in Azure Data Lake Storage.

use crate::error::{Error, Result};

/// The owner and the group of paths that nobody else owns.
pub const SUPER_USER: &str = "$superuser";
/// Maximum number of entries of an access control list, and of a default one. Source: Access
/// control lists in Azure Data Lake Storage, "What are the limits for Azure role assignments and
/// ACL entries?".
const ENTRIES_MAX: usize = 32;

/// Rights on one path: read 4, write 2, execute 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Rights(pub(crate) u8);

impl Rights {
    /// The right to read a file, or to list a directory.
    pub const READ: Rights = Rights(4);
    /// The right to write to a file, or, with [`Rights::EXECUTE`], to change what is in a directory.
    pub const WRITE: Rights = Rights(2);
    /// The right to pass through a directory.
    pub const EXECUTE: Rights = Rights(1);
    const ALL: Rights = Rights(7);

    /// These rights and those.
    pub fn and(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }

    /// Whether all of `wanted` are among these rights.
    pub fn include(self, wanted: Rights) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    fn limited_to(self, mask: Rights) -> Rights {
        Rights(self.0 & mask.0)
    }

    /// Parses `rwx`, with `-` for a right that is missing.
    pub fn parse(text: &str) -> Option<Rights> {
        let [read, write, execute] = <[u8; 3]>::try_from(text.as_bytes()).ok()?;
        let bit = |byte, letter, bit| match byte {
            b'-' => Some(0),
            _ => (byte == letter).then_some(bit),
        };
        Some(Rights(
            bit(read, b'r', 4)? | bit(write, b'w', 2)? | bit(execute, b'x', 1)?,
        ))
    }
}

impl std::fmt::Display for Rights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (bit, letter) in [(4, 'r'), (2, 'w'), (1, 'x')] {
            write!(f, "{}", if self.0 & bit == 0 { '-' } else { letter })?;
        }
        Ok(())
    }
}

/// The rights of owner, group and others, and the sticky bit: `x-ms-permissions` and `x-ms-umask`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permissions {
    owner: Rights,
    group: Rights,
    other: Rights,
    sticky: bool,
}

impl Permissions {
    /// The mask of a new path whose parent has no default list, if the request names none. Source:
    /// Path - Create, `x-ms-umask`.
    pub const DEFAULT_UMASK: Permissions = Permissions::of(0o027);
    const DEFAULT_OF_FILE: Permissions = Permissions::of(0o666);
    const DEFAULT_OF_DIRECTORY: Permissions = Permissions::of(0o777);

    const fn of(octal: u16) -> Permissions {
        Permissions {
            owner: Rights((octal >> 6 & 7) as u8),
            group: Rights((octal >> 3 & 7) as u8),
            other: Rights((octal & 7) as u8),
            sticky: octal & 0o1000 != 0,
        }
    }

    /// Parses four octal digits, or nine letters as in `rwxr-x--t`. A `+` at the end is ignored.
    pub fn parse(text: &str) -> Option<Permissions> {
        if (3..=4).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'0'..=b'7')) {
            let octal = u16::from_str_radix(text, 8).ok()?;
            return (octal <= 0o1777).then(|| Permissions::of(octal));
        }
        let letters = text.strip_suffix('+').unwrap_or(text);
        if letters.len() != 9 || !letters.is_ascii() {
            return None;
        }
        let (sticky, last) = match &letters[8..] {
            "t" => (true, "x"),
            "T" => (true, "-"),
            last => (false, last),
        };
        Some(Permissions {
            owner: Rights::parse(&letters[..3])?,
            group: Rights::parse(&letters[3..6])?,
            other: Rights::parse(&format!("{}{last}", &letters[6..8]))?,
            sticky,
        })
    }

    fn without(self, mask: Permissions) -> Permissions {
        let minus = |rights: Rights, mask: Rights| Rights(rights.0 & !mask.0);
        Permissions {
            owner: minus(self.owner, mask.owner),
            group: minus(self.group, mask.group),
            other: minus(self.other, mask.other),
            sticky: self.sticky,
        }
    }
}

/// An access control list: the access list of a path, or the default list of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Acl {
    pub(crate) owner: Rights,
    pub(crate) group: Rights,
    pub(crate) other: Rights,
    /// Limits named users, the group and named groups. Always there if anybody is named.
    pub(crate) mask: Option<Rights>,
    /// Named users by id.
    pub(crate) users: Vec<(String, Rights)>,
    /// Named groups by id.
    pub(crate) groups: Vec<(String, Rights)>,
}

impl Acl {
    fn new(permissions: Permissions) -> Acl {
        Acl {
            owner: permissions.owner,
            group: permissions.group,
            other: permissions.other,
            mask: None,
            users: Vec::new(),
            groups: Vec::new(),
        }
    }

    fn entries(&self) -> usize {
        3 + self.users.len() + self.groups.len() + usize::from(self.mask.is_some())
    }

    /// Sets the bits that `permissions` has; those of the group are the mask's if there is one.
    fn set(&mut self, permissions: Permissions) {
        self.owner = permissions.owner;
        self.other = permissions.other;
        match &mut self.mask {
            Some(mask) => *mask = permissions.group,
            None => self.group = permissions.group,
        }
    }

    /// The list of a new path below a directory that has this default list.
    fn inherited(&self, permissions: Permissions) -> Acl {
        let mut acl = self.clone();
        acl.owner = acl.owner.limited_to(permissions.owner);
        acl.other = acl.other.limited_to(permissions.other);
        match &mut acl.mask {
            Some(mask) => *mask = mask.limited_to(permissions.group),
            None => acl.group = acl.group.limited_to(permissions.group),
        }
        acl
    }

    fn change(&mut self, entry: &AclEntry, rights: Rights) {
        match (entry.kind, entry.id.is_empty()) {
            (AclKind::User, true) => self.owner = rights,
            (AclKind::Group, true) => self.group = rights,
            (AclKind::User, false) => put(&mut self.users, &entry.id, rights),
            (AclKind::Group, false) => put(&mut self.groups, &entry.id, rights),
            (AclKind::Mask, _) => self.mask = Some(rights),
            (AclKind::Other, _) => self.other = rights,
        }
    }

    fn drop(&mut self, entry: &AclEntry) {
        match entry.kind {
            AclKind::User => self.users.retain(|(id, _)| *id != entry.id),
            AclKind::Group => self.groups.retain(|(id, _)| *id != entry.id),
            AclKind::Mask => self.mask = None,
            AclKind::Other => {}
        }
    }

    /// Makes a mask of all that it limits, where a list with names lacks one.
    fn complete(&mut self) {
        let named = self.users.iter().chain(&self.groups);
        let all = named.fold(self.group, |all, (_, rights)| all.and(*rights));
        if self.mask.is_none() && !(self.users.is_empty() && self.groups.is_empty()) {
            self.mask = Some(all);
        }
    }

    fn write(&self, scope: &str, out: &mut Vec<String>) {
        let mut entry = |kind: &str, id: &str, rights: Rights| {
            out.push(format!("{scope}{kind}:{id}:{rights}"));
        };
        entry("user", "", self.owner);
        for (id, rights) in &self.users {
            entry("user", id, *rights);
        }
        entry("group", "", self.group);
        for (id, rights) in &self.groups {
            entry("group", id, *rights);
        }
        if let Some(mask) = self.mask {
            entry("mask", "", mask);
        }
        entry("other", "", self.other);
    }
}

fn put(named: &mut Vec<(String, Rights)>, id: &str, rights: Rights) {
    match named.iter_mut().find(|(other, _)| other == id) {
        Some((_, before)) => *before = rights,
        None => named.push((id.to_string(), rights)),
    }
}

/// The class of callers that an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AclKind {
    User,
    Group,
    Mask,
    Other,
}

/// One entry of `x-ms-acl`: `[default:]kind:id[:rights]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclEntry {
    is_default: bool,
    kind: AclKind,
    /// The object id of a named user or group; empty for the owner and the owning group.
    id: String,
    /// `None` only in a list of entries to remove.
    rights: Option<Rights>,
}

impl AclEntry {
    /// Parses the entries of `x-ms-acl`. With `rights`, each has them; without, none has. Error:
    /// `InvalidInput`.
    pub fn parse_list(text: &str, rights: bool) -> Result<Vec<AclEntry>> {
        let entries: Option<Vec<_>> = text
            .split(',')
            .map(|entry| AclEntry::parse(entry.trim(), rights))
            .collect();
        let entries = entries.ok_or(Error::InvalidInput {
            reason: "x-ms-acl is not a list of [default:]kind:id:rights",
        })?;
        let mut seen = Vec::new();
        for entry in &entries {
            let subject = (entry.is_default, entry.kind as u8, &entry.id);
            if seen.contains(&subject) {
                return Err(Error::InvalidInput {
                    reason: "x-ms-acl names somebody twice",
                });
            }
            if seen.len() == 2 * ENTRIES_MAX {
                return Err(TOO_LONG);
            }
            seen.push(subject);
        }
        Ok(entries)
    }

    fn parse(text: &str, with_rights: bool) -> Option<AclEntry> {
        let (is_default, text) = match text.strip_prefix("default:") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let mut parts = text.split(':');
        let kind = match parts.next()? {
            "user" => AclKind::User,
            "group" => AclKind::Group,
            "mask" => AclKind::Mask,
            "other" => AclKind::Other,
            _ => return None,
        };
        let id = parts.next().unwrap_or_default().to_string();
        let rights = match (parts.next(), with_rights) {
            (Some(rights), true) => Some(Rights::parse(rights)?),
            (None, false) => None,
            _ => return None,
        };
        let is_named = matches!(kind, AclKind::User | AclKind::Group);
        let is_valid = parts.next().is_none() && (id.is_empty() || is_named);
        is_valid.then_some(AclEntry {
            is_default,
            kind,
            id,
            rights,
        })
    }
}

/// A change of the access control of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AclChange {
    /// Replaces the lists. The entries of the owner, the group and others must be there; the default
    /// list goes unless it is given.
    Set(Vec<AclEntry>),
    /// Adds entries, and replaces those of the same name.
    Modify(Vec<AclEntry>),
    /// Removes entries.
    Remove(Vec<AclEntry>),
    /// Sets the rights of owner, group and others, and the sticky bit.
    Permissions(Permissions),
}

impl AclChange {
    /// The change without the entries of a default list, which files do not have.
    pub(crate) fn for_file(&self) -> AclChange {
        let access = |entries: &[AclEntry]| {
            let entries = entries.iter().filter(|entry| !entry.is_default);
            entries.cloned().collect()
        };
        match self {
            AclChange::Set(entries) => AclChange::Set(access(entries)),
            AclChange::Modify(entries) => AclChange::Modify(access(entries)),
            AclChange::Remove(entries) => AclChange::Remove(access(entries)),
            AclChange::Permissions(permissions) => AclChange::Permissions(*permissions),
        }
    }
}

/// The access control of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessControl {
    /// The object id of the owner, or [`SUPER_USER`].
    pub owner: String,
    /// The object id of the owning group, or [`SUPER_USER`].
    pub group: String,
    /// Whether only the owner of a path, or of the directory, may delete or rename what is in the
    /// directory.
    pub sticky: bool,
    pub(crate) acl: Acl,
    /// What new paths in the directory get. `None` for files.
    pub(crate) default_acl: Option<Acl>,
}

/// The access control that a request to create a path names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewAccess {
    /// `x-ms-owner`; `None` for the caller, who is [`SUPER_USER`] unless known by an id.
    pub owner: Option<String>,
    /// `x-ms-group`; `None` for the group of the parent.
    pub group: Option<String>,
    /// `x-ms-permissions`.
    pub permissions: Option<Permissions>,
    /// `x-ms-umask`.
    pub umask: Option<Permissions>,
    /// `x-ms-acl`.
    pub acl: Option<Vec<AclEntry>>,
}

impl NewAccess {
    /// The part of the request that counts for a path that exists. A directory keeps its
    /// permissions: Hadoop sends `x-ms-permissions` and `x-ms-umask` whenever it makes sure that a
    /// directory exists.
    pub(crate) fn of_existing(&self, is_directory: bool) -> NewAccess {
        let mut counts = self.clone();
        if is_directory {
            (counts.permissions, counts.umask) = (None, None);
        }
        counts
    }

    /// Whether the request names rights: permissions, a umask or a list.
    pub(crate) fn names_rights(&self) -> bool {
        self.permissions.is_some() || self.umask.is_some() || self.acl.is_some()
    }
}

/// A caller who is known by object ids: it owns what it makes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// Whether the rights on paths are not checked.
    pub has_all_rights: bool,
    /// The object id of the user.
    pub id: String,
    /// The object ids of its groups.
    pub groups: Vec<String>,
}

/// Whether two object ids are those of one user or group. Nobody is the super user by an id.
fn is_same_id(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) && a != SUPER_USER
}

const TOO_LONG: Error = Error::InvalidInput {
    reason: "a list has at most 32 entries",
};

impl AccessControl {
    /// The access control of the root of a new container. Source: Path - Get Properties, answers of
    /// the hosted service.
    pub(crate) fn of_root() -> AccessControl {
        AccessControl {
            owner: SUPER_USER.to_string(),
            group: SUPER_USER.to_string(),
            sticky: false,
            acl: Acl::new(Permissions::of(0o750)),
            default_acl: None,
        }
    }

    /// The access control of a new path. Source: Path - Create, `x-ms-permissions`, `x-ms-umask`;
    /// Access control lists in Azure Data Lake Storage, "Default ACLs". Error: `InvalidInput`.
    pub(crate) fn of_new(
        parent: &AccessControl,
        is_directory: bool,
        new: &NewAccess,
    ) -> Result<AccessControl> {
        let all = match is_directory {
            true => Permissions::DEFAULT_OF_DIRECTORY,
            false => Permissions::DEFAULT_OF_FILE,
        };
        let permissions = new.permissions.unwrap_or(all);
        let acl = match &parent.default_acl {
            Some(default) => default.inherited(permissions),
            None => {
                let umask = new.umask.unwrap_or(Permissions::DEFAULT_UMASK);
                Acl::new(permissions.without(umask))
            }
        };
        let mut access = AccessControl {
            owner: new.owner.clone().unwrap_or_else(|| SUPER_USER.to_string()),
            group: new.group.clone().unwrap_or_else(|| parent.group.clone()),
            sticky: permissions.sticky,
            acl,
            default_acl: parent.default_acl.clone().filter(|_| is_directory),
        };
        if let Some(entries) = &new.acl {
            access.change(&AclChange::Set(entries.clone()), is_directory)?;
        }
        Ok(access)
    }

    /// Applies a change. Error: `InvalidInput` for a list that lacks the owner, the group or others,
    /// that is too long, or that has default entries for a file.
    pub(crate) fn change(&mut self, change: &AclChange, is_directory: bool) -> Result<()> {
        match change {
            AclChange::Permissions(permissions) => {
                self.acl.set(*permissions);
                self.sticky = permissions.sticky;
                return Ok(());
            }
            AclChange::Set(entries) => self.set(entries)?,
            AclChange::Modify(entries) => self.put_all(entries),
            AclChange::Remove(entries) => {
                for entry in entries {
                    match (entry.is_default, &mut self.default_acl) {
                        (false, _) => self.acl.drop(entry),
                        // Without a name, an entry of the default list stands for all of it.
                        (true, _) if entry.id.is_empty() && entry.kind != AclKind::Mask => {
                            self.default_acl = None;
                        }
                        (true, Some(default)) => default.drop(entry),
                        (true, None) => {}
                    }
                }
            }
        }
        if self.default_acl.is_some() && !is_directory {
            return Err(Error::InvalidInput {
                reason: "only a directory has default entries in x-ms-acl",
            });
        }
        for acl in std::iter::once(&mut self.acl).chain(&mut self.default_acl) {
            acl.complete();
            if acl.entries() > ENTRIES_MAX {
                return Err(TOO_LONG);
            }
        }
        Ok(())
    }

    fn set(&mut self, entries: &[AclEntry]) -> Result<()> {
        let has = |kind: AclKind| {
            let mut access = entries.iter().filter(|entry| !entry.is_default);
            access.any(|entry| entry.kind == kind && entry.id.is_empty())
        };
        if ![AclKind::User, AclKind::Group, AclKind::Other]
            .into_iter()
            .all(has)
        {
            return Err(Error::InvalidInput {
                reason: "x-ms-acl needs entries of the owner, the group and others",
            });
        }
        self.acl = Acl::new(Permissions::of(0));
        self.default_acl = None;
        self.put_all(entries);
        Ok(())
    }

    fn put_all(&mut self, entries: &[AclEntry]) {
        let (default, access): (Vec<_>, Vec<_>) =
            entries.iter().partition(|entry| entry.is_default);
        for entry in access {
            self.acl.change(entry, entry.rights.unwrap_or_default());
        }
        for entry in default {
            // What a default list does not name, it takes from the access list.
            let (owner, group, other) = (self.acl.owner, self.acl.group, self.acl.other);
            let acl = self.default_acl.get_or_insert_with(|| Acl {
                owner,
                group,
                other,
                ..Acl::new(Permissions::of(0))
            });
            acl.change(entry, entry.rights.unwrap_or_default());
        }
    }

    /// `x-ms-permissions`, as in `rwxr-x---`. The letters of the group are the mask's if there is
    /// one, and a `+` then follows.
    pub fn permissions_text(&self) -> String {
        let group = self.acl.mask.unwrap_or(self.acl.group);
        let mut text = format!("{}{group}{}", self.acl.owner, self.acl.other);
        if self.sticky {
            let passes = self.acl.other.include(Rights::EXECUTE);
            text.pop();
            text.push(if passes { 't' } else { 'T' });
        }
        if self.acl.mask.is_some() || self.default_acl.is_some() {
            text.push('+');
        }
        text
    }

    /// `x-ms-acl`: all entries, with commas between them.
    pub fn acl_text(&self) -> String {
        let mut entries = Vec::new();
        self.acl.write("", &mut entries);
        if let Some(default) = &self.default_acl {
            default.write("default:", &mut entries);
        }
        entries.join(",")
    }

    /// Whether the caller owns the path.
    pub(crate) fn is_owned_by(&self, caller: &Caller) -> bool {
        is_same_id(&self.owner, &caller.id)
    }

    /// Whether the caller, who owns the path, may set this owner and this group. Source: Access
    /// control lists in Azure Data Lake Storage, "Changing the owning group".
    pub(crate) fn may_belong_to(
        &self,
        caller: &Caller,
        owner: Option<&String>,
        group: Option<&String>,
    ) -> bool {
        let is_member = |group: &String| caller.groups.iter().any(|own| is_same_id(own, group));
        let may_have = |group: &String| *group == self.group || is_member(group);
        owner.is_none_or(|owner| *owner == self.owner) && group.is_none_or(may_have)
    }

    /// Whether the caller has these rights. Source: Access control lists in Azure Data Lake Storage,
    /// "How permissions are evaluated".
    pub fn allows(&self, caller: &Caller, wanted: Rights) -> bool {
        let mask = self.acl.mask.unwrap_or(Rights::ALL);
        if caller.has_all_rights {
            return true;
        }
        let is = is_same_id;
        if self.is_owned_by(caller) {
            return self.acl.owner.include(wanted);
        }
        if let Some((_, rights)) = self.acl.users.iter().find(|(id, _)| is(id, &caller.id)) {
            return rights.limited_to(mask).include(wanted);
        }
        let is_member = |id: &String| caller.groups.iter().any(|group| is(group, id));
        let owning = (&self.group, self.acl.group);
        let named = self.acl.groups.iter().map(|(id, rights)| (id, *rights));
        let mut groups = std::iter::once(owning)
            .chain(named)
            .filter(|(id, _)| is_member(id));
        let mut is_in_one = false;
        if groups.any(|(_, rights)| {
            is_in_one = true;
            rights.limited_to(mask).include(wanted)
        }) {
            return true;
        }
        !is_in_one && self.acl.other.include(wanted)
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
