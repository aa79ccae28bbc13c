//! The stable codes of errors, as `code` of a problem. Which HTTP status each has is decided in `http` alone.

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident => $text:literal,)*) => {
        /// A code that programs may rely on; its text is the variant in snake case.
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

            /// The code as it travels.
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
    /// The request itself is wrong: a parameter, a header, the body.
    BadRequest => "bad_request",
    /// Who asks is not known.
    Unauthenticated => "unauthenticated",
    /// Who asks may not do it.
    Denied => "denied",
    /// The request is for another cluster.
    WrongCluster => "wrong_cluster",
    /// The service has no such resource.
    NotFound => "not_found",
    /// The resource is there and has no such method.
    MethodNotAllowed => "method_not_allowed",
    /// The tree has no such node.
    NoNode => "no_node",
    /// No grant has this id.
    GrantNotFound => "grant_not_found",
    /// No session has this id or number.
    SessionNotFound => "session_not_found",
    /// Another holds the lock, and the caller does not wait.
    LockHeld => "lock_held",
    /// The lock was not free in the time waited; the caller is out of the queue.
    WaitTimeout => "wait_timeout",
    /// The grant belongs to a named session, which is what must be renewed.
    SessionOwned => "session_owned",
    /// Waiting would close a circle of waiters.
    WouldDeadlock => "would_deadlock",
    /// The lock has another limit.
    LimitMismatch => "limit_mismatch",
    /// The grant does not lead its election.
    NotLeader => "not_leader",
    /// Nobody leads the election.
    NoLeader => "no_leader",
    /// The name is that of a lock and not of an election, or the other way round.
    KindMismatch => "kind_mismatch",
    /// The grant waits in its queue still.
    NotHeld => "not_held",
    /// The node has too little of the log, or does not answer.
    NotCaughtUp => "not_caught_up",
    /// The node leads already.
    AlreadyLeader => "already_leader",
    /// The node has children.
    NotEmpty => "not_empty",
    /// The node is there already.
    NodeExists => "node_exists",
    /// The parent is an ephemeral node, which cannot have children.
    EphemeralParent => "ephemeral_parent",
    /// The fencing token is not that of a held grant.
    StaleToken => "stale_token",
    /// The grant has ended.
    GrantGone => "grant_gone",
    /// The session has ended.
    SessionExpired => "session_expired",
    /// The id is so old that it may have ended and been forgotten.
    Forgotten => "forgotten",
    /// The events asked for are no longer kept.
    Compacted => "compacted",
    /// The node's version is another.
    VersionMismatch => "version_mismatch",
    /// The body or the value is too large.
    TooLarge => "too_large",
    /// The same key came with another request.
    IdempotencyMismatch => "idempotency_mismatch",
    /// Too many wait for the lock.
    QueueFull => "queue_full",
    /// The state's budget is used up: something must go first.
    StateFull => "state_full",
    /// The cluster takes no more of this now.
    RateLimited => "rate_limited",
    /// This node has too much to do; surely nothing was done.
    Overloaded => "overloaded",
    /// The disk is nearly full: what would fill it is refused.
    DiskLow => "disk_low",
    /// No majority of the nodes could be asked.
    NoQuorum => "no_quorum",
    /// This server stops.
    ShuttingDown => "shutting_down",
    /// The time given is over.
    DeadlineExceeded => "deadline_exceeded",
    /// A defect of the server.
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
