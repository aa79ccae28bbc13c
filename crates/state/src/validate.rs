//! The checks of a command that do not depend on the state: limits on lengths and times, reserved names, and who may
//! propose it.
//!
//! They run before a command is proposed: for this node's own commands, and again for forwarded ones. The limits are in
//! `fairhold_types::limits`, which the HTTP API reads too: it refuses a request first, and names the parameter.

use crate::command::{
    Acquire, AdmitNode, Claimant, Command, Condition, CreateJoinToken, Lifetime, Meta, OpenSession, Operation, Rejection,
    SetLock, SetMember, Transact,
};
use fairhold_types::{LockName, Mode, NodeId, Path, limits, text::first_not_plain};
use std::time::Duration;

/// The widest number in a sequential name; it follows 2147483647.
const WIDEST_NUMBER: &str = "-2147483648";

/// The maximum bytes of paths and values in one transaction: a request cannot have more.
const TRANSACTION_BYTES_MAX: usize = limits::BODY_BYTES_MAX + limits::HEAD_BYTES_MAX;

impl Command {
    /// Whether only the leader may propose it, such as a verdict.
    #[must_use]
    pub fn is_leader_only(&self) -> bool {
        match self {
            Command::FormCluster { .. }
            | Command::RaiseClusterVersion { .. }
            | Command::FormClusterAt { .. }
            | Command::ExpireSession { .. }
            | Command::EndCooling { .. }
            | Command::Forget { .. }
            | Command::ForgetLocks { .. }
            | Command::Sweep { .. }
            | Command::ForgetHistory { .. }
            | Command::EndHolds { .. }
            | Command::ContinuePendingWork { .. }
            | Command::RecordKey { .. }
            | Command::AdmitNode(_)
            | Command::SettleJoin { .. }
            | Command::RequestRemoval(_)
            | Command::RecordRemoval { .. }
            | Command::SetMember(_)
            | Command::ExpireTokens { .. } => true,
            Command::Guarded(guarded) => guarded.command().is_leader_only(),
            Command::Attributed(attributed) => attributed.command().is_leader_only(),
            Command::ForTenant(of) => of.command().is_leader_only(),
            Command::OpenSession(_)
            | Command::CloseSession { .. }
            | Command::Acquire(_)
            | Command::Withdraw { .. }
            | Command::Abandon { .. }
            | Command::Release { .. }
            | Command::SetGrantTimeout { .. }
            | Command::Transact(_)
            | Command::Break(_)
            | Command::EndSession { .. }
            | Command::Downgrade { .. }
            | Command::Upgrade { .. }
            | Command::EndUpgrade { .. }
            | Command::Proclaim(_)
            | Command::SetLock(_)
            | Command::Revoke(_)
            | Command::RecordCapacity { .. }
            | Command::CreateJoinToken(_)
            | Command::RevokeJoinToken { .. }
            | Command::SetTiming { .. }
            | Command::NoteAct(_)
            | Command::ChangeAccess(_) => false,
        }
    }

    /// Refuses commands that exceed the limits for clients.
    pub fn validate(&self) -> Result<(), Rejection> {
        match self {
            Command::OpenSession(open) => open_session(open),
            Command::Acquire(request) => acquire(request),
            Command::SetGrantTimeout { timeout_ms, .. } => timeout(*timeout_ms),
            Command::Transact(request) => transact(request),
            Command::Break(request) => lock_name(&request.lock).and_then(|()| admin_texts(&request.by, &request.reason)),
            Command::Revoke(request) => lock_name(&request.lock).and_then(|()| admin_texts(&request.by, &request.reason)),
            Command::EndSession { by, reason, .. } => admin_texts(by, reason),
            Command::Proclaim(request) => {
                lock_name(&request.election)?;
                fits("the value of an election", request.value.len(), limits::ELECTION_VALUE_BYTES_MAX)
            }
            Command::SetLock(request) => set_lock(request),
            Command::RecordCapacity { bytes, .. } => refuse_if(*bytes == 0, "a capacity of 0"),
            Command::CreateJoinToken(request) => create_join_token(request),
            Command::AdmitNode(request) => admit_node(request),
            Command::RequestRemoval(request) => node_id(request.node).and_then(|()| admin_texts(&request.by, "")),
            Command::SettleJoin { node, .. } | Command::RecordRemoval { node, .. } => node_id(*node),
            Command::SetMember(request) => set_member(request),
            Command::SetTiming { by, .. } => admin_texts(by, ""),
            Command::ChangeAccess(request) => request.validate(),
            Command::Guarded(guarded) => guarded.command().validate(),
            Command::Attributed(attributed) => attributed.origin().validate().and_then(|()| attributed.command().validate()),
            Command::NoteAct(note) => fits("the addresses of a member", note.text_bytes(), limits::NOTED_BYTES_MAX),
            Command::ForTenant(of) => of.command().validate(),
            Command::FormCluster { .. }
            | Command::RaiseClusterVersion { .. }
            | Command::FormClusterAt { .. }
            | Command::RevokeJoinToken { .. }
            | Command::CloseSession { .. }
            | Command::ExpireSession { .. }
            | Command::Withdraw { .. }
            | Command::Abandon { .. }
            | Command::Release { .. }
            | Command::EndCooling { .. }
            | Command::Forget { .. }
            | Command::ForgetLocks { .. }
            | Command::Sweep { .. }
            | Command::ForgetHistory { .. }
            | Command::Downgrade { .. }
            | Command::Upgrade { .. }
            | Command::EndUpgrade { .. }
            | Command::EndHolds { .. }
            | Command::ContinuePendingWork { .. }
            | Command::ExpireTokens { .. }
            | Command::RecordKey { .. } => Ok(()),
        }
    }
}

