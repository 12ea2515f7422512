use super::*;
use crate::access::{AccessControl, Acl, Rights};
use crate::error::Error;
use crate::etag::time_of_ticks;
use crate::guid::Guid;
use crate::lease::{LeaseDuration, LeaseHolder};
use crate::model::PreviousState;
use crate::model::{BlobHeaders, CopyState, CopyStatus, Deleted, Layer, Metadata, Pages};
use crate::snapshot_time::SnapshotTime;
use crate::tier::{AccessTier, RehydratePriority, Rehydration};
use proptest::option;
use proptest::prelude::*;
use std::time::SystemTime;

const HOME: u128 = 0xC0;

fn time() -> impl Strategy<Value = SystemTime> {
    any::<u64>().prop_map(time_of_ticks)
}

fn metadata() -> impl Strategy<Value = Metadata> {
    prop::collection::vec((".{0,8}", ".{0,200}"), 0..4)
}

fn deleted() -> impl Strategy<Value = Deleted> {
    (time(), time()).prop_map(|(at, until)| Deleted {
        at,
        until,
        previous: None,
    })
}

fn deleted_blob() -> impl Strategy<Value = Deleted> {
    let moment = || any::<u64>().prop_map(SnapshotTime);
    let previous = prop_oneof![
        Just(None),
        Just(Some(PreviousState::Blob)),
        moment().prop_map(|moment| Some(PreviousState::Snapshot(moment))),
        moment().prop_map(|moment| Some(PreviousState::Version(moment))),
    ];
    (deleted(), previous).prop_map(|(deleted, previous)| Deleted {
        previous,
        ..deleted
    })
}

fn lease() -> impl Strategy<Value = Lease> {
    let duration = prop_oneof![
        Just(LeaseDuration::Infinite),
        (1u32..100).prop_map(LeaseDuration::Seconds)
    ];
    let held = (
        any::<u128>(),
        duration,
        option::of(time()),
        option::of(time()),
    );
    let held = held.prop_map(|(id, duration, until, broken_at)| LeaseHolder {
        id: Guid(id),
        duration,
        until,
        broken_at,
    });
    option::of(held).prop_map(Lease)
}

fn container() -> impl Strategy<Value = Container> {
    let access = prop::sample::select(vec![
        PublicAccess::Private,
        PublicAccess::Blob,
        PublicAccess::Container,
    ]);
    let policy = (
        ".{0,64}",
        option::of(time()),
        option::of(time()),
        option::of("[rwd]*"),
    );
    let policy = policy.prop_map(|(id, start, expiry, permission)| StoredPolicy {
        id,
        start,
        expiry,
        permission,
    });
    let policies = prop::collection::vec(policy, 0..5);
    let validators = (any::<u128>(), any::<u64>(), time());
    let newer = (
        option::of(".{0,9}"),
        any::<(bool, bool)>(),
        option::of(deleted()),
    );
    (validators, access, policies, metadata(), lease(), newer).prop_map(
        |(validators, public_access, policies, metadata, lease, newer)| Container {
            id: validators.0,
            etag: ETag(validators.1),
            last_modified: validators.2,
            public_access,
            policies,
            metadata,
            lease,
            default_encryption_scope: newer.0,
            deny_encryption_scope_override: newer.1.0,
            immutable_versions: newer.1.1,
            hierarchical: newer.1.0,
            deleted: newer.2,
        },
    )
}

fn headers() -> impl Strategy<Value = BlobHeaders> {
    let text = || option::of(".{0,150}");
    let texts = (text(), text(), text(), text(), text());
    let md5 = option::of(prop_oneof![
        prop::collection::vec(any::<u8>(), 16..=16),
        prop::collection::vec(any::<u8>(), 0..300),
    ]);
    (texts, md5).prop_map(|(texts, md5)| BlobHeaders {
        content_type: texts.0,
        content_encoding: texts.1,
        content_language: texts.2,
        cache_control: texts.3,
        content_disposition: texts.4,
        content_md5: md5,
    })
}

fn tiering() -> impl Strategy<Value = Tiering> {
    let tier = || {
        prop::sample::select(vec![
            AccessTier::Hot,
            AccessTier::Archive,
            AccessTier::Smart,
            AccessTier::Premium(80),
        ])
    };
    let priority = any::<bool>().prop_map(|high| {
        if high {
            RehydratePriority::High
        } else {
            RehydratePriority::Standard
        }
    });
    let rehydration = (tier(), priority, time());
    let rehydration = rehydration.prop_map(|(to, priority, ready_at)| Rehydration {
        to,
        priority,
        ready_at,
    });
    (
        option::of(tier()),
        option::of(time()),
        option::of(rehydration),
    )
        .prop_map(|(explicit, changed_at, rehydration)| Tiering {
            explicit,
            changed_at,
            rehydration,
        })
}

