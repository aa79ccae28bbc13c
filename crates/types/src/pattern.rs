//! Ids, names and paths as regular expressions (ECMA-262), for the description of the API. The parsers decide.

/// A session's id: 32 hexadecimal digits in lower case.
pub const SESSION_ID: &str = "^[0-9a-f]{32}$";

/// A cluster's id: 32 hexadecimal digits in lower case.
pub const CLUSTER_ID: &str = "^[0-9a-f]{32}$";

/// A grant's id: a ULID, or a UUIDv7.
pub const GRANT_ID: &str = "^([0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}|\
    [0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-7[0-9A-Fa-f]{3}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12})$";

/// A lock's name: 1 to 30 levels, none of them empty, `.` or `..` or in the form of a contender's node, and no control
/// characters.
pub const LOCK_NAME: &str = "^(?!(.*/)?(\\.{1,2}|[0-9]+-lock-[0-9]{10})(/|$))\
    [^/\\u0000-\\u001f\\u007f-\\u009f]+(/[^/\\u0000-\\u001f\\u007f-\\u009f]+){0,29}$";

/// Text for people; see `text::is_plain`.
pub const WORDS: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff]*$";

/// A path: the root, or 1 to 32 levels, none of them empty, `.` or `..`, no control characters.
pub const PATH: &str = "^(/|(?!(.*/)\\.{1,2}(/|$))(/[^/\\u0000-\\u001f\\u007f-\\u009f]+){1,32})$";

/// A path as in `PATH`, except those in the tree's folder of locks.
pub const NODE_PATH: &str = "^(/|(?!/locks(/|$))(?!(.*/)\\.{1,2}(/|$))(/[^/\\u0000-\\u001f\\u007f-\\u009f]+){1,32})$";

/// The prefix of a sequential node's name: a part of one level.
pub const NAME_PREFIX: &str = "^[^/\\u0000-\\u001f\\u007f-\\u009f]*$";

/// A revision, or an RFC 3339 time, in UTC or with an offset.
pub const MOMENT: &str = "^([0-9]{1,16}|(19[7-9]|20[0-9])[0-9]-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T\
    ([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9]))$";

/// A cursor in a queue: a holder by its number, a waiter by its priority and its number.
pub const QUEUE_CURSOR: &str = "^(held-[0-9]{1,20}|queued-(-?[0-9]{1,10})-[0-9]{1,20})$";

/// The grant in the middle of a page of a queue: its number, or `last`.
pub const QUEUE_AROUND: &str = "^([0-9]{1,16}|last)$";

/// A cursor in a history.
pub const HISTORY_CURSOR: &str = "^[0-9]{1,20}-[0-9]{1,20}$";

/// A cursor in a series: its step, the series of a server, and the number of a row.
pub const SERIES_CURSOR: &str = "^1[sm]-[0-9a-f]{16}-[0-9]{1,15}$";

/// A cursor among events: a revision, and a position in it.
pub const EVENT_CURSOR: &str = "^[0-9]{1,20}-[0-9]{1,20}$";

/// A cursor that is written as hexadecimal digits.
pub const HEX_CURSOR: &str = "^([0-9a-f]{2})+$";

/// The address of a node for clients: `http://HOST:PORT` or `https://HOST:PORT`, with a host that other machines can
/// reach.
pub const NODE_URL: &str = "^https?://(?!0\\.0\\.0\\.0:|\\[::\\]:)([0-9A-Za-z._-]+|\\[[0-9A-Fa-f:.]+\\])\
    :(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})/?$";

/// The address of a node for the other nodes: `HOST:PORT`.
pub const PEER_ADDRESS: &str = "^(?!0\\.0\\.0\\.0:|\\[::\\]:)([0-9A-Za-z._-]+|\\[[0-9A-Fa-f:.]+\\])\
    :(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})$";