fn refuse_if(refused: bool, what: &str) -> Result<(), Rejection> {
    if refused { Err(Rejection::Unsupported { what: what.to_owned() }) } else { Ok(()) }
}

fn fits(what: &str, length: usize, max: usize) -> Result<(), Rejection> {
    if length <= max { Ok(()) } else { Err(Rejection::Unsupported { what: format!("{what} of {length}, more than {max},") }) }
}

fn within(ms: u64, least: Duration, most: Duration) -> bool {
    (least..=most).contains(&Duration::from_millis(ms))
}

fn timeout(ms: u64) -> Result<(), Rejection> {
    refuse_if(!within(ms, limits::SESSION_TIMEOUT_MIN, limits::SESSION_TIMEOUT_MAX), "a session timeout of that length")
}

fn max_hold(ms: u64) -> Result<(), Rejection> {
    refuse_if(!within(ms, limits::MAX_HOLD_MIN, limits::MAX_HOLD_MAX), "a maximum hold time of that length")
}

fn lock_name(name: &LockName) -> Result<(), Rejection> {
    refuse_if(name.is_reserved(), "a lock with a contender's name")
}

fn limit(limit: Option<u32>) -> Result<(), Rejection> {
    let refused = limit.is_some_and(|limit| limit == 0 || limit > limits::PERMITS_MAX);
    refuse_if(refused, "a lock with so many permits")
}

/// Checks a text for people.
fn text(what: &str, text: &str, max: usize) -> Result<(), Rejection> {
    fits(what, text.len(), max)?;
    plain(what, text)
}

fn plain(what: &str, text: &str) -> Result<(), Rejection> {
    let Some(character) = first_not_plain(text) else { return Ok(()) };
    Err(Rejection::Unsupported { what: format!("{what} with U+{:04X}", u32::from(character)) })
}

fn meta(meta: &Meta) -> Result<(), Rejection> {
    meta.iter().flat_map(|(key, value)| [key, value]).try_for_each(|text| plain("meta", text))?;
    let bytes = meta.iter().map(|(key, value)| key.len() + value.len()).sum();
    fits("pairs in meta", meta.len(), limits::META_PAIRS_MAX)?;
    fits("bytes in meta", bytes, limits::META_BYTES_MAX)
}

fn admin_texts(by: &str, reason: &str) -> Result<(), Rejection> {
    text("an administrator's name", by, limits::OWNER_BYTES_MAX)?;
    text("a reason", reason, limits::REASON_BYTES_MAX)
}

fn open_session(open: &OpenSession) -> Result<(), Rejection> {
    timeout(open.timeout_ms)?;
    text("a session's name", &open.name, limits::OWNER_BYTES_MAX)?;
    meta(&open.meta)
}

fn acquire(request: &Acquire) -> Result<(), Rejection> {
    fits("a number of locks", request.wants.len(), limits::LOCKS_PER_ACQUIRE_MAX)?;
    request.wants.iter().try_for_each(|want| lock_name(&want.lock))?;
    if let Claimant::Anonymous { timeout_ms } = request.claimant {
        timeout(timeout_ms)?;
    }
    limit(request.limit)?;
    limit(Some(request.permits))?;
    refuse_if(
        request.limit.is_some_and(|limit| request.permits > limit),
        "taking more permits than the limit in the same request",
    )?;
    let shared = request.wants.iter().any(|want| want.mode == Mode::Shared);
    refuse_if(shared && request.limit.is_some_and(|limit| limit > 1), "a shared mode with a limit over 1")?;
    text("the text of an owner", &request.owner.text, limits::OWNER_BYTES_MAX)?;
    meta(&request.meta)?;
    refuse_if(!within(request.lock_delay_ms, Duration::ZERO, limits::LOCK_DELAY_MAX), "a lock delay of that length")?;
    request.max_hold_ms.map_or(Ok(()), max_hold)?;
    fits("the value of an election", request.value.as_ref().map_or(0, Vec::len), limits::ELECTION_VALUE_BYTES_MAX)
}