fn copy() -> impl Strategy<Value = CopyState> {
    let status = prop::sample::select(vec![
        CopyStatus::Pending,
        CopyStatus::Success,
        CopyStatus::Aborted,
        CopyStatus::Failed,
    ]);
    let texts = (".{0,50}", option::of(".{0,50}"));
    let numbers = any::<(u128, u64, u64, Option<u64>, Option<u64>)>();
    (status, texts, numbers, option::of(time())).prop_map(
        |(status, texts, numbers, completed_at)| CopyState {
            id: Guid(numbers.0),
            source: texts.0,
            status,
            copied: numbers.1,
            total: numbers.2,
            completed_at,
            description: texts.1,
            destination_snapshot: numbers.3.map(SnapshotTime),
            incremental: numbers.4.map(SnapshotTime),
        },
    )
}

fn layers() -> impl Strategy<Value = Vec<Layer>> {
    let home = prop_oneof![Just(HOME), any::<u128>()];
    let layer = (home, any::<(u128, bool, u64, Option<u128>)>());
    let layer = layer.prop_map(|(home, (id, shared, end, root))| Layer {
        file: File { home, id },
        shared,
        end,
        root,
    });
    prop::collection::vec(layer, 0..4)
}

/// The content of an extent: its id, `skipped`, the length of the extent, and `sealed_as`.
type StoredPages = (u128, u32, u32, Option<(u128, u32)>);

fn encryption() -> impl Strategy<Value = Encryption> {
    prop_oneof![
        Just(Encryption::None),
        any::<[u8; 32]>().prop_map(Encryption::CustomerKey),
        ".{0,60}".prop_map(Encryption::Scope),
    ]
}

fn access() -> impl Strategy<Value = AccessControl> {
    let rights = || (0..8u8).prop_map(Rights);
    let named = move || prop::collection::vec((".{0,40}", rights()), 0..4);
    let acl = move || {
        let all = (
            rights(),
            rights(),
            rights(),
            option::of(rights()),
            named(),
            named(),
        );
        all.prop_map(|(owner, group, other, mask, users, groups)| Acl {
            owner,
            group,
            other,
            mask,
            users,
            groups,
        })
    };
    let ids = || prop_oneof![Just("$superuser".to_string()), ".{1,40}"];
    let all = (ids(), ids(), any::<bool>(), acl(), option::of(acl()));
    all.prop_map(|(owner, group, sticky, acl, default_acl)| AccessControl {
        owner,
        group,
        sticky,
        acl,
        default_acl,
    })
}

fn blob() -> impl Strategy<Value = Blob> {
    let content = prop_oneof![
        Just(Content::Whole),
        any::<u32>().prop_map(|count| Content::Blocks { count }),
        any::<(u32, bool)>().prop_map(|(count, sealed)| Content::Appends { count, sealed }),
        any::<u64>().prop_map(|sequence| Content::Pages { sequence }),
        any::<u128>().prop_map(|id| Content::Directory { id }),
    ];
    let immutability = (time(), any::<bool>()).prop_map(|(until, locked)| ImmutabilityPolicy {
        until,
        mode: if locked {
            ImmutabilityMode::Locked
        } else {
            ImmutabilityMode::Unlocked
        },
    });
    let stamps = (any::<u64>(), time(), time(), any::<u64>());
    let texts = (headers(), metadata(), metadata());
    let states = (
        lease(),
        tiering(),
        option::of(copy()),
        option::of(deleted_blob()),
    );
    let moments = any::<(Option<u128>, Option<u64>, Option<u64>, Option<u64>)>();
    let guards = (
        option::of(immutability),
        any::<bool>(),
        encryption(),
        option::of(time()),
        option::of(access().prop_map(Box::new)),
        option::of(".{0,60}"),
    );
    (content, layers(), stamps, texts, states, moments, guards).prop_map(
        |(content, layers, stamps, texts, states, moments, guards)| Blob {
            layers,
            content,
            staging: moments.0,
            etag: ETag(stamps.0),
            last_modified: stamps.1,
            created_at: stamps.2,
            length: stamps.3,
            headers: texts.0,
            metadata: texts.1,
            tags: texts.2,
            lease: states.0,
            tiering: states.1,
            copy: states.2,
            expires_at: guards.3,
            snapshot: moments.1.map(SnapshotTime),
            version: moments.2.map(SnapshotTime),
            deleted: states.3,
            immutability: guards.0,
            legal_hold: guards.1,
            encryption: guards.2,
            replaced_at: moments.3.map(SnapshotTime),
            access: guards.4,
            encryption_context: guards.5,
            is_current: false,
        },
    )
}

