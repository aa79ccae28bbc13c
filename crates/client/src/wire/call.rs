//! A request as a value, and how long one node may take to answer it.

use fairhold_types::{GrantId, LockName, SessionId};
use reqwest::Method;
use std::{borrow::Cow, time::Duration};

/// How long one node may take to answer before the client tries the next one.
pub(crate) const ATTEMPT_MAX: Duration = Duration::from_secs(3);
/// How much later than its own deadline a server's answer may arrive.
pub(crate) const ANSWER_GRACE: Duration = Duration::from_millis(200);

/// A request. Every attempt has the same key.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) key: Option<GrantId>,
    pub(crate) headers: Vec<(Cow<'static, str>, String)>,
    pub(crate) body: Option<CallBody>,
    /// Its kind in a batch, if it can be part of one.
    pub(crate) part: Option<BatchPart>,
    pub(crate) kind: CallKind,
}

/// Which server may answer, and which of its answers are definite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// A node of the cluster. A node at a limit (`429`) may accept the call later.
    Typed,
    /// One server, about itself, whichever cluster it belongs to.
    Server,
    /// A node of the cluster, or a server whose cluster has not formed yet. The caller decides about a `429`.
    Raw,
}

/// The body of a request.
#[derive(Debug, Clone)]
pub(crate) enum CallBody {
    Json(String),
    Raw(Vec<u8>),
}

impl Call {
    pub(crate) fn new(method: Method, path: String) -> Call {
        Call { method, path, key: None, headers: Vec::new(), body: None, part: None, kind: CallKind::Typed }
    }

    pub(crate) fn key(self, key: GrantId) -> Call {
        Call { key: Some(key), ..self }
    }

    pub(crate) fn json(self, body: &serde_json::Value) -> Call {
        Call { body: Some(CallBody::Json(body.to_string())), ..self }
    }

    /// Allows it to be sent in a batch.
    pub(crate) fn part(self, part: BatchPart) -> Call {
        Call { part: Some(part), ..self }
    }

    pub(crate) fn header(mut self, name: impl Into<Cow<'static, str>>, value: String) -> Call {
        self.headers.push((name.into(), value));
        self
    }
}

/// The kind of a call in a batch. Its key and its body are the rest of it.
#[derive(Debug, Clone)]
pub(crate) enum BatchPart {
    /// An acquire in a session, which waits in this lock's queue without an open request.
    Acquire(LockName),
    /// The release of the grant whose id is the key. If a session is named, the id stays ended for as long as the
    /// session lives.
    Release(Option<SessionId>),
    /// The renewal of the grant whose id is the key.
    Renew,
}
