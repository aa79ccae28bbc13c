//! A small cluster's state with something of every kind, and what becomes of it.

use super::*;
use fairhold_access::{Principal, token::TokenHash};
use fairhold_state::{
    State,
    command::{
        AccessChange, AccessRequester, Acquire, ActOrigin, ChangeAccess, Claimant, Command, CreateJoinToken, IfBusy, Lifetime,
        Meta, OpenSession, Operation, Outcome, Owner, SetLock, Transact, Want, WriteKey,
    },
    history_page::HistoryQuery,
};
use fairhold_types::{
    ClusterId, ClusterVersion, FencingToken, GrantId, LockName, MemberRole, Mode, Path, Revision, SessionId, time::WallMillis,
};
use std::io::{self, Read};

const AT: WallMillis = WallMillis(1_795_236_840_120);
const LATER: WallMillis = WallMillis(1_795_236_900_000);
const JOIN_SECRET: [u8; 32] = [0xc7; 32];
const TOKEN_HASH: TokenHash = TokenHash([0xa5; 32]);

/// A number whose bytes occur nowhere by chance.
fn secret(number: u8) -> u128 {
    u128::from_be_bytes([0x9d, 0x31, 0xe7, number, 0x4b, 0xf2, 0x86, number, 0x5c, 0xd9, 0xa3, number, 0x68, 0xbe, 0x17, number])
}

const HELD: u8 = 1;
const WAITING: u8 = 2;
const RELEASED: u8 = 3;
const SESSION: u8 = 4;
const SESSION_KEY: u8 = 5;
const WRITE_KEY: u8 = 6;
const ANONYMOUS: u8 = 7;
const SECRETS: std::ops::RangeInclusive<u8> = HELD..=ANONYMOUS;

fn lock(name: &str) -> LockName {
    LockName::parse(name).unwrap()
}

fn path(text: &str) -> Path {
    Path::parse(text).unwrap()
}

fn acquire(id: u8, name: &str, claimant: Claimant) -> Command {
    Command::Acquire(Acquire {
        grant: GrantId::from_ulid(secret(id)),
        id_given: true,
        wants: vec![Want { lock: lock(name), mode: Mode::Exclusive }],
        claimant,
        if_busy: IfBusy::Queue,
        limit: None,
        permits: 1,
        priority: 0,
        owner: Owner { text: format!("owner-{id}"), given: true },
        meta: Meta::new(),
        lock_delay_ms: 0,
        reentrant: false,
        max_hold_ms: None,
        value: None,
        at: AT,
    })
}

fn put(at: &str, value: &[u8], lifetime: Lifetime, key: Option<u8>) -> Command {
    let key = key.map(|key| WriteKey { key: GrantId::from_ulid(secret(key)), fingerprint: [7; 16] });
    let then = vec![Operation::Put { path: path(at), value: value.to_vec().into(), parents: true, lifetime }];
    Command::Transact(Transact { key, conditions: Vec::new(), then, otherwise: None, at: AT })
}

fn applied(state: &mut State, command: &Command) -> Outcome {
    state.apply(command).answer.result.unwrap_or_else(|rejection| panic!("{command:?}: {rejection:?}"))
}

