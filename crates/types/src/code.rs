//! The stable codes of errors, as `code` of a problem. Only the crate `http` maps them to HTTP statuses.

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident => $text:literal,)*) => {
        /// A code that programs can rely on; its text is the variant in snake case.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        #[cfg_attr(not(feature = "server"), non_exhaustive)]
        pub enum Code {
            $($(#[$doc])* $variant,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$variant),*];

            /// The code as text, as in JSON.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Code::$variant => $text,)*
                }
            }
        }
    };
}

codes! {
    /// The request itself is not valid: a parameter, a header or the body.
    BadRequest => "bad_request",
    /// The call needs authentication.
    Unauthenticated => "unauthenticated",
    /// The caller is not allowed to do it.
    Denied => "denied",
    /// The request is for another cluster.
    WrongCluster => "wrong_cluster",
    /// There is no such resource.
    NotFound => "not_found",
    /// The resource does not support this method.
    MethodNotAllowed => "method_not_allowed",
    /// The tree has no such node.
    NoNode => "no_node",
    /// No grant has this id.
    GrantNotFound => "grant_not_found",
    /// No session has this id or number.
    SessionNotFound => "session_not_found",
    /// Another grant holds the lock, and the caller did not wait.
    LockHeld => "lock_held",
    /// The lock did not become free in time; the caller has left the queue.
    WaitTimeout => "wait_timeout",
    /// The grant belongs to a named session: keep the session alive instead.
    SessionOwned => "session_owned",
    /// Waiting would cause a deadlock.
    WouldDeadlock => "would_deadlock",
    /// The lock has another limit.
    LimitMismatch => "limit_mismatch",
    /// The grant does not lead its election.
    NotLeader => "not_leader",
    /// The election has no leader.
    NoLeader => "no_leader",
    /// The name belongs to a lock, not an election, or vice versa.
    KindMismatch => "kind_mismatch",
    /// The grant still waits in its queue.
    NotHeld => "not_held",
    /// The node has not caught up with the log, or does not answer.
    NotCaughtUp => "not_caught_up",
    /// The node is already the leader.
    AlreadyLeader => "already_leader",
    /// A member does not support the cluster's next version, or does not answer.
    NotAllUpgraded => "not_all_upgraded",
    /// The cluster's version is too low for this call: finalize the upgrade first.
    NeedsUpgrade => "needs_upgrade",
    /// Another change of the members is under way.
    ChangeInProgress => "change_in_progress",
    /// Another node answers at the new address of the member, or another process of the member answers at its present
    /// one; or the address belongs to another member.
    WrongNode => "wrong_node",
    /// Too few of the remaining voters would be healthy.
    WouldLoseQuorum => "would_lose_quorum",
    /// The round trips between the voters are too long for the timing profile.
    TimingTooFast => "timing_too_fast",
    /// After the change nobody could change the access data any more, except administrators by a file.
    WouldLockOut => "would_lock_out",
    /// A token with this hash exists, or the request that made a token is repeated.
    AlreadyIssued => "already_issued",
    /// The role has bindings, or is built in.
    InUse => "in_use",
    /// A name or a principal of the tenant belongs to another tenant.
    Overlaps => "overlaps",
    /// The node has children.
    NotEmpty => "not_empty",
    /// The node already exists.
    NodeExists => "node_exists",
    /// The parent is an ephemeral node, which cannot have children.
    EphemeralParent => "ephemeral_parent",
    /// The fencing token does not belong to a held grant.
    StaleToken => "stale_token",
    /// The grant has ended.
    GrantGone => "grant_gone",
    /// The session has ended.
    SessionExpired => "session_expired",
    /// The id is too old: the cluster may have forgotten that its grant has ended.
    Forgotten => "forgotten",
    /// The requested events are no longer kept.
    Compacted => "compacted",
    /// The node has another version.
    VersionMismatch => "version_mismatch",
    /// The body or the value is too large.
    TooLarge => "too_large",
    /// The same key was used with another request.
    IdempotencyMismatch => "idempotency_mismatch",
    /// A rule of the role is wrong.
    BadRule => "bad_rule",
    /// The queue of the lock is full.
    QueueFull => "queue_full",
    /// The state has reached its size limit: remove something first.
    StateFull => "state_full",
    /// A tenant has as much of something as its quota allows.
    QuotaExceeded => "quota_exceeded",
    /// The cluster has reached its limit of sessions or of remembered ids.
    RateLimited => "rate_limited",
    /// This node makes another backup: it makes one at a time.
    BackupBusy => "backup_busy",
    /// This node is overloaded; nothing was done.
    Overloaded => "overloaded",
    /// The disk is nearly full: the leader refuses writes that need space.
    DiskLow => "disk_low",
    /// Access rights were changed again and again while the request was decided; nothing was done.
    StaleAccess => "stale_access",
    /// The audit log cannot be written, and the server makes no call without an entry there; nothing was done.
    AuditUnavailable => "audit_unavailable",
    /// No majority of the nodes can be reached.
    NoQuorum => "no_quorum",
    /// This server is shutting down.
    ShuttingDown => "shutting_down",
    /// The request ran out of time.
    DeadlineExceeded => "deadline_exceeded",
    /// The server has a defect.
    Internal => "internal",
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_one_text() {
        for code in Code::ALL {
            assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{code}\""));
        }
    }
}