fn set_lock(request: &SetLock) -> Result<(), Rejection> {
    lock_name(&request.lock)?;
    limit(request.limit)?;
    refuse_if(request.max_waiters.is_some_and(|most| most > limits::WAITERS_MAX as u64), "a queue of that length")?;
    request.max_hold_ms.filter(|ms| *ms > 0).map_or(Ok(()), max_hold)?;
    admin_texts(&request.by, "")
}

fn node_id(node: NodeId) -> Result<(), Rejection> {
    refuse_if(node == 0, "a node with the id 0")
}

fn create_join_token(request: &CreateJoinToken) -> Result<(), Rejection> {
    request.replaces.map_or(Ok(()), node_id)?;
    refuse_if(request.standing && request.expires_at.is_some(), "a standing join token that expires")?;
    refuse_if(request.standing && request.replaces.is_some(), "a standing join token for one member")?;
    refuse_if(!request.standing && request.expires_at.is_none(), "a join token that admits one node and never expires")?;
    refuse_if(!request.standing && request.up_to.is_some(), "a number of voters for a join token that admits one node")?;
    let possible = request.up_to.is_none_or(|voters| (1..=limits::VOTERS_MAX).contains(&voters));
    refuse_if(!possible, "a join token for so many voters")?;
    admin_texts(&request.by, "")
}

fn admit_node(request: &AdmitNode) -> Result<(), Rejection> {
    request.replaces.map_or(Ok(()), node_id)?;
    text("the URL of a node", &request.url, limits::MEMBER_ADDRESS_BYTES_MAX)?;
    text("the address of a node", &request.address, limits::MEMBER_ADDRESS_BYTES_MAX)
}

fn set_member(request: &SetMember) -> Result<(), Rejection> {
    node_id(request.node)?;
    refuse_if(request.priority.is_some_and(|priority| priority > limits::MEMBER_PRIORITY_MAX), "a priority over 100")?;
    text("the name of a zone", request.zone.as_deref().unwrap_or_default(), limits::ZONE_BYTES_MAX)?;
    admin_texts(&request.by, "")
}

fn transact(request: &Transact) -> Result<(), Rejection> {
    let otherwise = request.otherwise.as_deref().unwrap_or_default();
    for (what, length) in [
        ("a number of conditions", request.conditions.len()),
        ("a number of operations", request.then.len()),
        ("a number of operations", otherwise.len()),
    ] {
        fits(what, length, limits::TRANSACTION_STEPS_MAX)?;
    }
    let operations = || request.then.iter().chain(otherwise);
    let paths = request.conditions.iter().map(Condition::weight);
    fits("bytes in one write", operations().map(Operation::weight).chain(paths).sum(), TRANSACTION_BYTES_MAX)?;
    operations().try_for_each(operation)
}