/// A state with sessions, grants, ephemeral nodes, history, remembered ids, tokens and acts.
fn sample() -> State {
    let mut state = State::new();
    let session = SessionId(secret(SESSION));
    let claimant = || Claimant::Session(session);
    let requester = || AccessRequester { principal: Principal::file_admin(), client: "curl".to_owned() };
    let origin = || ActOrigin { principal: Principal::file_admin(), address: "10.0.0.1".to_owned(), request: "r".to_owned() };
    for command in [
        Command::FormClusterAt { cluster: ClusterId(7), version: ClusterVersion(2) },
        Command::OpenSession(OpenSession {
            key: Some(GrantId::from_ulid(secret(SESSION_KEY))),
            id: session,
            timeout_ms: 30_000,
            name: "worker".to_owned(),
            meta: Meta::new(),
            at: AT,
        }),
        acquire(RELEASED, "orders", claimant()),
        Command::Release { grant: GrantId::from_ulid(secret(RELEASED)), session: Some(session), at: AT },
        acquire(HELD, "orders", claimant()),
        acquire(WAITING, "orders", Claimant::Anonymous { timeout_ms: 5_000 }),
        acquire(ANONYMOUS, "stock", Claimant::Anonymous { timeout_ms: 5_000 }),
        put("/app/config", b"blue", Lifetime::Persistent, Some(WRITE_KEY)),
        put("/app/config", b"green", Lifetime::Persistent, None),
        put("/app/live/one", b"here", Lifetime::Ephemeral { session }, None),
        Command::SetLock(SetLock {
            key: None,
            lock: lock("orders"),
            limit: None,
            max_waiters: Some(9),
            max_hold_ms: None,
            by: "curl".to_owned(),
            at: AT,
        })
        .attributed(origin()),
        Command::ChangeAccess(ChangeAccess {
            key: None,
            change: AccessChange::CreateToken { hash: TOKEN_HASH, user: "ci".parse().unwrap(), expires_at: None },
            requester: requester(),
            at: AT,
        })
        .attributed(origin()),
        Command::CreateJoinToken(CreateJoinToken {
            key: None,
            secret_hash: JOIN_SECRET,
            role: MemberRole::Voter,
            replaces: None,
            standing: false,
            up_to: None,
            expires_at: Some(LATER),
            by: "curl".to_owned(),
            at: AT,
        }),
        Command::RecordCapacity { node: 1, bytes: 1 << 30 },
    ] {
        applied(&mut state, &command);
    }
    state.check().unwrap();
    state
}

fn origin() -> BackupOrigin {
    let member = BackupMember { id: 1, url: "http://a:7171".to_owned(), address: "a:7271".to_owned(), voter: true };
    let source = BackupSource::Barrier;
    BackupOrigin { node: 1, release: "0.1.0".to_owned(), source, log: Some((2, 40)), members: vec![member], at: LATER }
}

fn file_of(state: &State) -> Vec<u8> {
    let mut file = Vec::new();
    Backup::new(state, origin()).write(&mut file).unwrap();
    file
}

fn read(bytes: &[u8]) -> Result<Backup, ReadBackupError> {
    Backup::read(bytes).map(|(backup, _)| backup)
}

fn request(at: u64) -> RestoreRequest {
    RestoreRequest { cluster: ClusterId(8), at: WallMillis(LATER.0 + at), above: None, revoke_tokens: false }
}

fn restored_sample() -> State {
    restored(Backup::new(&sample(), origin()), &request(1)).unwrap()
}

#[test]
fn a_backup_is_read_as_it_was_written() {
    let state = sample();
    let backup = Backup::new(&state, origin());
    let mut pieces = backup.pieces();
    let file: Vec<u8> = pieces.by_ref().flat_map(|piece| piece.unwrap()).collect();
    let written = pieces.summary().unwrap();
    let (found, summary) = Backup::read(file.as_slice()).unwrap();
    assert!(found == backup, "the state or the header differs");
    assert_eq!((summary, summary.bytes), (written, file.len() as u64));
    let (found, summary, digest) = Backup::read_with_digest(file.as_slice()).unwrap();
    assert!(found == backup, "the state or the header differs");
    assert_eq!((summary, digest), (written, backup.state().digest()));
    assert_eq!(Backup::read_header(file.as_slice()).unwrap(), *backup.header());
    let header = backup.header();
    assert_eq!((header.sessions, header.grants), (3, 3));
    assert_eq!((header.revision, backup.state().revision()), (state.revision(), state.revision().next()));
    assert_eq!(file, file_of(&state), "equal states give equal files");
}

#[test]
fn every_truncation_is_found() {
    let file = file_of(&sample());
    for length in 0..file.len() {
        let error = read(&file[..length]).unwrap_err();
        assert!(matches!(error, ReadBackupError::Damaged(_)), "{length} bytes: {error}");
    }
}

#[test]
fn every_changed_byte_is_found() {
    let file = file_of(&sample());
    let mut changes = 0;
    for at in 0..file.len() {
        for with in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
            let mut changed = file.clone();
            changed[at] ^= with;
            let error = read(&changed).unwrap_err();
            assert!(matches!(error, ReadBackupError::Damaged(_)), "byte {at}: {error}");
            changes += 1;
        }
    }
    assert!(changes > 5_000, "only {changes} changes");
}