proptest! {
    #[test]
    fn containers_come_back(container in container()) {
        prop_assert_eq!(decode_container(&encode_container(&container)).unwrap(), container);
    }

    #[test]
    fn blobs_come_back(blob in blob()) {
        let decoded = decode_blob(&encode_blob(&blob, HOME), HOME).unwrap();
        prop_assert_eq!(*decoded, blob);
    }

    #[test]
    fn merges_come_back(layers in layers(), id: u128, next: u64) {
        let target = File { home: HOME, id };
        let merge = LayerMerge { target, next, layers };
        prop_assert_eq!(decode_merge(&encode_merge(&merge, HOME), HOME).unwrap(), merge);
    }

    #[test]
    fn blocks_come_back(
        id in prop::collection::vec(any::<u8>(), 1..64),
        length: u64,
        content: u128,
        file: Option<(u128, u128)>,
    ) {
        let file = file.map(|(home, id)| File { home, id });
        let block = BlobBlock { id, length, content, file };
        prop_assert_eq!(decode_block(&encode_block(&block)).unwrap(), block);
    }

    #[test]
    fn nodes_of_pages_come_back(
        number in 0u64..1 << 20,
        parts in prop::collection::vec((1u64..9000, 1u64..5000, any::<StoredPages>()), 0..9),
        branch in prop::collection::btree_map(any::<u8>(), any::<(bool, u128)>(), 0..64),
        noise in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut end = number * WINDOW_BYTES;
        let extent = |(gap, length, (content, skipped, rest, copied)): (u64, u64, StoredPages)| {
            let start = end + gap;
            end = start + length;
            let skipped = u64::from(skipped);
            let fill = if rest % 4 == 0 {
                Fill::Cleared(content)
            } else {
                Fill::Pages(Pages {
                    content,
                    skipped,
                    stored: skipped + length + u64::from(rest),
                    sealed_as: copied.map(|(content, offset)| (content, u64::from(offset))),
                })
            };
            Extent { range: start..end, fill }
        };
        let extents: Vec<Extent> = parts.into_iter().map(extent).collect();
        prop_assert_eq!(decode_leaf(number, &encode_leaf(number, &extents)).unwrap(), extents);
        let child = |(number, (is_node, id))| (number, if is_node { Child::Node(id) } else { Child::Cleared(id) });
        let branch: Branch = branch.into_iter().map(child).collect();
        prop_assert_eq!(decode_branch(&encode_branch(&branch)).unwrap(), branch);
        let _ = (decode_leaf(number, &noise), decode_branch(&noise));
    }

    #[test]
    fn extents_of_a_leaf_that_lie_outside_or_over_each_other_are_errors(a in 0u64..1 << 18, b in 0u64..1 << 18) {
        let extent = |start: u64| {
            let pages = Pages { content: 1, skipped: 0, stored: 512, sealed_as: None };
            Extent { range: start..start + 512, fill: Fill::Pages(pages) }
        };
        let is_right = b >= a + 512 && b + 512 <= WINDOW_BYTES;
        prop_assert_eq!(decode_leaf(0, &encode_leaf(0, &[extent(a), extent(b)])).is_ok(), is_right);
    }

    #[test]
    fn staging_comes_back(count: u32, id_bytes: u8, touched_at in time(), file: u128, encryption in encryption()) {
        let staging = Staging { count, id_bytes, touched_at, encryption };
        prop_assert_eq!(decode_staging(&encode_staging(&staging)).unwrap(), staging);
        prop_assert_eq!(decode_uncommitted(&encode_uncommitted(file)).unwrap(), file);
    }

    #[test]
    fn policies_and_counts_come_back(bits: (bool, bool), days: (Option<u16>, Option<u16>), seconds: u32, count: u64) {
        let policy = AccountPolicy {
            versioning: bits.0,
            delete_retention_days: days.0,
            permanent_delete: bits.1,
            container_retention_days: days.1,
            rehydrate_seconds: seconds,
        };
        prop_assert_eq!(decode_policy(&encode_policy(&policy)).unwrap(), policy);
        prop_assert_eq!(decode_count(&encode_count(count)).unwrap(), count);
    }

    #[test]
    fn cut_or_lengthened_values_are_errors(blob in blob(), at: prop::sample::Index) {
        let mut value = encode_blob(&blob, HOME);
        prop_assert!(decode_blob(&value[..at.index(value.len())], HOME).is_err());
        value.push(0);
        prop_assert!(decode_blob(&value, HOME).is_err());
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(mut value in prop::collection::vec(any::<u8>(), 0..200), version in 1u8..4) {
        if let Some(first) = value.first_mut() {
            *first = version;
        }
        let _ = (decode_container(&value), decode_blob(&value, HOME), decode_policy(&value));
        let _ = (decode_block(&value), decode_staging(&value));
        let _ = (decode_uncommitted(&value), decode_count(&value));
    }
}

/// A decoder, of which only the error counts.
type Takes = fn(&[u8]) -> Result<()>;

#[test]
fn values_of_other_versions_are_refused_with_the_version() {
    let forms: [(Takes, &[u8]); 5] = [
        (|value| decode_container(value).map(drop), &[2]),
        (|value| decode_blob(value, HOME).map(drop), &[2]),
        (|value| decode_block(value).map(drop), &[1, 2]),
        (|value| decode_staging(value).map(drop), &[1, 2, 3]),
        (|value| decode_uncommitted(value).map(drop), &[1]),
    ];
    let block = BlobBlock {
        id: vec![1],
        length: 1,
        content: 1,
        file: None,
    };
    assert!(decode_block(&encode_block(&block)).is_ok());
    for (takes, known) in forms {
        for version in (0..=5).filter(|version| !known.contains(version)) {
            let Err(Error::InternalError { reason }) = takes(&[version, 0, 0]) else {
                panic!("version {version} is not refused");
            };
            assert!(reason.contains(&format!("version {version} ")), "{reason}");
        }
    }
}