fn operation(operation: &Operation) -> Result<(), Rejection> {
    let (value, lifetime) = match operation {
        Operation::Put { value, lifetime, .. } | Operation::Create { value, lifetime, .. } => (value, Some(lifetime)),
        Operation::CreateSequential { parent, prefix, value, lifetime, .. } => {
            let fits = !prefix.contains('/') && Path::parse(&format!("{}{prefix}{WIDEST_NUMBER}", parent.prefix_below())).is_ok();
            refuse_if(!fits, "a sequential node of that name")?;
            (value, Some(lifetime))
        }
        Operation::Set { value, .. } => (value, None),
        Operation::Delete { .. } | Operation::Check { .. } => return Ok(()),
    };
    fits("a value", value.len(), limits::VALUE_BYTES_MAX)?;
    if let Some(Lifetime::Ttl { ttl_ms }) = lifetime {
        refuse_if(!within(*ttl_ms, limits::NODE_TTL_MIN, limits::NODE_TTL_MAX), "a node TTL of that length")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{IfBusy, Owner, RequestRemoval, Want};
    use fairhold_types::{GrantId, Incarnation, JoinTokenNumber, MemberRole, SessionId, time::WallMillis};

    const AT: WallMillis = WallMillis(0);

    fn proper() -> Acquire {
        Acquire {
            grant: GrantId::from_ulid(1),
            id_given: true,
            wants: vec![Want { lock: LockName::parse("printer").unwrap(), mode: Mode::Exclusive }],
            claimant: Claimant::Anonymous { timeout_ms: 30_000 },
            if_busy: IfBusy::Queue,
            limit: None,
            permits: 1,
            priority: i32::MIN,
            owner: Owner { text: "x".repeat(limits::OWNER_BYTES_MAX), given: true },
            meta: Meta::new(),
            lock_delay_ms: 0,
            reentrant: false,
            max_hold_ms: None,
            value: None,
            at: AT,
        }
    }

    fn refused(command: &Command) -> String {
        match command.validate() {
            Err(Rejection::Unsupported { what }) => what,
            other => panic!("{command:?}: {other:?}"),
        }
    }

    #[test]
    fn an_acquire_is_checked_against_every_limit() {
        assert_eq!(Command::Acquire(proper()).validate(), Ok(()));
        let reserved = LockName::parse("x/2-lock-0000000000").unwrap();
        let meta = Meta::from([("k".to_owned(), "x".repeat(limits::META_BYTES_MAX))]);
        let changes: Vec<(Acquire, &str)> = vec![
            (Acquire { wants: vec![Want { lock: reserved, mode: Mode::Shared }], ..proper() }, "a contender's name"),
            (Acquire { claimant: Claimant::Anonymous { timeout_ms: 999 }, ..proper() }, "session timeout"),
            (Acquire { claimant: Claimant::Anonymous { timeout_ms: u64::MAX }, ..proper() }, "session timeout"),
            (Acquire { permits: 0, ..proper() }, "permits"),
            (Acquire { limit: Some(limits::PERMITS_MAX + 1), ..proper() }, "permits"),
            (Acquire { limit: Some(1), permits: 2, ..proper() }, "more permits"),
            (Acquire { owner: Owner { text: "x".repeat(257), given: true }, ..proper() }, "owner"),
            (Acquire { owner: Owner { text: "\u{1b}[31mroot".to_owned(), given: true }, ..proper() }, "owner with U+001B"),
            (Acquire { meta: Meta::from([("a".to_owned(), "x\u{202e}y".to_owned())]), ..proper() }, "meta with U+202E"),
            (Acquire { meta, ..proper() }, "meta"),
            (Acquire { lock_delay_ms: u64::MAX, ..proper() }, "lock delay"),
            (Acquire { max_hold_ms: Some(1), ..proper() }, "hold time"),
            (Acquire { value: Some(vec![0; limits::ELECTION_VALUE_BYTES_MAX + 1]), ..proper() }, "election"),
        ];
        for (request, says) in changes {
            let what = refused(&Command::Acquire(request));
            assert!(what.contains(says), "{what}");
        }
    }

    #[test]
    fn a_write_is_checked_against_every_limit() {
        let put = |value: usize, lifetime| Operation::Put {
            path: Path::parse("/a").unwrap(),
            value: vec![0; value].into(),
            parents: false,
            lifetime,
        };
        let write = |then: Vec<Operation>| {
            Command::Transact(Transact { key: None, conditions: Vec::new(), then, otherwise: None, at: AT })
        };
        assert_eq!(write(vec![put(limits::VALUE_BYTES_MAX, Lifetime::Container)]).validate(), Ok(()));
        let sequential = |prefix: &str| Operation::CreateSequential {
            parent: Path::root(),
            prefix: prefix.to_owned(),
            value: Vec::new().into(),
            parents: false,
            lifetime: Lifetime::Persistent,
        };
        assert_eq!(write(vec![sequential("job-")]).validate(), Ok(()));
        for (then, says) in [
            (vec![put(limits::VALUE_BYTES_MAX + 1, Lifetime::Persistent)], "a value"),
            (vec![put(limits::VALUE_BYTES_MAX, Lifetime::Persistent); 2], "bytes in one write"),
            (vec![put(0, Lifetime::Ttl { ttl_ms: 0 })], "node TTL of that length"),
            (vec![put(0, Lifetime::Persistent); limits::TRANSACTION_STEPS_MAX + 1], "a number of operations"),
            (vec![sequential("a/b")], "sequential"),
            (vec![sequential("a\u{7}")], "sequential"),
        ] {
            let what = refused(&write(then));
            assert!(what.contains(says), "{what}");
        }
    }

    #[test]
    fn an_administrators_request_is_checked_against_every_limit() {
        let end = |by: &str, reason: &str| Command::EndSession {
            session: fairhold_types::SessionNumber(1),
            by: by.to_owned(),
            reason: reason.to_owned(),
            at: AT,
        };
        let longest = ("x".repeat(limits::OWNER_BYTES_MAX), "x".repeat(limits::REASON_BYTES_MAX));
        assert_eq!(end(&longest.0, &longest.1).validate(), Ok(()));
        assert!(refused(&end(&format!("{}x", longest.0), "")).contains("an administrator's name"));
        assert!(refused(&end("", &format!("{}x", longest.1))).contains("a reason"));
        assert!(refused(&end("", "\u{1b}[31m")).contains("a reason with U+001B"));
    }

    #[test]
    fn a_request_about_members_is_checked_against_every_limit() {
        let token = CreateJoinToken {
            key: None,
            secret_hash: [0; 32],
            role: MemberRole::Voter,
            replaces: Some(2),
            standing: false,
            up_to: None,
            expires_at: Some(AT),
            by: "x".repeat(limits::OWNER_BYTES_MAX),
            at: AT,
        };
        let standing = CreateJoinToken { replaces: None, standing: true, up_to: Some(7), expires_at: None, ..token.clone() };
        let node = AdmitNode {
            token: JoinTokenNumber(1),
            secret_hash: [0; 32],
            incarnation: Incarnation(7),
            url: "u".repeat(limits::MEMBER_ADDRESS_BYTES_MAX),
            address: "a".repeat(limits::MEMBER_ADDRESS_BYTES_MAX),
            replaces: Some(2),
            ids_through: 3,
            at: AT,
        };
        let member = SetMember {
            key: None,
            node: 1,
            priority: Some(100),
            zone: Some("z".repeat(limits::ZONE_BYTES_MAX)),
            address_set: true,
            by: String::new(),
            at: AT,
        };
        let create = Command::CreateJoinToken;
        for proper in [
            create(token.clone()),
            create(standing.clone()),
            Command::AdmitNode(node.clone()),
            Command::SetMember(member.clone()),
        ] {
            assert_eq!(proper.validate(), Ok(()));
        }
        let removal = |node| RequestRemoval { node, ids_through: 3, by: String::new(), at: AT, other_voters: vec![2] };
        for (command, says) in [
            (create(CreateJoinToken { replaces: Some(0), ..token.clone() }), "the id 0"),
            (create(CreateJoinToken { expires_at: None, ..token.clone() }), "never expires"),
            (create(CreateJoinToken { up_to: Some(5), ..token.clone() }), "a number of voters"),
            (create(CreateJoinToken { by: "x\u{202e}".to_owned(), ..token }), "name with U+202E"),
            (create(CreateJoinToken { expires_at: Some(AT), ..standing.clone() }), "standing join token that expires"),
            (create(CreateJoinToken { replaces: Some(2), ..standing.clone() }), "for one member"),
            (create(CreateJoinToken { up_to: Some(0), ..standing.clone() }), "so many voters"),
            (create(CreateJoinToken { up_to: Some(8), ..standing }), "so many voters"),
            (Command::AdmitNode(AdmitNode { url: "u".repeat(301), ..node.clone() }), "the URL of a node of 301"),
            (Command::AdmitNode(AdmitNode { address: "a\u{1b}".to_owned(), ..node }), "the address of a node with U+001B"),
            (Command::RequestRemoval(removal(0)), "the id 0"),
            (Command::SettleJoin { node: 0, at: AT }, "the id 0"),
            (Command::SetMember(SetMember { node: 0, ..member.clone() }), "the id 0"),
            (Command::SetMember(SetMember { priority: Some(101), ..member.clone() }), "a priority over 100"),
            (Command::SetMember(SetMember { zone: Some("z".repeat(65)), ..member }), "the name of a zone of 65"),
        ] {
            let what = refused(&command);
            assert!(what.contains(says), "{what}");
        }
    }

    #[test]
    fn only_the_leader_may_propose_verdicts() {
        let verdict = Command::Forget { through: fairhold_types::Revision(7) };
        assert!(verdict.is_leader_only() && !Command::Acquire(proper()).is_leader_only());
        let settle = Command::SettleJoin { node: 4, at: AT };
        let revoke = Command::RevokeJoinToken { number: JoinTokenNumber(1), at: AT };
        assert!(settle.is_leader_only() && !revoke.is_leader_only());
        let open = |name: &str| OpenSession {
            key: None,
            id: SessionId(1),
            timeout_ms: 10_000,
            name: name.to_owned(),
            meta: Meta::new(),
            at: AT,
        };
        assert_eq!(Command::OpenSession(open("worker")).validate(), Ok(()));
        assert!(refused(&Command::OpenSession(open(&"x".repeat(257)))).contains("name"));
    }
}