#[test]
fn damage_names_its_place() {
    let file = file_of(&sample());
    let complaint = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    let changed = |at: usize| {
        let mut changed = file.clone();
        changed[at] ^= 1;
        complaint(&changed)
    };
    assert_eq!(complaint(b""), "it is not a backup of Fairhold");
    assert_eq!(complaint(&[7; 4096]), "it is not a backup of Fairhold");
    assert!(changed(MAGIC.len()).starts_with("its format is 0"), "{}", changed(MAGIC.len()));
    assert!(changed(MAGIC.len() + 9).starts_with("the header is damaged: wrong checksum"), "{}", changed(MAGIC.len() + 9));
    let in_block = file.len() - 100;
    assert!(changed(in_block).starts_with("block 0 is damaged: wrong checksum"), "{}", changed(in_block));
    assert!(changed(file.len() - 20).starts_with("the trailer is damaged"), "{}", changed(file.len() - 20));
    assert_eq!(complaint(&file[..in_block]), "it is truncated in block 0");
    assert_eq!(Backup::read_with_digest(&file[..in_block]).unwrap_err().to_string(), "it is truncated in block 0");
    assert_eq!(complaint(&file[..file.len() - 1]), "it is truncated in the trailer");
    assert_eq!(complaint(&[file.as_slice(), &[0]].concat()), "something follows its trailer");
}

#[test]
fn a_giant_length_is_refused_before_anything_is_read() {
    let file = file_of(&sample());
    let mut giant = file[..=MAGIC.len()].to_vec();
    giant.extend_from_slice(&u32::MAX.to_le_bytes());
    assert!(read(&giant).unwrap_err().to_string().contains("exceeds"), "a header");
    let header = u32::from_le_bytes(file[16..20].try_into().unwrap()) as usize;
    let mut giant = file[..20 + header].to_vec();
    giant.extend_from_slice(&u32::MAX.to_le_bytes());
    assert!(read(&giant).unwrap_err().to_string().starts_with("block 0 is damaged: its length"), "a block");
}

#[test]
fn an_error_of_the_input_is_no_damage() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
    let file = file_of(&sample());
    for length in [0, 10, 40, file.len() / 2, file.len()] {
        let error = Backup::read(file[..length].chain(Broken)).unwrap_err();
        assert!(matches!(error, ReadBackupError::Io(_)), "{length} bytes: {error}");
    }
}

#[test]
fn a_version_that_this_program_does_not_support_is_refused() {
    let mut state = State::new();
    applied(&mut state, &Command::FormClusterAt { cluster: ClusterId(7), version: ClusterVersion(9) });
    let error = read(&file_of(&state)).unwrap_err().to_string();
    assert!(error.contains("version 9") && error.contains("supports 1 to 2"), "{error}");
}

#[test]
fn no_id_key_or_secret_is_in_a_backup() {
    let state = sample();
    let snapshot: Vec<u8> = state.snapshot_blocks().flatten().collect();
    let file = file_of(&state);
    let has = |bytes: &[u8], needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    for number in SECRETS {
        let needle = secret(number).to_le_bytes();
        assert!(has(&snapshot, &needle), "a snapshot has the secret {number}, in these bytes");
        assert!(!has(&file, &needle), "the backup has the secret {number}");
        assert!(!has(&file, &secret(number).to_be_bytes()), "the backup has the secret {number}");
    }
    assert!(has(&snapshot, &JOIN_SECRET) && !has(&file, &JOIN_SECRET), "the hash of a join token");
    assert!(has(&file, &TOKEN_HASH.0), "the hash of an access token stays");
}

#[test]
fn a_state_with_a_capability_is_no_backup() {
    let mut state = sample();
    let error = state.check_for_backup().unwrap_err();
    assert!(error.contains("3 sessions"), "{error}");
    state = state.for_backup(LATER);
    state.check_for_backup().unwrap();
    applied(&mut state, &acquire(HELD, "orders", Claimant::Anonymous { timeout_ms: 5_000 }));
    let header = BackupHeader::new(origin(), &state, &state);
    let header = BackupHeader { revision: Revision(state.revision().0 - 1), ..header };
    let mut file = Vec::new();
    Backup { header, state }.write(&mut file).unwrap();
    assert!(read(&file).unwrap_err().to_string().starts_with("its state is inconsistent: it has 1 sessions"));
}

