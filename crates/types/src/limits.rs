//! Every limit, by name. Enforced at the API, or in apply where only the state knows.

use std::time::Duration;

/// Bytes of a path.
pub const PATH_BYTES_MAX: usize = 1_024;
/// Levels of a path.
pub const PATH_LEVELS_MAX: usize = 32;
/// Bytes of a lock's name.
pub const LOCK_NAME_BYTES_MAX: usize = 512;
/// Bytes of a node's value.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a JSON body that has nothing but a call's parameters.
pub const PARAMS_BYTES_MAX: usize = 64 * 1024;
/// Bytes of any other JSON body: a batch, a transaction, a list of sessions or of locks.
pub const BODY_BYTES_MAX: usize = 1536 * 1024;
/// Bytes of a request's line and headers together.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Headers of a request.
pub const HEADERS_MAX: usize = 100;
/// Connections of clients to one node, if its operator sets no other number. A node with little memory accepts fewer, and less of
/// what follows (`memory_plan`).
pub const CONNECTIONS_MAX: usize = 10_000;
/// Of those, from one address: no few addresses may shut out all others. Behind a proxy the operator sets both alike.
pub const CONNECTIONS_PER_ADDRESS_MAX: usize = CONNECTIONS_MAX / 8;
/// An address with fewer connections than this gets a place even when all but a reserve are taken.
pub const FEW_CONNECTIONS: usize = 8;
/// Connections to the listener that has the state of the server alone.
pub const STATUS_CONNECTIONS_MAX: usize = 64;
/// Bytes that are kept of what one connection sends, before they are read.
pub const CONNECTION_BUFFER_BYTES: usize = HEAD_BYTES_MAX + 4 * 1024;
/// Bytes of a body for which a connection needs no room.
pub const BODY_BYTES_FREE: usize = 4 * 1024;
/// Changes that a watcher fetches at once. One revision may have any number of them.
pub const CHANGES_AT_ONCE: usize = 128;
/// Bytes of all request bodies over 4 KiB that are in a node at a time.
pub const BODIES_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Of those, from one address.
pub const BODIES_BYTES_PER_ADDRESS_MAX: usize = BODIES_BYTES_MAX / ADDRESS_PART;
/// Bytes of answers that a connection may have waiting for its socket without room of its own.
pub const ANSWER_BYTES_FREE: usize = 16 * 1024;
/// Bytes that a stream sends at a time.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;
/// Bytes of all answers, beyond what each connection has for itself, that their sockets have not taken yet.
pub const ANSWERS_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Of those, to one address.
pub const ANSWERS_BYTES_PER_ADDRESS_MAX: usize = ANSWERS_BYTES_MAX / ADDRESS_PART;
/// One address has one part in so many of the room for bodies, and of that for answers.
pub const ADDRESS_PART: usize = 2;
/// Bytes of what the leader of an election proclaims: an address, not a document.
pub const ELECTION_VALUE_BYTES_MAX: usize = 4_096;
/// Pairs in `meta`.
pub const META_PAIRS_MAX: usize = 16;
/// Bytes of `meta`, keys and values together.
pub const META_BYTES_MAX: usize = 1_024;
/// Bytes of `owner`, and of a session's name.
pub const OWNER_BYTES_MAX: usize = 256;
/// Bytes of the reason that an administrator gives.
pub const REASON_BYTES_MAX: usize = 256;
/// Grants that the answer to a break names.
pub const BROKEN_NAMED_MAX: usize = 16;
/// Bytes of an administrator's token.
pub const ADMIN_TOKEN_BYTES_MAX: usize = 4_096;
/// Contenders that may wait for one lock.
pub const WAITERS_MAX: usize = 10_000;
/// Locks that one request may take together.
pub const LOCKS_TOGETHER_MAX: usize = 64;
/// How often those of higher priority may be placed before the one that waits longest for a lock; from then on nobody is.
pub const OVERTAKEN_MAX: u32 = 16;
/// Contenders and queues that the search for a deadlock looks at for one request; beyond that it says that it did not check.
pub const DEADLOCK_VISITS_MAX: usize = 4_000;
/// Holds of one grant.
pub const HOLDS_MAX: usize = 1_000;
/// The shortest bound on holding.
pub const MAX_HOLD_MIN: Duration = Duration::from_secs(1);
/// The longest bound on holding.
pub const MAX_HOLD_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);
/// Sessions in the cluster.
pub const SESSIONS_MAX: usize = 1_000_000;
/// The shortest session timeout.
pub const SESSION_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// The longest session timeout.
pub const SESSION_TIMEOUT_MAX: Duration = Duration::from_secs(3_600);
/// The session timeout where none is asked for.
pub const SESSION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// The longest `wait`.
pub const WAIT_MAX: Duration = Duration::from_secs(600);
/// The longest `lock_delay`.
pub const LOCK_DELAY_MAX: Duration = Duration::from_secs(3_600);
/// The server's own work on a request, where `Fairhold-Timeout` is not given.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// The longest `Fairhold-Timeout`.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(600);
/// Ended ids that a session remembers.
pub const SESSION_ENDED_IDS_MAX: usize = 1_024;
/// Ended ids that are remembered without a session. A full table refuses new work, it never forgets sooner.
pub const REMEMBERED_MAX: usize = 4_000_000;
/// Ids that one verdict of the leader's clock forgets.
pub const FORGOTTEN_MAX: usize = 2_000;
/// Keys of changes of mode and timeout that a grant remembers, for its life.
pub const GRANT_KEYS_MAX: usize = 16;
/// Objects that one verdict of the leader's clock names.
pub const VERDICT_OBJECTS_MAX: usize = 1_000;
/// Steps, of about a microsecond, after which a command leaves the rest of its work to later commands.
pub const PIECE_STEPS: u64 = 4_000;
/// How long an id without a session is remembered, at least.
pub const REMEMBERED_FOR: Duration = Duration::from_secs(60);
/// How long a lock must be without contenders before its settings are forgotten.
pub const LOCK_IDLE_MAX: Duration = Duration::from_secs(600);
/// The same, while unused locks take more than their part of the state's budget.
pub const LOCK_IDLE_MIN: Duration = Duration::from_secs(10);
/// Permits of one lock.
pub const PERMITS_MAX: u32 = 1_000_000;
/// Sessions in one keepalive call.
pub const KEEPALIVE_IDS_MAX: usize = 10_000;
/// Bytes with which an answer names those ahead of its caller, apart from their numbers and times.
pub const AHEAD_BYTES_MAX: usize = 3 * 1024;
/// Those of a circle of waiters whom an answer names.
pub const CYCLE_NAMED_MAX: usize = 32;
/// Bytes of what a refusal says in words.
pub const DETAIL_BYTES_MAX: usize = 2 * 1024;
/// Bytes of the answer to one acquire in a batch; the whole batch's is that often as large as it has calls: 1 MiB.
pub const BATCH_ACQUIRE_BYTES_MAX: usize = 4 * 1024;
/// The same of a release and of a renewal.
pub const BATCH_RELEASE_BYTES_MAX: usize = 2 * 1024;
/// Calls in one batch.
pub const BATCH_CALLS_MAX: usize = 256;
/// The longest life of a TTL node since its last change: ZooKeeper's bound, 2^40 - 1 milliseconds.
pub const NODE_TTL_MAX: Duration = Duration::from_millis((1 << 40) - 1);
/// The shortest life of a TTL node since its last change.
pub const NODE_TTL_MIN: Duration = Duration::from_millis(1);
/// How long a container must be without children, after it had some, before it is removed.
pub const CONTAINER_EMPTY_MAX: Duration = Duration::from_secs(60);
/// Nodes that one command may remove by recursive deletes.
pub const NODES_REMOVED_MAX: usize = 10_000;
/// Nodes that one command may create, missing parents counted.
pub const NODES_CREATED_MAX: usize = 4_000;
/// Nodes that one verdict of the leader's clock removes.
pub const NODES_SWEPT_MAX: usize = 1_000;
/// One part in so many of its memory is what a node says that its state may take, unless it is configured otherwise. A state is
/// several times in memory while a snapshot of it is made, sent or taken over.
pub const STATE_MEMORY_PART: u64 = 8;
/// The fewest bytes of state that a node may be configured to hold.
pub const STATE_BYTES_MIN: u64 = 1024 * 1024;
/// Bytes of the results of a write that are remembered with its key; of more a repeated request is told only that it was done.
pub const RESULTS_REMEMBERED_BYTES: u64 = 4_096;
/// Conditions, and operations in either branch, of one transaction.
pub const TRANSACTION_STEPS_MAX: usize = 1_000;
/// Grants, and ephemeral nodes, that a session is shown with in a list of sessions; how many it has is told besides.
pub const SESSION_ROW_MAX: usize = 16;
/// Entries on one page of a listing.
pub const PAGE_MAX: usize = 1_000;
/// Entries on a page where the caller names no number.
pub const PAGE_DEFAULT: usize = 100;
/// Entries that are looked at for one page; where few of them fit the filter the page is short, and says where the next begins.
pub const PAGE_SCANNED_MAX: usize = 20_000;
/// Bytes of the events that a node keeps for those who watch, unless it is configured otherwise.
pub const EVENT_RING_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes of the commands that wait to be proposed at one node. What ends something is small, and not refused for it.
pub const PROPOSALS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The fewest bytes that it may be configured to keep.
pub const EVENT_RING_BYTES_MIN: u64 = 64 * 1024;
/// Watches and long polls that may be open at one node.
pub const WATCHERS_MAX: usize = 20_000;
/// How often a watch says up to which revision it has told all.
pub const BOOKMARK_EVERY: Duration = Duration::from_secs(10);
/// How long a watcher may take to read the state that its watch begins with.
pub const INITIAL_WITHIN: Duration = Duration::from_secs(60);
/// Times of holding that the history of one lock keeps; the oldest goes first.
pub const HISTORY_PER_LOCK_MAX: usize = 1_000;
/// Times of holding that the history of all locks together keeps.
pub const HISTORY_MAX: usize = 100_000;
/// How long a time of holding stays in the history, at least, where the bounds on its number leave it there.
pub const HISTORY_KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Times of holding that one verdict of the leader takes out of the history.
pub const HISTORY_FORGOTTEN_MAX: usize = 1_000;
/// Times of holding of which the middle one tells how long the next may take.
pub const ESTIMATE_HOLDS: usize = 15;
