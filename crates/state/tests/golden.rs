//! The bytes of commands, answers and snapshots, compared with `proto/golden`: a change of a format is a visible diff,
//! and a reason for another `LOG_FORMAT` or `SNAPSHOT_FORMAT`. `FAIRHOLD_GOLDEN=write` rewrites them.
//!
//! A new variant of a command, an outcome or a rejection does not compile until it has an example here.

#![cfg(test)]

use fairhold_access::{
    Principal, PrincipalKey, Quota, QuotaKind, Rule, Tenant, TenantName, TenantNumber,
    token::{AccessTokenNumber, TokenHash},
};
use fairhold_state::{
    State,
    command::{
        AccessChange, AccessFault, AccessGuard, AccessRequester, Acquire, ActOrigin, AdmitNode, Answer, Blocked, Break,
        ChangeAccess, Claimant, Command, Condition, CreateJoinToken, HeldGrant, HolderFacts, IfBusy, JoinTokenFault, LOG_FORMAT,
        Lifetime, Meta, NoteAct, NotedAct, NotedEnd, OpenSession, Operation, OperationResult, Outcome, Owner, Part, Proclaim,
        Queued, Rejection, RequestRemoval, Revoke, SessionKey, SetLock, SetMember, Sweepable, Transact, Want, WriteKey,
    },
    snapshot::SNAPSHOT_FORMAT,
    value::Value,
};
use fairhold_types::{
    ClusterId, ClusterVersion, EndReason, FencingToken, GrantId, GrantNumber, Incarnation, JoinTokenNumber, LockName, MemberRole,
    Mode, Path, Revision, SessionId, SessionNumber, Timing, time::WallMillis,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{collections::BTreeSet, fmt::Write, fs, path::PathBuf};

/// Examples by name: one of each variant, or it does not compile.
macro_rules! each_variant {
    ($type:ident: $($variant:ident => $example:expr),* $(,)?) => {{
        fn _is_complete(value: &$type) {
            match value {
                $($type::$variant { .. } => {}),*
            }
        }
        let examples: Vec<(String, $type)> = vec![$({
            let example = $example;
            assert!(matches!(example, $type::$variant { .. }), "an example of another variant: {example:?}");
            (kebab(stringify!($variant)), example)
        }),*];
        examples
    }};
}

/// `FormCluster` is `form-cluster`.
fn kebab(variant: &str) -> String {
    let mut name = String::new();
    for letter in variant.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

fn folder() -> PathBuf {
    PathBuf::from("../../proto/golden")
}

fn break_of(key: u128, name: &str, token: Option<FencingToken>) -> Break {
    Break {
        key: WriteKey { key: grant(key), fingerprint: *b"0123456789abcdef" },
        lock: lock(name),
        token,
        by: "curl@10.0.0.7".to_owned(),
        reason: "the job is stuck".to_owned(),
        at: AT,
    }
}

/// Compares in hexadecimal, 16 bytes a line, and returns the bytes in the file.
fn assert_golden(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = folder().join(name);
    let mut text = String::new();
    for line in bytes.chunks(16) {
        let digits: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{}", digits.join(" ")).unwrap();
    }
    if std::env::var("FAIRHOLD_GOLDEN").is_ok_and(|value| value == "write") {
        fs::write(&path, &text).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(text, golden, "{} has other bytes", path.display());
    golden.split_whitespace().map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect()
}

fn assert_all<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(kind: &str, examples: &[(String, T)]) {
    for (name, example) in examples {
        let bytes = fairhold_codec::encode(LOG_FORMAT, example).unwrap();
        let stored = assert_golden(&format!("{kind}-{name}.hex"), &bytes);
        assert_eq!(&fairhold_codec::decode::<T>(LOG_FORMAT, &stored).unwrap(), example);
    }
    // A file without an example would look like a promise.
    let known: BTreeSet<String> = examples.iter().map(|(name, _)| format!("{kind}-{name}.hex")).collect();
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left_over: Vec<String> = files.filter(|file| file.starts_with(&format!("{kind}-")) && !known.contains(file)).collect();
    assert!(left_over.is_empty(), "no example has the names {left_over:?}");
}

const AT: WallMillis = WallMillis(1_763_700_840_120);

fn grant(last: u128) -> GrantId {
    GrantId::from_ulid(0x0190_163d_8694_739b_aea5_966c_26f8_0000 + last)
}

fn lock(name: &str) -> LockName {
    LockName::parse(name).unwrap()
}

fn path(text: &str) -> Path {
    Path::parse(text).unwrap()
}

fn meta() -> Meta {
    Meta::from([("build".to_owned(), "81".to_owned()), ("host".to_owned(), "ci-7".to_owned())])
}

fn open() -> OpenSession {
    OpenSession {
        key: Some(grant(1)),
        id: SessionId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff),
        timeout_ms: 15_000,
        name: "worker-3".to_owned(),
        meta: meta(),
        at: AT,
    }
}

fn acquire() -> Acquire {
    Acquire {
        grant: grant(2),
        id_given: true,
        wants: vec![Want { lock: lock("orders/42"), mode: Mode::Exclusive }],
        claimant: Claimant::Session(open().id),
        if_busy: IfBusy::Queue,
        limit: None,
        permits: 1,
        priority: 0,
        owner: Owner { text: "ci-7".to_owned(), given: true },
        meta: meta(),
        lock_delay_ms: 5_000,
        reentrant: false,
        max_hold_ms: None,
        value: None,
        at: AT,
    }
}

/// Everything that `acquire` leaves out.
fn acquire_with_all() -> Acquire {
    Acquire {
        grant: "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap(),
        id_given: false,
        wants: vec![Want { lock: lock("map"), mode: Mode::Shared }, Want { lock: lock("pool"), mode: Mode::Exclusive }],
        claimant: Claimant::Anonymous { timeout_ms: 30_000 },
        if_busy: IfBusy::Refuse,
        limit: Some(3),
        permits: 2,
        priority: -300,
        owner: Owner { text: "curl@127.0.0.1".to_owned(), given: false },
        meta: Meta::new(),
        lock_delay_ms: 0,
        reentrant: true,
        max_hold_ms: Some(60_000),
        value: Some(vec![0, 255, 251]),
        at: AT,
    }
}

fn put(at: &str, value: &[u8], parents: bool) -> Operation {
    Operation::Put { path: path(at), value: value.into(), parents, lifetime: Lifetime::Persistent }
}

fn transact() -> Transact {
    Transact {
        key: Some(WriteKey { key: grant(3), fingerprint: *b"0123456789abcdef" }),
        conditions: vec![
            Condition::Fence { lock: lock("orders/42"), token: FencingToken(57), grant: Some(grant(2)) },
            Condition::Fence { lock: lock("map"), token: FencingToken(u64::MAX), grant: None },
            Condition::Version { path: path("/jobs"), version: Some(17) },
            Condition::Version { path: path("/jobs/nightly"), version: None },
        ],
        then: vec![put("/jobs/nightly", b"value", true), put("/jobs", b"", false)],
        otherwise: Some(vec![put("/jobs/failed", b"1", false)]),
        at: AT,
    }
}

/// One of each operation, of each condition that `transact` leaves out, and of each lifetime.
fn transact_with_each() -> Transact {
    let (session, ttl) = (open().id, Lifetime::Ttl { ttl_ms: 86_400_000 });
    let value = || Value::from(&b"v"[..]);
    let conditions = vec![
        Condition::Exists { path: path("/jobs") },
        Condition::Session { session: SessionKey::Id(session) },
        Condition::Session { session: SessionKey::Number(SessionNumber(41)) },
    ];
    let operations = each_variant!(Operation:
        Put => Operation::Put { path: path("/a"), value: value(), parents: false, lifetime: Lifetime::Ephemeral { session } },
        Create => Operation::Create { path: path("/b"), value: value(), parents: true, lifetime: Lifetime::Container },
        CreateSequential => Operation::CreateSequential {
            parent: path("/b"),
            prefix: "n-".to_owned(),
            value: value(),
            parents: false,
            lifetime: ttl,
        },
        Set => Operation::Set { path: path("/a"), value: value(), version: Some(-1) },
        Delete => Operation::Delete { path: path("/b"), version: None, recursive: true },
        Check => Operation::Check { path: path("/a"), version: Some(1) },
    );
    let then = operations.into_iter().map(|(_, operation)| operation).collect();
    Transact { key: None, conditions, then, otherwise: None, at: AT }
}

fn join_token() -> CreateJoinToken {
    CreateJoinToken {
        key: Some(WriteKey { key: grant(9), fingerprint: *b"0123456789abcdef" }),
        secret_hash: [0xa5; 32],
        role: MemberRole::Voter,
        replaces: Some(2),
        standing: false,
        up_to: None,
        expires_at: Some(WallMillis(AT.0 + 3_600_000)),
        by: "curl@10.0.0.7".to_owned(),
        at: AT,
    }
}

fn admit() -> AdmitNode {
    AdmitNode {
        token: JoinTokenNumber(1),
        secret_hash: [0xa5; 32],
        incarnation: Incarnation(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff),
        url: "http://10.0.0.4:7171".to_owned(),
        address: "10.0.0.4:7271".to_owned(),
        replaces: Some(2),
        ids_through: 3,
        at: AT,
    }
}

fn set_member() -> SetMember {
    SetMember {
        key: Some(WriteKey { key: grant(9), fingerprint: *b"0123456789abcdef" }),
        node: 3,
        priority: Some(90),
        zone: Some("zone-a".to_owned()),
        address_set: true,
        by: "curl@10.0.0.7".to_owned(),
        at: AT,
    }
}

fn commands() -> Vec<(String, Command)> {
    let (session, id, number) = (open().id, grant(2), GrantNumber(57));
    let key = WriteKey { key: grant(9), fingerprint: *b"0123456789abcdef" };
    let mut commands = each_variant!(Command:
        FormCluster => Command::FormCluster { cluster: ClusterId(0xffee_ddcc_bbaa_9988_7766_5544_3322_1100) },
        OpenSession => Command::OpenSession(open()),
        CloseSession => Command::CloseSession { session, at: AT },
        ExpireSession => Command::ExpireSession { session: SessionNumber(300), at: AT },
        Acquire => Command::Acquire(acquire()),
        Withdraw => Command::Withdraw { grant: id, attempt: 1, at: AT },
        Abandon => Command::Abandon { grant: id, attempt: 2, at: AT },
        Release => Command::Release { grant: id, session: None, at: AT },
        SetGrantTimeout => Command::SetGrantTimeout { grant: id, timeout_ms: 60_000, key: Some(key), at: AT },
        EndCooling => Command::EndCooling { grants: vec![number, GrantNumber(300)], at: AT },
        Forget => Command::Forget { through: Revision(70_000) },
        ForgetHistory => Command::ForgetHistory { through: Revision(70_000) },
        Proclaim => Command::Proclaim(proclaim()),
        ForgetLocks => Command::ForgetLocks { locks: vec![(lock("orders/42"), Revision(5_000_000_000))] },
        Transact => Command::Transact(transact()),
        Break => Command::Break(break_of(4, "orders/42", Some(FencingToken(42)))),
        EndSession => Command::EndSession {
            session: SessionNumber(300),
            by: "curl@10.0.0.7".to_owned(),
            reason: "the worker is gone".to_owned(),
            at: AT,
        },
        Sweep => Command::Sweep { nodes: vec![Sweepable { path: path("/jobs"), since: Revision(300) }], at: AT },
        Downgrade => Command::Downgrade { grant: id, key: None, at: AT },
        Upgrade => Command::Upgrade { grant: id, if_busy: IfBusy::Refuse, key: Some(key), at: AT },
        EndUpgrade => Command::EndUpgrade { grant: id, attempt: 3, at: AT },
        SetLock => Command::SetLock(set_lock()),
        Revoke => Command::Revoke(revoke()),
        EndHolds => Command::EndHolds { holds: vec![(GrantNumber(57), FencingToken(90))], at: AT },
        ContinuePendingWork => Command::ContinuePendingWork { at: AT },
        RecordKey => Command::RecordKey { key, at: AT },
        RecordCapacity => Command::RecordCapacity { node: 3, bytes: 134_217_728 },
        RaiseClusterVersion => Command::RaiseClusterVersion { to: ClusterVersion(2) },
        FormClusterAt => Command::FormClusterAt {
            cluster: ClusterId(0xffee_ddcc_bbaa_9988_7766_5544_3322_1100),
            version: ClusterVersion(2),
        },
        CreateJoinToken => Command::CreateJoinToken(join_token()),
        RevokeJoinToken => Command::RevokeJoinToken { number: JoinTokenNumber(300), at: AT },
        AdmitNode => Command::AdmitNode(admit()),
        SettleJoin => Command::SettleJoin { node: 4, at: AT },
        RequestRemoval => Command::RequestRemoval(RequestRemoval {
            node: 2,
            ids_through: 3,
            by: "curl@10.0.0.7".to_owned(),
            at: AT,
            other_voters: vec![1, 300],
        }),
        RecordRemoval => Command::RecordRemoval { node: 2, incarnation: Some(admit().incarnation), ids_through: 4, at: AT },
        SetMember => Command::SetMember(set_member()),
        SetTiming => Command::SetTiming { key: Some(key), timing: Timing::Wan, by: "curl@10.0.0.7".to_owned(), at: AT },
        Guarded => guarded(Command::Acquire(acquire())),
        ForTenant => guarded(Command::OpenSession(open())).for_tenant(Some(TenantNumber(300))),
        ChangeAccess => change_access(AccessChange::Enable),
        ExpireTokens => Command::ExpireTokens { tokens: vec![AccessTokenNumber(7), AccessTokenNumber(300)], at: AT },
        Attributed => Command::Break(break_of(19, "orders/42", None)).attributed(origin()),
        NoteAct => note(NotedAct::HandOver { to: 2 }),
    );
    commands.extend(further_commands());
    let changes = access_changes().into_iter();
    commands.extend(changes.map(|(name, change)| (format!("change-access-{name}"), change_access(change))));
    commands.extend(noted_acts().into_iter().map(|(name, act)| (format!("note-act-{name}"), note(act))));
    commands.push(("guarded-attributed".to_owned(), guarded(change_access(AccessChange::Enable).attributed(origin()))));
    commands
}

fn origin() -> ActOrigin {
    let principal = Principal::parse("user:ci").unwrap();
    ActOrigin { principal, address: "10.0.0.7".to_owned(), request: "2-19abc0de-f".to_owned() }
}

fn note(act: NotedAct) -> Command {
    let key = Some(WriteKey { key: grant(20), fingerprint: *b"0123456789abcdef" });
    Command::NoteAct(NoteAct { key, act, end: NotedEnd::Done, at: AT })
}

fn noted_acts() -> Vec<(String, NotedAct)> {
    each_variant!(NotedAct:
        HandOver => NotedAct::HandOver { to: 2 },
        TakeSnapshot => NotedAct::TakeSnapshot { node: 2 },
        Finalize => NotedAct::Finalize { to: ClusterVersion(2) },
        Promote => NotedAct::Promote { node: 2 },
        Demote => NotedAct::Demote { node: 2 },
        SetAddress => NotedAct::SetAddress { node: 2, url: Some("http://n2:7171".to_owned()), peer: None },
    )
}

fn guarded(command: Command) -> Command {
    let guard = AccessGuard { access: Revision(300), principal: Principal::parse("user:ci").unwrap().key() };
    command.guarded(guard)
}

fn change_access(change: AccessChange) -> Command {
    let requester = AccessRequester { principal: Principal::file_admin(), client: "curl@10.0.0.7".to_owned() };
    let key = Some(WriteKey { key: grant(18), fingerprint: *b"0123456789abcdef" });
    Command::ChangeAccess(ChangeAccess { key, change, requester, at: AT })
}

fn rules() -> Vec<Rule> {
    ["acquire,inspect,priority<=7 locks:deploy/**", "read,write nodes:app/{user}/**", "end sessions", "admin cluster"]
        .map(|rule| rule.parse().unwrap())
        .into()
}

fn tenant_name() -> TenantName {
    "web".parse().unwrap()
}

fn tenant() -> Tenant {
    Tenant {
        subjects: ["k8s:system:serviceaccount:web:*", "user:ci"].map(|subject| subject.parse().unwrap()).into(),
        prefixes: ["locks:web/**", "nodes:app/web/**"].map(|prefix| prefix.parse().unwrap()).into(),
        quota: Quota {
            nodes: Some(1_000),
            bytes: Some(1_048_576),
            contenders: Some(300),
            waiters: Some(50),
            sessions: Some(20),
            tokens: None,
            requests_per_second: Some(100),
            burst: Some(200),
            waits: None,
            watches: Some(10),
        },
    }
}

fn access_changes() -> Vec<(String, AccessChange)> {
    let (role, user) = (|| "deployers".parse().unwrap(), || "ci".parse().unwrap());
    let subject = || "k8s:system:serviceaccount:ci:*".parse().unwrap();
    each_variant!(AccessChange:
        PutRole => AccessChange::PutRole { role: role(), rules: rules(), expected: Some(Revision(300)) },
        DeleteRole => AccessChange::DeleteRole { role: role(), force: true, expected: None },
        Bind => AccessChange::Bind { role: role(), subject: subject() },
        Unbind => AccessChange::Unbind { role: role(), subject: subject() },
        SetUser => AccessChange::SetUser { user: user(), disabled: true, end_sessions: false },
        CreateToken => AccessChange::CreateToken { hash: TokenHash([7; 32]), user: user(), expires_at: Some(AT) },
        RevokeToken => AccessChange::RevokeToken { number: AccessTokenNumber(300), end_sessions: true },
        Enable => AccessChange::Enable,
        Disable => AccessChange::Disable,
        PutTenant => AccessChange::PutTenant { name: tenant_name(), tenant: Box::new(tenant()), expected: Some(Revision(300)) },
        DeleteTenant => AccessChange::DeleteTenant { name: tenant_name(), expected: None },
    )
}

fn proclaim() -> Proclaim {
    Proclaim {
        key: WriteKey { key: grant(8), fingerprint: *b"0123456789abcdef" },
        election: lock("primary"),
        grant: grant(4),
        value: Value::from(b"http://10.0.0.7:80".as_slice()),
        at: AT,
    }
}

fn set_lock() -> SetLock {
    SetLock {
        key: Some(WriteKey { key: grant(9), fingerprint: *b"0123456789abcdef" }),
        lock: lock("orders/42"),
        limit: Some(3),
        max_waiters: Some(300),
        max_hold_ms: Some(60_000),
        by: "curl@10.0.0.7".to_owned(),
        at: AT,
    }
}

fn revoke() -> Revoke {
    Revoke { key: None, lock: lock("orders/42"), by: "curl@10.0.0.7".to_owned(), reason: "an upgrade".to_owned(), at: AT }
}

/// Other forms of the same commands.
fn further_commands() -> Vec<(String, Command)> {
    let session = open().id;
    let mut commands = Vec::new();
    let standing = CreateJoinToken {
        key: None,
        role: MemberRole::Learner,
        replaces: None,
        standing: true,
        up_to: Some(5),
        expires_at: None,
        ..join_token()
    };
    commands.push(("create-join-token-standing".to_owned(), Command::CreateJoinToken(standing)));
    let none = SetMember { key: None, priority: None, zone: None, address_set: false, ..set_member() };
    commands.push(("set-member-to-nothing".to_owned(), Command::SetMember(none)));
    for (name, timing) in each_variant!(Timing:
        Lan => Timing::Lan,
        Metro => Timing::Metro,
        Wan => Timing::Wan,
        Global => Timing::Global,
    ) {
        commands.push((format!("set-timing-{name}"), Command::SetTiming { key: None, timing, by: String::new(), at: AT }));
    }
    commands.push(("transact-each-operation".to_owned(), Command::Transact(transact_with_each())));
    commands.push(("acquire-with-all".to_owned(), Command::Acquire(acquire_with_all())));
    commands.push(("release-of-a-session".to_owned(), Command::Release { grant: grant(2), session: Some(session), at: AT }));
    let bare = OpenSession { key: None, meta: Meta::new(), ..open() };
    commands.push(("open-session-without-key".to_owned(), Command::OpenSession(bare)));
    let bare = Transact { key: None, conditions: Vec::new(), otherwise: None, ..transact() };
    commands.push(("transact-without-conditions".to_owned(), Command::Transact(bare)));
    commands
}

fn outcomes() -> Vec<(String, Answer)> {
    let (number, session) = (GrantNumber(57), SessionNumber(41));
    let mut results: Vec<OperationResult> = each_variant!(OperationResult:
        Put => OperationResult::Put { created: true, version: 0 },
        Created => OperationResult::Created { path: path("/b/n-0000000000") },
        Set => OperationResult::Set { version: -1 },
        Deleted => OperationResult::Deleted { count: 300 },
        Checked => OperationResult::Checked { version: 1 },
    )
    .into_iter()
    .map(|(_, result)| result)
    .collect();
    results.push(OperationResult::Put { created: false, version: -1 });
    let outcomes = each_variant!(Outcome:
        Nothing => Outcome::Nothing,
        Done => Outcome::Done,
        SessionOpened => Outcome::SessionOpened { id: open().id, number: session, timeout_ms: 15_000 },
        Held => Outcome::Held(HeldGrant { number, token: FencingToken(90), session, attempt: 2 }),
        Queued => Outcome::Queued(Queued { number, session, attempt: 1 }),
        Written => Outcome::Written { succeeded: true, results, at: Revision(57) },
        Broken => Outcome::Broken { holders: 3, named: vec![number] },
        Judged => Outcome::Judged { objects: 300 },
        WrittenBefore => Outcome::WrittenBefore { succeeded: true, at: Revision(57) },
        JoinTokenCreated => Outcome::JoinTokenCreated { number: JoinTokenNumber(300), repeated: true },
        Admitted => Outcome::Admitted { node: 4, role: MemberRole::Learner, replaces: Some(2) },
        AccessTokenCreated => Outcome::AccessTokenCreated { number: AccessTokenNumber(300), repeated: true },
    );
    outcomes.into_iter().map(|(name, outcome)| (name, Answer { result: Ok(outcome), revision: Revision(90) })).collect()
}

fn access_rejections() -> Vec<(String, Rejection)> {
    let faults = each_variant!(AccessFault:
        WouldLockOut => AccessFault::WouldLockOut,
        NeedsFile => AccessFault::NeedsFile,
        BuiltInRole => AccessFault::BuiltInRole,
        NoRole => AccessFault::NoRole,
        RoleInUse => AccessFault::RoleInUse { bindings: 300 },
        RoleChanged => AccessFault::RoleChanged { current: Revision(300) },
        AlreadyIssued => AccessFault::AlreadyIssued,
        NoToken => AccessFault::NoToken,
        UserDisabled => AccessFault::UserDisabled,
        Full => AccessFault::Full { what: "tokens".to_owned(), max: 100_000 },
        TokenGone => AccessFault::TokenGone,
        TenantOverlaps => AccessFault::TenantOverlaps { tenant: tenant_name(), on: "locks:web/a/**".to_owned() },
        TenantChanged => AccessFault::TenantChanged { current: Revision(300) },
    );
    faults.into_iter().map(|(name, fault)| (format!("access-{name}"), Rejection::Access(fault))).collect()
}

fn join_token_rejections() -> Vec<(String, Rejection)> {
    let faults = each_variant!(JoinTokenFault:
        Unknown => JoinTokenFault::Unknown,
        Expired => JoinTokenFault::Expired,
        Used => JoinTokenFault::Used { node: 4 },
        NoReplacement => JoinTokenFault::NoReplacement,
        Removed => JoinTokenFault::Removed { node: 4 },
    );
    faults.into_iter().map(|(name, fault)| (format!("join-token-{name}"), Rejection::JoinToken(fault))).collect()
}

fn rejections() -> Vec<(String, Answer)> {
    let holder = HolderFacts { number: GrantNumber(41), owner: "ci-7".to_owned(), token: Some(FencingToken(41)), since: AT };
    let cooling = HolderFacts { token: None, ..holder.clone() };
    let step = |part| Rejection::Step { part, index: 7, reason: Box::new(Rejection::NoNode { path: path("/jobs") }) };
    let mut rejections = each_variant!(Rejection:
        NoSession => Rejection::NoSession,
        SessionEnded => Rejection::SessionEnded,
        NoGrant => Rejection::NoGrant,
        LockHeld => Rejection::LockHeld { holder, ahead: 3 },
        GrantEnded => Rejection::GrantEnded { reason: EndReason::Released, note: None },
        Forgotten => Rejection::Forgotten,
        IdempotencyMismatch => Rejection::IdempotencyMismatch { field: "mode".to_owned() },
        LimitMismatch => Rejection::LimitMismatch { limit: 3 },
        PermitsOverLimit => Rejection::PermitsOverLimit { permits: 4, limit: 3 },
        SharedWithLimit => Rejection::SharedWithLimit { limit: 3 },
        QueueFull => Rejection::QueueFull { max: 10_000 },
        SessionsFull => Rejection::SessionsFull { max: 1_000_000 },
        MemoryFull => Rejection::MemoryFull { max: 4_000_000 },
        SessionOwned => Rejection::SessionOwned { session: SessionNumber(41) },
        StaleToken => Rejection::StaleToken { current: Some(FencingToken(90)) },
        VersionMismatch => Rejection::VersionMismatch { current: Some(17) },
        NoNode => Rejection::NoNode { path: path("/jobs") },
        ReadOnly => Rejection::ReadOnly { path: path("/locks/orders") },
        Unsupported => Rejection::Unsupported { what: "max_hold".to_owned() },
        Step => step(Part::Then),
        NodeExists => Rejection::NodeExists { path: path("/jobs") },
        OtherKind => Rejection::OtherKind { path: path("/jobs"), kind: "persistent".to_owned() },
        NotEmpty => Rejection::NotEmpty { path: path("/jobs"), children: 300 },
        EphemeralParent => Rejection::EphemeralParent { path: path("/jobs") },
        TooManyNodes => Rejection::TooManyNodes { max: 10_000 },
        NoRoomForName => Rejection::NoRoomForName { parent: path("/jobs") },
        WouldDeadlock => Rejection::WouldDeadlock {
            cycle: vec![Blocked { session: SessionNumber(300), owner: "ci-7".to_owned(), lock: lock("orders/42") }],
        },
        NotHeld => Rejection::NotHeld,
        NotLeader => Rejection::NotLeader,
        OtherUse => Rejection::OtherUse { election: true },
        HoldsFull => Rejection::HoldsFull { max: 1_000 },
        Defect => Rejection::Defect { fingerprint: 0x0123_4567_89ab_cdef },
        TooManyCreated => Rejection::TooManyCreated { max: 4_000 },
        StateFull => Rejection::StateFull { used: 134_000_000, max: 134_217_728 },
        JoinToken => Rejection::JoinToken(JoinTokenFault::Unknown),
        JoinTokensFull => Rejection::JoinTokensFull { max: 100 },
        JoinsFull => Rejection::JoinsFull { max: 10 },
        NeedsUpgrade => Rejection::NeedsUpgrade { version: ClusterVersion(2) },
        AccessChanged => Rejection::AccessChanged,
        Access => Rejection::Access(AccessFault::WouldLockOut),
        QuotaExceeded => Rejection::QuotaExceeded { tenant: tenant_name(), quota: QuotaKind::Nodes, limit: 1_000, used: 999 },
        NoVoterLeft => Rejection::NoVoterLeft { node: 300 },
    );
    rejections.extend(access_rejections());
    rejections.extend(join_token_rejections());
    rejections.push(("step-conditions".to_owned(), step(Part::Conditions)));
    rejections.push(("step-otherwise".to_owned(), step(Part::Otherwise)));
    for (name, reason) in each_variant!(EndReason:
        Released => EndReason::Released,
        Expired => EndReason::Expired,
        Broken => EndReason::Broken,
        Withdrawn => EndReason::Withdrawn,
    ) {
        rejections.push((format!("grant-ended-{name}"), Rejection::GrantEnded { reason, note: None }));
    }
    let note = Some("the job is stuck".to_owned());
    rejections.push(("grant-ended-broken-for".to_owned(), Rejection::GrantEnded { reason: EndReason::Broken, note }));
    rejections.push(("lock-held-while-cooling".to_owned(), Rejection::LockHeld { holder: cooling, ahead: 1 }));
    rejections.push(("stale-token-of-nobody".to_owned(), Rejection::StaleToken { current: None }));
    rejections.push(("version-mismatch-of-nothing".to_owned(), Rejection::VersionMismatch { current: None }));
    rejections.into_iter().map(|(name, rejection)| (name, Answer { result: Err(rejection), revision: Revision(90) })).collect()
}

/// A node of each kind, and a container that had a child.
fn each_kind(session: SessionId) -> Vec<Operation> {
    let create = |at: &str, lifetime| Operation::Create { path: path(at), value: Value::empty(), parents: false, lifetime };
    vec![
        create("/ephemeral", Lifetime::Ephemeral { session }),
        create("/ttl", Lifetime::Ttl { ttl_ms: 1_000 }),
        create("/container", Lifetime::Container),
        create("/container/child", Lifetime::Persistent),
        Operation::Delete { path: path("/container/child"), version: None, recursive: false },
    ]
}

/// A state with each kind of item that a snapshot can hold.
fn small_state() -> State {
    let mut state = State::new();
    let other = SessionId(7);
    let in_lock = |id: u128, name: &str, mode: Mode| Acquire {
        grant: grant(id),
        wants: vec![Want { lock: lock(name), mode }],
        claimant: Claimant::Session(other),
        ..acquire()
    };
    let anonymous = |id: u128| Acquire {
        claimant: Claimant::Anonymous { timeout_ms: 30_000 },
        limit: Some(3),
        permits: 2,
        priority: -1,
        meta: Meta::new(),
        ..in_lock(id, "pool", Mode::Exclusive)
    };
    for command in [
        Command::FormCluster { cluster: ClusterId(0xffee_ddcc_bbaa_9988_7766_5544_3322_1100) },
        Command::OpenSession(open()),
        Command::OpenSession(OpenSession { key: None, id: other, name: String::new(), meta: Meta::new(), ..open() }),
        Command::Acquire(acquire()),
        Command::Acquire(in_lock(10, "orders/42", Mode::Exclusive)),
        Command::Acquire(in_lock(11, "map", Mode::Shared)),
        Command::Acquire(anonymous(12)),
        Command::Acquire(anonymous(13)),
        Command::Acquire(in_lock(14, "idle", Mode::Exclusive)),
        Command::Release { grant: grant(14), session: None, at: AT },
        Command::Release { grant: grant(15), session: None, at: AT },
        Command::Transact(Transact { conditions: Vec::new(), then: vec![put("/jobs/nightly", b"value", true)], ..transact() }),
        Command::Acquire(in_lock(16, "broken", Mode::Exclusive)),
        Command::Break(break_of(17, "broken", None)),
        Command::Transact(Transact { key: None, conditions: Vec::new(), then: each_kind(other), ..transact() }),
        // It cools in `orders/42`; its key is remembered.
        Command::ExpireSession { session: SessionNumber(2), at: AT },
    ] {
        let applied = state.apply(&command);
        assert!(applied.answer.result.is_ok(), "{applied:?}");
    }
    state.check().unwrap();
    state
}

/// A state with everything that is known about members: settings, a pending join and a pending removal, and a node that
/// was replaced.
fn state_with_members() -> State {
    let mut state = State::new();
    let by = || "curl@10.0.0.7".to_owned();
    let standing = CreateJoinToken { key: None, replaces: None, standing: true, expires_at: None, ..join_token() };
    let learner = AdmitNode {
        token: JoinTokenNumber(2),
        incarnation: Incarnation(7),
        url: "http://10.0.0.5:7171".to_owned(),
        address: "10.0.0.5:7271".to_owned(),
        replaces: Some(3),
        ..admit()
    };
    for command in [
        Command::FormClusterAt { cluster: ClusterId(0xffee_ddcc_bbaa_9988_7766_5544_3322_1100), version: ClusterVersion(2) },
        Command::SetTiming { key: None, timing: Timing::Global, by: String::new(), at: AT },
        Command::CreateJoinToken(join_token()),
        Command::CreateJoinToken(CreateJoinToken { role: MemberRole::Learner, ..standing }),
        Command::AdmitNode(admit()),
        Command::RecordRemoval { node: 2, incarnation: Some(Incarnation(2)), ids_through: 4, at: AT },
        Command::SettleJoin { node: 4, at: AT },
        Command::AdmitNode(learner),
        Command::RequestRemoval(RequestRemoval { node: 1, ids_through: 4, by: by(), at: AT, other_voters: vec![3, 4] }),
        Command::SetMember(set_member()),
    ] {
        let applied = state.apply(&command);
        assert!(applied.answer.result.is_ok(), "{applied:?}");
    }
    state.check().unwrap();
    state
}

/// A state with each kind of record of the access data.
fn state_with_access() -> State {
    let mut state = State::new();
    let token =
        |last| AccessChange::CreateToken { hash: TokenHash([last; 32]), user: "ci".parse().unwrap(), expires_at: Some(AT) };
    let disabled = |user: &str| AccessChange::SetUser { user: user.parse().unwrap(), disabled: true, end_sessions: false };
    let bind = |role: &str, subject: &str| AccessChange::Bind { role: role.parse().unwrap(), subject: subject.parse().unwrap() };
    let put = |expected| AccessChange::PutRole { role: "deployers".parse().unwrap(), rules: rules(), expected };
    let changes = [put(None), bind("deployers", "k8s:ci:*"), bind("admin", "user:ann"), token(7), token(8), disabled("bob")];
    let revoke = AccessChange::RevokeToken { number: AccessTokenNumber(1), end_sessions: false };
    let version = ClusterVersion(2);
    let mut commands = vec![Command::FormClusterAt { cluster: ClusterId(7), version }];
    let without_key = |change| {
        let Command::ChangeAccess(request) = change_access(change) else { panic!("another command") };
        Command::ChangeAccess(ChangeAccess { key: None, ..request })
    };
    commands.extend(changes.into_iter().chain([AccessChange::Enable]).map(without_key));
    commands.push(guarded(Command::OpenSession(open())));
    commands.push(guarded(without_key(revoke)));
    for command in commands {
        let applied = state.apply(&command);
        assert!(applied.answer.result.is_ok(), "{command:?}: {applied:?}");
    }
    state.check().unwrap();
    state
}

/// A state with acts: done, refused and noted.
fn state_with_acts() -> State {
    let mut state = State::new();
    state.apply(&Command::FormClusterAt { cluster: ClusterId(7), version: ClusterVersion(2) });
    let end = Command::EndSession { session: SessionNumber(7), by: String::new(), reason: "idle".to_owned(), at: AT };
    let acts = [Command::SetLock(set_lock()), end, note(NotedAct::TakeSnapshot { node: 2 })];
    for act in acts {
        drop(state.apply(&act.attributed(origin())));
    }
    state.check().unwrap();
    assert_eq!(state.audit().len(), 3);
    state
}

/// A state with tenants: one with sessions, and one whose names are being counted.
fn state_with_tenants() -> State {
    let mut state = State::with_piece_steps(8);
    let change = |change| {
        let Command::ChangeAccess(request) = change_access(change) else { panic!("another command") };
        Command::ChangeAccess(ChangeAccess { key: None, ..request })
    };
    let put_tenant = |name: &str, tenant| {
        change(AccessChange::PutTenant { name: name.parse().unwrap(), tenant: Box::new(tenant), expected: None })
    };
    let nodes: Vec<Operation> = (0..12).map(|number| put_in(&format!("/jobs/{number}"))).collect();
    let large = Tenant { prefixes: vec!["nodes:jobs/**".parse().unwrap()], ..Tenant::default() };
    for command in [
        Command::FormClusterAt { cluster: ClusterId(7), version: ClusterVersion(2) },
        put_tenant("web", tenant()),
        guarded(Command::OpenSession(open())).for_tenant(Some(TenantNumber(2))),
        Command::Transact(Transact { key: None, conditions: Vec::new(), then: nodes, ..transact() }),
        put_tenant("jobs", large),
    ] {
        let applied = state.apply(&command);
        assert!(applied.answer.result.is_ok(), "{applied:?}");
    }
    assert!(state.has_pending(), "the count is under way");
    state.check().unwrap();
    state
}

fn put_in(at: &str) -> Operation {
    put(at, b"v", true)
}

#[test]
fn a_guard_costs_at_most_nineteen_bytes() {
    let guard = AccessGuard { access: Revision(u64::MAX), principal: PrincipalKey(u64::MAX) };
    for (_, command) in commands() {
        let bare = command.unguarded().clone();
        let guarded = bare.clone().guarded(guard);
        let bytes = |command| fairhold_codec::encode(LOG_FORMAT, command).unwrap().len();
        assert_eq!(bytes(&guarded), bytes(&bare) + 19, "{bare:?}");
        assert_eq!(guarded.unguarded(), &bare);
    }
}

/// Otherwise hostile bytes could nest guards until the stack overflows.
#[test]
fn a_guard_within_a_guard_cannot_be_read() {
    let command = guarded(Command::ContinuePendingWork { at: AT });
    let bytes = fairhold_codec::encode(LOG_FORMAT, &command).unwrap();
    let bare = fairhold_codec::encode(LOG_FORMAT, command.unguarded()).unwrap();
    // The version and the guard come before the command, and the checksum after it.
    let guard = &bytes[1..bytes.len() - bare.len() + 1];
    let nested = |levels: usize| {
        let mut bytes = vec![LOG_FORMAT];
        (0..levels).for_each(|_| bytes.extend_from_slice(guard));
        bytes.extend_from_slice(&bare[1..bare.len() - 4]);
        let checksum = fairhold_codec::checksum(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        fairhold_codec::decode::<Command>(LOG_FORMAT, &bytes)
    };
    for levels in [2, 3, 1_000_000] {
        assert!(nested(levels).is_err(), "{levels} guards");
        assert_eq!(nested(1).unwrap(), command, "after {levels} guards");
    }
    assert_eq!(guarded(command.clone()), command);
}

#[test]
fn an_origin_stands_within_a_guard_and_nothing_stands_within_an_origin() {
    let bare = || Command::ContinuePendingWork { at: AT };
    let bytes = |command: &Command| {
        let bytes = fairhold_codec::encode(LOG_FORMAT, command).unwrap();
        bytes[1..bytes.len() - 4].to_vec()
    };
    let end = bytes(&bare());
    let before = |command: &Command| {
        let bytes = bytes(command);
        bytes[..bytes.len() - end.len()].to_vec()
    };
    let (guard, origin) = (before(&guarded(bare())), before(&bare().attributed(origin())));
    let read = |layers: &[&[u8]]| {
        let mut bytes = vec![LOG_FORMAT];
        layers.iter().for_each(|layer| bytes.extend_from_slice(layer));
        bytes.extend_from_slice(&end);
        let checksum = fairhold_codec::checksum(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        fairhold_codec::decode::<Command>(LOG_FORMAT, &bytes)
    };
    assert_eq!(read(&[&guard, &origin]).unwrap(), guarded(bare()).attributed(self::origin()));
    assert_eq!(guarded(bare().attributed(self::origin())), guarded(bare()).attributed(self::origin()));
    let many = vec![origin.as_slice(); 1_000_000];
    for layers in [&[&*origin, &*guard][..], &[&*origin, &*origin], &[&*guard, &*origin, &*guard], &[&*guard, &*guard], &many] {
        assert!(read(layers).is_err(), "{} layers", layers.len());
        assert!(read(&[&guard, &origin]).is_ok());
    }
}

#[test]
fn every_command_matches_its_golden_bytes() {
    assert_all("command", &commands());
}

fn large_commands() -> Vec<Command> {
    let (long, lock_long) = (Path::parse(&format!("/{}", "p".repeat(1_000))).unwrap(), lock(&"l".repeat(500)));
    let conditions = vec![
        Condition::Fence {
            lock: lock_long.clone(),
            token: FencingToken(u64::MAX),
            grant: Some(GrantId::from_ulid(u128::MAX))
        };
        1_000
    ];
    let create = Operation::CreateSequential {
        parent: long.clone(),
        prefix: "s".repeat(200),
        value: Value::from(b"v".as_slice()),
        parents: true,
        lifetime: Lifetime::Ephemeral { session: SessionId(u128::MAX) },
    };
    let check = Operation::Check { path: long.clone(), version: Some(i32::MAX) };
    let (then, otherwise) = (vec![create; 1_000], Some(vec![check; 1_000]));
    let key = Some(WriteKey { key: GrantId::from_ulid(u128::MAX), fingerprint: [255; 16] });
    let meta: Meta = (0..16).map(|key| (format!("{key:02}"), "m".repeat(60))).collect();
    let wants = vec![Want { lock: lock_long.clone(), mode: Mode::Shared }; 8];
    let owner = Owner { text: "o".repeat(256), given: true };
    let (delay, latest) = (u64::MAX, WallMillis(u64::MAX));
    let mut large = vec![
        Command::Transact(Transact { key, conditions, then, otherwise, at: latest }),
        Command::Acquire(Acquire {
            wants,
            owner,
            meta: meta.clone(),
            limit: Some(u32::MAX),
            permits: u32::MAX,
            priority: i32::MAX,
            lock_delay_ms: delay,
            max_hold_ms: Some(delay),
            value: Some(vec![0; 4_096]),
            at: latest,
            ..acquire()
        }),
        Command::OpenSession(OpenSession { timeout_ms: delay, meta, name: "n".repeat(256), at: latest, ..open() }),
        Command::ForgetLocks { locks: vec![(lock_long, Revision(u64::MAX)); 1_000] },
        Command::Sweep { nodes: vec![Sweepable { path: long, since: Revision(u64::MAX) }; 1_000], at: latest },
        Command::EndHolds { holds: vec![(GrantNumber(u64::MAX), FencingToken(u64::MAX)); 1_000], at: latest },
        Command::EndCooling { grants: vec![GrantNumber(u64::MAX); 1_000], at: latest },
    ];
    large.extend(large_commands_about_members());
    large.extend(large_commands_about_access());
    large
}

fn large_commands_about_members() -> Vec<Command> {
    let key = Some(WriteKey { key: GrantId::from_ulid(u128::MAX), fingerprint: [255; 16] });
    let latest = WallMillis(u64::MAX);
    vec![
        Command::CreateJoinToken(CreateJoinToken {
            key,
            replaces: Some(u64::MAX),
            up_to: Some(u8::MAX),
            expires_at: Some(latest),
            by: "b".repeat(256),
            at: latest,
            ..join_token()
        }),
        Command::AdmitNode(AdmitNode {
            token: JoinTokenNumber(u64::MAX),
            incarnation: Incarnation(u128::MAX),
            url: "u".repeat(300),
            address: "a".repeat(300),
            replaces: Some(u64::MAX),
            ids_through: u64::MAX,
            at: latest,
            ..admit()
        }),
        Command::RequestRemoval(RequestRemoval {
            node: u64::MAX,
            ids_through: u64::MAX,
            by: "b".repeat(256),
            at: latest,
            other_voters: vec![u64::MAX; 7],
        }),
        Command::SetMember(SetMember {
            key,
            node: u64::MAX,
            zone: Some("z".repeat(64)),
            by: "b".repeat(256),
            at: latest,
            ..set_member()
        }),
        Command::SetTiming { key, timing: Timing::Global, by: "b".repeat(256), at: latest },
        Command::RecordRemoval { node: u64::MAX, incarnation: Some(Incarnation(u128::MAX)), ids_through: u64::MAX, at: latest },
    ]
}

fn large_note() -> Command {
    let act = NotedAct::SetAddress { node: u64::MAX, url: Some("u".repeat(300)), peer: Some("p".repeat(300)) };
    let key = Some(WriteKey { key: GrantId::from_ulid(u128::MAX), fingerprint: [255; 16] });
    Command::NoteAct(NoteAct { key, act, end: NotedEnd::DoneNow, at: WallMillis(u64::MAX) })
}

fn large_commands_about_access() -> Vec<Command> {
    let (long, latest) = (|| "n".repeat(128).parse().unwrap(), WallMillis(u64::MAX));
    let rule: Rule =
        format!("acquire,inspect,priority<=2147483647 locks:{}", "p/".repeat(31) + &"p".repeat(900)).parse().unwrap();
    let large = |change| {
        let requester = AccessRequester {
            principal: Principal::parse(&format!("k8s:{}", "x".repeat(128))).unwrap(),
            client: "c".repeat(256),
        };
        let key = Some(WriteKey { key: GrantId::from_ulid(u128::MAX), fingerprint: [255; 16] });
        Command::ChangeAccess(ChangeAccess { key, change, requester, at: latest })
    };
    let create = AccessChange::CreateToken {
        hash: TokenHash([255; 32]),
        user: "n".repeat(128).parse().unwrap(),
        expires_at: Some(latest),
    };
    vec![
        large(AccessChange::PutRole { role: long(), rules: vec![rule; 100], expected: Some(Revision(u64::MAX)) }),
        large(create.clone()),
        large(AccessChange::PutTenant {
            name: "n".repeat(128).parse().unwrap(),
            tenant: Box::new(large_tenant()),
            expected: Some(Revision(u64::MAX)),
        }),
        large(create).guarded(AccessGuard { access: Revision(u64::MAX), principal: PrincipalKey(u64::MAX) }),
        Command::ExpireTokens { tokens: vec![AccessTokenNumber(u64::MAX); 1_000], at: latest },
        large_note(),
        large_note().attributed(ActOrigin {
            principal: Principal::parse(&format!("k8s:{}", "x".repeat(128))).unwrap(),
            address: "a".repeat(256),
            request: "r".repeat(128),
        }),
    ]
}

/// Bounds entries, queues and the log. It once left out conditions, so a log got an entry that was too large.
#[test]
fn the_size_of_a_command_is_at_least_its_bytes_and_not_much_more() {
    for command in commands().into_iter().map(|(_, command)| command).chain(large_commands()) {
        let (bytes, size) = (fairhold_codec::encode(LOG_FORMAT, &command).unwrap().len(), command.size());
        let shown = format!("{command:?}");
        assert!(bytes <= size && size <= 5 * bytes + 200, "{bytes} bytes, and {size} by size(): {shown:.200}");
    }
}

fn large_tenant() -> Tenant {
    let subject = |number: usize| format!("k8s:{}{number:03}:*", "s".repeat(120)).parse().unwrap();
    let prefix = |number: usize| format!("nodes:{}{}{number:03}/**", "p/".repeat(30), "p".repeat(900)).parse().unwrap();
    let most = Some(u64::MAX);
    let (rate, contenders) = (Some(u32::MAX), most);
    Tenant {
        subjects: (0..100).map(subject).collect(),
        prefixes: (0..100).map(prefix).collect(),
        quota: Quota {
            nodes: most,
            bytes: most,
            contenders,
            waiters: most,
            sessions: most,
            tokens: most,
            requests_per_second: rate,
            burst: rate,
            waits: rate,
            watches: rate,
        },
    }
}

#[test]
fn every_outcome_matches_its_golden_bytes() {
    assert_all("outcome", &outcomes());
}

#[test]
fn every_rejection_matches_its_golden_bytes() {
    assert_all("rejection", &rejections());
}

#[test]
fn a_snapshot_matches_its_golden_bytes() {
    let state = small_state();
    let blocks: Vec<Vec<u8>> = state.snapshot_blocks().collect();
    assert_eq!((blocks.len(), blocks[0][0]), (1, SNAPSHOT_FORMAT));
    let stored = assert_golden("snapshot-small.hex", &blocks[0]);
    let read = State::from_snapshot_blocks(std::iter::once(stored.as_slice())).unwrap();
    read.check().unwrap();
    assert_eq!(read, state);
    let none = State::new().snapshot_blocks().next().unwrap();
    let stored = assert_golden("snapshot-before-the-first-change.hex", &none);
    assert_eq!(State::from_snapshot_blocks(std::iter::once(stored.as_slice())).unwrap(), State::new());
    let members = state_with_members();
    let stored = assert_golden("snapshot-members.hex", &members.snapshot_blocks().next().unwrap());
    assert_eq!(State::from_snapshot_blocks(std::iter::once(stored.as_slice())).unwrap(), members);
    let access = state_with_access();
    let stored = assert_golden("snapshot-access.hex", &access.snapshot_blocks().next().unwrap());
    assert_eq!(State::from_snapshot_blocks(std::iter::once(stored.as_slice())).unwrap(), access);
    let acts = state_with_acts();
    let stored = assert_golden("snapshot-audit.hex", &acts.snapshot_blocks().next().unwrap());
    assert_eq!(State::from_snapshot_blocks(std::iter::once(stored.as_slice())).unwrap(), acts);
    let tenants = state_with_tenants();
    let stored = assert_golden("snapshot-tenants.hex", &tenants.snapshot_blocks().next().unwrap());
    assert_eq!(State::from_snapshot_blocks(std::iter::once(stored.as_slice())).unwrap(), tenants);
}

#[test]
fn a_damaged_or_incomplete_snapshot_is_refused() {
    let bytes = small_state().snapshot_blocks().next().unwrap();
    let read = |blocks: &[&[u8]]| State::from_snapshot_blocks(blocks.iter().copied());
    assert!(read(&[]).is_err(), "no block was accepted");
    assert!(read(&[&bytes, &bytes]).is_err(), "two headers were accepted");
    assert!(read(&[&bytes[..bytes.len() - 1]]).is_err(), "a cut was accepted");
    for byte in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[byte] ^= 1;
        assert!(read(&[&flipped]).is_err(), "a flipped bit in byte {byte} was accepted");
    }
}