#[test]
fn what_was_held_is_in_the_history_and_what_was_written_stays() {
    let state = sample();
    let backup = Backup::new(&state, origin());
    let (config, kept) = (path("/app/config"), backup.state());
    assert_eq!(kept.node(&config), state.node(&config), "with its versions and revisions");
    assert!(kept.node(&path("/app/live/one")).is_none(), "an ephemeral node ends with its session");
    let parent = kept.node(&path("/app/live")).unwrap();
    assert_eq!((parent.creates, parent.num_children), (1, 0), "the counter for sequential names goes on");
    let orders = lock("orders");
    assert_eq!(kept.lock(&orders).max_waiters, Some(9));
    assert_eq!(kept.lock(&orders).last_token, state.lock(&orders).last_token);
    let entries =
        |state: &State| state.history(&HistoryQuery { lock: orders.clone(), when: None, after: None, limit: 10 }).items.len();
    assert_eq!((entries(&state), entries(kept)), (2, 2), "the hold is an entry, before and after");
    assert_eq!(kept.access().token_count(), 1);
    assert_eq!(kept.audit().head(), state.audit().head());
    assert_eq!(kept.bytes_max(), None, "the new nodes report what they can hold");
}

#[test]
fn every_new_token_is_larger_and_a_retry_is_a_new_grant() {
    let before = sample();
    let old = before.lock(&lock("orders")).last_token.unwrap();
    let mut state = restored_sample();
    state.check().unwrap();
    assert_eq!((state.cluster(), state.live_grants(), state.session_count()), (Some(ClusterId(8)), 0, 0));
    let retry = acquire(HELD, "orders", Claimant::Anonymous { timeout_ms: 5_000 });
    applied(&mut state, &retry);
    let token = state.lock(&lock("orders")).last_token.unwrap();
    assert!(token.0 > old.0 + (1 << 32), "{token} after {old}");
    applied(&mut state, &put("/app/config", b"red", Lifetime::Persistent, Some(WRITE_KEY)));
    let node = state.node(&path("/app/config")).unwrap();
    assert_eq!((node.version, node.czxid), (2, before.node(&path("/app/config")).unwrap().czxid), "versions count on");
    state.check().unwrap();
    assert!(FencingToken(node.mzxid.0) > token);
}

#[test]
fn the_audit_goes_on_with_the_restore() {
    let before = sample();
    let state = restored_sample();
    let (old, new) = (before.audit().head().unwrap(), state.audit().head().unwrap());
    assert_eq!(new.seq, old.seq + 1);
    let entry = state.audit().get(new.seq).unwrap();
    assert_eq!((entry.verb.as_str(), entry.revision, entry.at), ("cluster.restore", state.revision(), request(1).at));
    assert_eq!(entry.expected_hash(new.seq, old.hash), new.hash);
}

/// A backup has no such record, but a forged file may.
#[test]
fn a_restored_cluster_takes_no_record_of_a_node_from_the_file() {
    let mut backup = Backup::new(&sample(), origin());
    applied(&mut backup.state, &Command::RecordCapacity { node: 9, bytes: 1 << 30 });
    backup.state.check_for_backup().unwrap();
    assert_eq!(backup.state.bytes_max(), Some(1 << 30));
    let state = restored(backup, &request(1)).unwrap();
    assert_eq!(state.bytes_max(), None, "the new nodes report what they can hold");
    state.check_for_backup().unwrap();
}

#[test]
fn access_tokens_stay_unless_they_are_revoked() {
    assert!(restored_sample().access().token_with(&TOKEN_HASH).is_some());
    let request = RestoreRequest { revoke_tokens: true, ..request(1) };
    let state = restored(Backup::new(&sample(), origin()), &request).unwrap();
    assert!(state.access().token_with(&TOKEN_HASH).is_none());
    state.check().unwrap();
}

#[test]
fn the_same_file_restored_twice_never_gives_a_token_twice() {
    let file = file_of(&sample());
    let [mut first, mut second] = [1, 2000].map(|at| restored(read(&file).unwrap(), &request(at)).unwrap());
    let mut last = Revision(0);
    for number in 0..1000_u32 {
        applied(&mut first, &put("/n", &number.to_le_bytes(), Lifetime::Persistent, None));
        last = first.revision();
    }
    applied(&mut second, &acquire(HELD, "orders", Claimant::Anonymous { timeout_ms: 5_000 }));
    assert!(second.lock(&lock("orders")).last_token.unwrap().0 > last.0);
    let again = Backup::new(&first, BackupOrigin { at: request(1).at, ..origin() });
    let third = restored(again, &request(1)).unwrap();
    assert!(third.revision() > last.next(), "a backup of a restored cluster, by a clock that stands still");
}

