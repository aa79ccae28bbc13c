//! Every limit, by name. The API enforces it, or `apply` where only the state can.

use crate::NodeId;
use std::time::Duration;

/// Bytes of a path.
pub const PATH_BYTES_MAX: usize = 1_024;
/// Levels of a path.
pub const PATH_LEVELS_MAX: usize = 32;
/// Bytes of a lock's name.
pub const LOCK_NAME_BYTES_MAX: usize = 512;
/// Bytes of a node's value.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a JSON body that contains only a call's parameters.
pub const PARAMS_BYTES_MAX: usize = 64 * 1024;
/// Bytes of any other JSON body: a batch, a transaction, a list of sessions or of locks.
pub const BODY_BYTES_MAX: usize = 1536 * 1024;
/// Bytes of a request line and its headers together.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Headers of a request.
pub const HEADERS_MAX: usize = 100;
/// Client connections to one node, unless its operator sets another number. A node with little memory accepts fewer connections,
/// and less of the limits below (`memory_plan`).
pub const CONNECTIONS_MAX: usize = 10_000;
/// The part of them from one address, so that a few addresses cannot shut out all others. Behind a proxy, set both to the
/// same value.
pub const CONNECTIONS_PER_ADDRESS_MAX: usize = CONNECTIONS_MAX / 8;
/// An address with fewer connections than this may use the reserve that other addresses cannot use.
pub const FEW_CONNECTIONS: usize = 8;
/// TLS handshakes with clients that run at once, for each processor. One address may have half of them; the rest wait.
pub const HANDSHAKES_PER_CORE_MAX: usize = 64;
/// How long a TLS handshake with a client may take.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// Connections to the status listener.
pub const STATUS_CONNECTIONS_MAX: usize = 64;
/// Bytes received on one connection and not yet read.
pub const CONNECTION_BUFFER_BYTES: usize = HEAD_BYTES_MAX + 4 * 1024;
/// Bytes of a request body that do not count against `BODIES_BYTES_MAX`.
pub const BODY_BYTES_FREE: usize = 4 * 1024;
/// Changes that a watcher fetches at a time. One revision may have any number of changes.
pub const CHANGES_AT_ONCE: usize = 128;
/// Bytes of all request bodies over 4 KiB in one node's memory.
pub const BODIES_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Of those, from one address.
pub const BODIES_BYTES_PER_ADDRESS_MAX: usize = BODIES_BYTES_MAX / ADDRESS_PART;
/// Bytes of answers waiting for a connection's socket that do not count against `ANSWERS_BYTES_MAX`.
pub const ANSWER_BYTES_FREE: usize = 16 * 1024;
/// Bytes that a stream sends in one frame.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;
/// Bytes of all answers waiting for their sockets, beyond each connection's free part.
pub const ANSWERS_BYTES_MAX: usize = 256 * 1024 * 1024;
/// The part of them to one address.
pub const ANSWERS_BYTES_PER_ADDRESS_MAX: usize = ANSWERS_BYTES_MAX / ADDRESS_PART;
/// One address may use this fraction (1/N) of the memory for bodies, and of that for answers.
pub const ADDRESS_PART: usize = 2;
/// Bytes of the value that an election's leader proclaims: an address, not a document.
pub const ELECTION_VALUE_BYTES_MAX: usize = 4_096;
/// Pairs in `meta`.
pub const META_PAIRS_MAX: usize = 16;
/// Bytes of `meta`, keys and values together.
pub const META_BYTES_MAX: usize = 1_024;
/// Bytes of `owner`, and of a session's name.
pub const OWNER_BYTES_MAX: usize = 256;
/// Bytes of the reason that an administrator gives.
pub const REASON_BYTES_MAX: usize = 256;
/// Grants that the answer to a forced release names.
pub const BROKEN_NAMED_MAX: usize = 16;
/// Bytes of a name that a refusal repeats. A longer one may be a token.
pub const NAME_REPEATED_BYTES_MAX: usize = 40;
/// Bytes of the shortest token of an administrator. What is left of a longer one that was not written to its end is often
/// shorter.
pub const ADMIN_TOKEN_BYTES_MIN: usize = 16;
/// Bytes of an administrator's token.
pub const ADMIN_TOKEN_BYTES_MAX: usize = 4_096;
/// Bytes of a JWT that a request shows.
pub const JWT_BYTES_MAX: usize = 8 * 1024;
/// How long a JWT may live.
pub const JWT_LIFE_MAX: Duration = Duration::from_secs(24 * 3_600);
/// How long before the end of its caller's credential a stream says so.
pub const CREDENTIAL_NOTICE: Duration = Duration::from_secs(60);
/// How far the clocks of a provider of JWTs and of a node may differ.
pub const JWT_CLOCK_SKEW: Duration = Duration::from_secs(30);
/// Waiters in the queue of one lock.
pub const WAITERS_MAX: usize = 10_000;
/// Locks in one acquire.
pub const LOCKS_PER_ACQUIRE_MAX: usize = 64;
/// How many waiters of higher priority may overtake the longest waiter of a lock. After that, none overtakes it.
pub const OVERTAKEN_MAX: u32 = 16;
/// Contenders and queues that a deadlock search visits for one request. Beyond that, the answer says that it was not checked.
pub const DEADLOCK_VISITS_MAX: usize = 4_000;
/// Holds of one grant.
pub const HOLDS_MAX: usize = 1_000;
/// The shortest `max_hold`.
pub const MAX_HOLD_MIN: Duration = Duration::from_secs(1);
/// The longest `max_hold`.
pub const MAX_HOLD_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);
/// Sessions in the cluster.
pub const SESSIONS_MAX: usize = 1_000_000;
/// The shortest session timeout.
pub const SESSION_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// The longest session timeout.
pub const SESSION_TIMEOUT_MAX: Duration = Duration::from_secs(3_600);
/// The default session timeout.
pub const SESSION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// The longest `wait`.
pub const WAIT_MAX: Duration = Duration::from_secs(600);
/// The longest `lock_delay`.
pub const LOCK_DELAY_MAX: Duration = Duration::from_secs(3_600);
/// The default `Fairhold-Timeout`: how long the server works on a request.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// The longest `Fairhold-Timeout`.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(600);
/// Tombstones (ids of ended grants) that one session keeps.
pub const SESSION_TOMBSTONES_MAX: usize = 1_024;
/// Tombstones without a session. When the table is full, the cluster refuses new work; it never forgets an id early.
pub const TOMBSTONES_MAX: usize = 4_000_000;
/// Tombstones that one verdict of the leader's clock removes.
pub const TOMBSTONES_REMOVED_MAX: usize = 2_000;
/// Idempotency keys of mode and timeout changes that a grant keeps for its lifetime.
pub const GRANT_KEYS_MAX: usize = 16;
/// Objects that one verdict of the leader's clock names.
pub const VERDICT_OBJECTS_MAX: usize = 1_000;
/// Steps, of about a microsecond each, after which a command leaves the rest of its work to later commands.
pub const COMMAND_STEPS_MAX: u64 = 4_000;
/// How long a tombstone without a session is kept, at least.
pub const TOMBSTONE_KEPT_FOR: Duration = Duration::from_secs(60);
/// How long a lock must be without contenders before its settings are forgotten.
pub const LOCK_IDLE_MAX: Duration = Duration::from_secs(600);
/// The same, while unused locks use more than their share of the state's budget.
pub const LOCK_IDLE_MIN: Duration = Duration::from_secs(10);
/// Permits of one lock.
pub const PERMITS_MAX: u32 = 1_000_000;
/// Sessions in one keepalive call.
pub const KEEPALIVE_IDS_MAX: usize = 10_000;
/// Bytes of the owners and meta of the grants ahead that one answer lists.
pub const AHEAD_BYTES_MAX: usize = 3 * 1024;
/// Waiters of a deadlock that an answer names.
pub const CYCLE_NAMED_MAX: usize = 32;
/// Bytes of a problem's `detail`.
pub const DETAIL_BYTES_MAX: usize = 2 * 1024;
/// Bytes of the answer to one acquire in a batch. A full batch of them is 1 MiB.
pub const BATCH_ACQUIRE_BYTES_MAX: usize = 4 * 1024;
/// The same for a release or a renewal.
pub const BATCH_RELEASE_BYTES_MAX: usize = 2 * 1024;
/// Calls in one batch.
pub const BATCH_CALLS_MAX: usize = 256;
/// The longest life of a TTL node since its last change: ZooKeeper's bound, 2^40 - 1 milliseconds.
pub const NODE_TTL_MAX: Duration = Duration::from_millis((1 << 40) - 1);
/// The shortest life of a TTL node since its last change.
pub const NODE_TTL_MIN: Duration = Duration::from_millis(1);
/// How long a container that had children must be empty before the server removes it.
pub const CONTAINER_EMPTY_MAX: Duration = Duration::from_secs(60);
/// Nodes that one command may remove by recursive deletes.
pub const NODES_REMOVED_MAX: usize = 10_000;
/// Nodes that one command may create, including missing parents.
pub const NODES_CREATED_MAX: usize = 4_000;
/// Nodes that one verdict of the leader's clock removes.
pub const NODES_SWEPT_MAX: usize = 1_000;
/// The default fraction (1/N) of a node's memory that the state may use. While a snapshot is built, sent or installed, memory
/// holds several copies of the state.
pub const STATE_MEMORY_PART: u64 = 8;
/// The smallest state budget, in bytes, that a node accepts in its configuration.
pub const STATE_BYTES_MIN: u64 = 1024 * 1024;
/// Bytes of a write's results that are kept with its key. If the results are larger, a repeated request learns only that it
/// was done.
pub const RESULTS_KEPT_BYTES: u64 = 4_096;
/// Conditions of one transaction, and operations in each of its branches.
pub const TRANSACTION_STEPS_MAX: usize = 1_000;
/// Grants, and ephemeral nodes, listed with each session in a list of sessions. The list also has their total numbers.
pub const SESSION_ROW_MAX: usize = 16;
/// Locks listed with each grant in a page of a queue.
pub const QUEUE_ROW_MAX: usize = 16;
/// Locks listed in each row of the tree of waits. The row also has the number of the others.
pub const WAIT_HOLDS_MAX: usize = 20;
/// Entries on one page of a listing.
pub const PAGE_MAX: usize = 1_000;
/// The default number of entries on a page.
pub const PAGE_DEFAULT: usize = 100;
/// The default number of events on a page of recent events.
pub const EVENT_PAGE_DEFAULT: usize = 200;
/// Entries scanned for one page. If few of them match the filter, the page is short and says where the next one begins.
pub const PAGE_SCANNED_MAX: usize = 20_000;
/// Bytes of the event ring that a node keeps for watchers, by default.
pub const EVENT_RING_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes of the commands in one node's proposal queue. Commands that end something are small and exempt.
pub const PROPOSALS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The smallest event ring, in bytes, that a node accepts in its configuration.
pub const EVENT_RING_BYTES_MIN: u64 = 64 * 1024;
/// Watches and long polls that may be open at one node.
pub const WATCHERS_MAX: usize = 20_000;
/// How often a watch sends a bookmark.
pub const BOOKMARK_EVERY: Duration = Duration::from_secs(10);
/// How long a watcher may take to read the initial state of its watch.
pub const INITIAL_WITHIN: Duration = Duration::from_secs(60);
/// Holdings in the history of one lock. The oldest is dropped first.
pub const HISTORY_PER_LOCK_MAX: usize = 1_000;
/// Holdings in the histories of all locks together.
pub const HISTORY_MAX: usize = 100_000;
/// How long a holding stays in the history, at least, unless the limits on their number remove it.
pub const HISTORY_KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Administrative acts that the audit has. The oldest is dropped first.
pub const AUDIT_ENTRIES_MAX: usize = 10_000;
/// Bytes that they take in the state.
pub const AUDIT_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Bytes of each text of an act in the audit. A longer one is cut.
pub const AUDIT_TEXT_BYTES_MAX: usize = 600;
/// Bytes of the addresses in the note of a changed member.
pub const NOTED_BYTES_MAX: usize = 1_024;
/// Bytes of a request's id that its caller chose.
pub const REQUEST_ID_BYTES_MAX: usize = 128;
/// Bytes of a rule of a role, as text.
pub const ACCESS_RULE_BYTES_MAX: usize = 1_152;
/// Rules of a role.
pub const ACCESS_RULES_MAX: usize = 100;
/// Bytes of the target of a check of rights, as text.
pub const ACCESS_CHECK_BYTES_MAX: usize = 1_152;
/// Bytes of a principal: its kind, a colon and its name.
pub const PRINCIPAL_BYTES_MAX: usize = 32 + 1 + 128;
/// The maximum number of prefixes of a tenant.
pub const TENANT_PREFIXES_MAX: usize = 100;
/// The maximum number of subjects of a tenant.
pub const TENANT_SUBJECTS_MAX: usize = 100;
/// The maximum length of a prefix of a tenant, in bytes: a kind of names, and a pattern.
pub const TENANT_PREFIX_BYTES_MAX: usize = 1_152;
/// The largest quota of what one server counts: a rate, or a number of open requests.
pub const TENANT_RATE_MAX: u32 = 1_000_000;
/// The longest life of an access token: ten years.
pub const ACCESS_TOKEN_TTL_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);
/// How long an expired token stays, so that its user learns why it is refused.
pub const EXPIRED_TOKEN_KEPT_FOR: Duration = Duration::from_secs(24 * 3_600);
/// Holdings that one verdict of the leader's clock removes from the history.
pub const HISTORY_REMOVED_MAX: usize = 1_000;
/// Recent holdings whose median estimates the next one.
pub const ESTIMATE_HOLDS: usize = 15;
/// The shortest time until an upgrade is finalized without an operator.
pub const FINALIZE_AFTER_MIN: Duration = Duration::from_secs(60);
/// The shortest time that a join token is valid.
pub const JOIN_TOKEN_TTL_MIN: Duration = Duration::from_secs(60);
/// The longest time that a join token is valid, unless it is a standing one.
pub const JOIN_TOKEN_TTL_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The default time that a join token is valid.
pub const JOIN_TOKEN_TTL_DEFAULT: Duration = Duration::from_secs(3_600);
/// The highest number that an operator gives a node. The cluster counts on from the highest one, and its numbers must stay
/// exact in JSON.
pub const NODE_ID_MAX: NodeId = 1_000_000_000_000_000;
/// Voters of a cluster.
pub const VOTERS_MAX: u8 = 7;
/// Learners of a cluster.
pub const LEARNERS_MAX: u8 = 10;
/// Bytes of a member's URL, and of its address for peers.
pub const MEMBER_ADDRESS_BYTES_MAX: usize = 300;
/// The highest priority of a member.
pub const MEMBER_PRIORITY_MAX: u8 = 100;
/// Bytes of a member's zone.
pub const ZONE_BYTES_MAX: usize = 64;
/// The default priority of a member.
pub const MEMBER_PRIORITY_DEFAULT: u8 = 50;
/// Join tokens that the cluster remembers, including used ones that have not expired.
pub const JOIN_TOKENS_MAX: usize = 100;
/// Nodes that may be joining at the same time.
pub const JOINS_MAX: usize = 10;
/// Removed nodes that the cluster remembers in detail: the last ones. No id is given again, however old.
pub const REMOVED_NODES_MAX: usize = 1_000;
/// Bytes of one file of the audit log. A larger one is renamed, and another one begins.
pub const AUDIT_FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Files of the audit log, the newest one included. The oldest one is removed.
pub const AUDIT_FILES_MAX: usize = 10;
/// Bytes of entries that wait for the disk. Further entries are lost.
pub const AUDIT_QUEUE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Refusals of one caller from one address that the audit log has in full, in a second. Further ones are counted there.
pub const AUDIT_REFUSALS_PER_CALLER_MAX: u32 = 20;
/// The same for all callers together.
pub const AUDIT_REFUSALS_MAX: u32 = 500;
/// Callers whose further refusals the audit log counts one by one, in a second.
pub const AUDIT_CALLERS_MAX: usize = 1_024;
/// How long a reader of a backup may take for one block of it.
pub const BACKUP_BLOCK_WITHIN: Duration = Duration::from_secs(30);
/// How many bytes a second a reader of a backup must take on average: meanwhile the node keeps the old state in memory, and
/// makes no backup for another client.
pub const BACKUP_BYTES_PER_SECOND_MIN: u64 = 256 * 1024;
/// The shortest time between two scheduled backups of a node.
pub const BACKUP_EVERY_MIN: Duration = Duration::from_secs(60);
/// The longest one.
pub const BACKUP_EVERY_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);
/// The default.
pub const BACKUP_EVERY_DEFAULT: Duration = Duration::from_secs(3_600);
/// Scheduled backups that a node keeps by default.
pub const BACKUPS_KEPT_DEFAULT: usize = 48;
/// Spans that wait for the collector of traces. Further spans are dropped.
pub const TRACE_QUEUE_SPANS_MAX: usize = 8_192;
/// Spans in one request to that collector.
pub const TRACE_BATCH_SPANS_MAX: usize = 512;
/// By default, a request that takes longer than this is a slow one.
pub const SLOW_REQUEST_DEFAULT: Duration = Duration::from_secs(1);
/// Slow requests that the log has in a second. Further ones are counted.
pub const SLOW_REQUESTS_LOGGED_MAX: u32 = 10;