/// A backup of a restored cluster, which is ahead of the clock.
fn backup_of_a_restored_cluster(at: u64, above: Option<u64>) -> Backup {
    let request = RestoreRequest { above: above.map(Revision), ..request(at) };
    let mut state = restored(Backup::new(&sample(), origin()), &request).unwrap();
    applied(&mut state, &acquire(HELD, "orders", Claimant::Anonymous { timeout_ms: 5_000 }));
    Backup::new(&state, BackupOrigin { at: WallMillis(request.at.0 + 3_000), ..origin() })
}

#[test]
fn a_backup_of_a_restored_cluster_restored_twice_never_gives_a_token_twice() {
    for above in [None, Some(7_000_000_000_000_000)] {
        let mut last = backup_of_a_restored_cluster(0, above).state.lock(&lock("orders")).last_token.unwrap();
        for at in [6_000, 7_000, 8_000] {
            let mut state = restored(backup_of_a_restored_cluster(0, above), &request(at)).unwrap();
            applied(&mut state, &acquire(WAITING, "orders", Claimant::Anonymous { timeout_ms: 5_000 }));
            let token = state.lock(&lock("orders")).last_token.unwrap();
            assert!(token.0 > last.0 + 1000, "{token} after {last}");
            last = token;
        }
        // The first file is older. After `above`, it needs it again.
        let request = RestoreRequest { above: above.map(Revision), ..request(9_000) };
        let oldest = restored(Backup::new(&sample(), origin()), &request).unwrap();
        assert!(oldest.revision().0 > last.0 + 1000, "{} after {last}", oldest.revision());
        assert!(oldest.revision().0 < 1 << 53);
    }
}

#[test]
fn a_clock_before_the_backup_is_refused() {
    let backup = || Backup::new(&sample(), origin());
    let early = RestoreRequest { at: WallMillis(LATER.0 - 1), ..request(0) };
    let error = restored(backup(), &early).unwrap_err();
    assert!(matches!(error, RestoreError::Clock { .. }) && error.to_string().contains("set the clock"), "{error}");
    let before = backup().state.revision();
    assert!(error.to_string().ends_with(&format!("or {before} if that is larger")), "{error}");
    let below = RestoreRequest { above: Some(Revision(before.0 - 1)), ..early.clone() };
    assert_eq!(restored(backup(), &below).unwrap_err(), error, "it does not cover the backup");
    let above = RestoreRequest { above: Some(before), ..early };
    assert!(restored(backup(), &above).unwrap().revision() > before, "the clock of the backup was wrong");
    let unset = RestoreRequest { at: WallMillis(0), ..above };
    assert_eq!(restored(backup(), &unset).unwrap_err(), RestoreError::NotSet { now: WallMillis(0) });
    // 2026-06-01T00:00:00Z.
    let june = WallMillis(1_780_272_000_000);
    let behind = BackupOrigin { at: WallMillis(june.0 - 1), ..origin() };
    let error = restored(Backup::new(&sample(), behind), &RestoreRequest { at: june, ..request(0) }).unwrap_err();
    assert_eq!(error, RestoreError::NotSet { now: june }, "the program is newer");
}

#[test]
fn a_number_that_leaves_less_than_fifty_years_is_refused_and_the_largest_that_works_is_named() {
    let with = |above: u64| {
        let request = RestoreRequest { above: Some(Revision(above)), ..request(0) };
        restored(Backup::new(&sample(), origin()), &request)
    };
    // A digit too many.
    let error = with(8_700_000_000_000_000).unwrap_err();
    let RestoreError::Above { largest, .. } = &error else { panic!("{error}") };
    assert!(error.to_string().ends_with(&format!("The largest number that works is {largest}")), "{error}");
    assert!(matches!(with(largest.0 + 1), Err(RestoreError::Above { .. })));
    let state = with(largest.0).unwrap();
    assert!(state.revision() > *largest);
    // A backup of this cluster needs no number, as long as there are any.
    let after = |years: u64| {
        let backup = Backup::new(&state, BackupOrigin { at: request(1).at, ..origin() });
        restored(backup, &request(years * 365 * 86_400_000))
    };
    assert!(after(50).unwrap().revision() > state.revision());
    let error = after(60).unwrap_err();
    assert!(matches!(error, RestoreError::Revision { .. }), "{error}");
    assert!(error.to_string().contains("set the clock") && !error.to_string().contains("--revision-above"), "{error}");
}
