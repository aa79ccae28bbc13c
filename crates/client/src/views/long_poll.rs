//! Long polls: reads that wait for something newer, over nodes that die, stop or lose their majority.
//!
//! A node that delays its answer is silent. It may have stopped, or lost contact with the other nodes: then it would
//! finally say that there is nothing newer without knowing it. So the client asks a node to wait only for a short time,
//! again and again. Each of these requests starts as fresh as any other read. All of them name the same revision, so
//! the client misses nothing between them, whichever node answers.

use crate::{
    client::Client,
    error::Error,
    views::read_options::ReadOptions,
    wire::{
        backoff::Backoff,
        call::{ATTEMPT_MAX, Call},
        endpoints::Prefer,
        http::Attempted,
        reply::Reply,
        retry::LastError,
        url::with_query,
    },
};
use fairhold_types::{Code, Revision, duration};
use reqwest::{Method, StatusCode};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long one request waits.
const WAIT_PER_REQUEST: Duration = Duration::from_secs(10);

/// A read that waits for something newer.
#[derive(Debug)]
pub(crate) struct LongPoll<'a> {
    /// The path of the URL, with or without a query.
    pub(crate) path: &'a str,
    pub(crate) options: ReadOptions,
    /// The answer must be newer than this revision. `None`: newer than now.
    pub(crate) after: Option<Revision>,
    /// How long to wait. `None`: as long as it takes.
    pub(crate) wait: Option<Duration>,
}

impl Client {
    /// Waits for something newer. Returns `None` if nothing came in that time. The client leaves nodes that do not
    /// answer; it fails if no node answers for the client's timeout.
    pub(crate) async fn long_poll(&self, poll: &LongPoll<'_>) -> Result<Option<Reply>, Error> {
        let inner = self.inner();
        let until = poll.wait.and_then(|wait| Instant::now().checked_add(wait));
        let mut after = match poll.after {
            Some(after) => after,
            None => self.revision(poll.options).await?,
        };
        // If one node is silent, there must be time for another one.
        let work_max = ATTEMPT_MAX.min(inner.timeout / 2);
        let mut silence = Silence::new(inner.timeout);
        let mut backoff = Backoff::new();
        loop {
            self.discover();
            let mut retry_after = None;
            for endpoint in inner.calls.endpoints.order(Prefer::Any) {
                let sent_at = Instant::now();
                let wait = until.map_or(WAIT_PER_REQUEST, |until| until.saturating_duration_since(sent_at).min(WAIT_PER_REQUEST));
                let late = until.map_or(Duration::ZERO, |until| sent_at.saturating_duration_since(until));
                let work = inner.timeout.saturating_sub(late).min(work_max);
                let call = poll.call(after, wait);
                if work.is_zero() {
                    return Err(silence.last_error.error(&call));
                }
                match inner.calls.read_at(&endpoint, &call, wait, work).await {
                    Attempted::Answered(reply) if has_nothing_newer(&reply, sent_at.elapsed() >= wait) => {
                        let is_over = until.is_some_and(|until| Instant::now() >= until);
                        match (is_over, reply.status == StatusCode::NOT_MODIFIED) {
                            (true, true) => return Ok(None),
                            (true, false) => return Ok(Some(reply)),
                            // The answer names the revision up to which there is nothing newer.
                            (false, true) => after = reply.revision()?.max(after),
                            (false, false) => {}
                        }
                        silence = Silence::new(inner.timeout);
                        backoff = Backoff::new();
                        break;
                    }
                    Attempted::Answered(reply) => return Ok(Some(reply)),
                    failed @ (Attempted::Nothing { .. } | Attempted::Unknown { .. }) => {
                        retry_after = silence.note(failed).max(retry_after)
                    }
                }
            }
            if silence.is_too_long() {
                return Err(silence.last_error.error(&poll.call(after, Duration::ZERO)));
            }
            if silence.since.is_some() {
                sleep(backoff.next(retry_after)).await;
            }
        }
    }

    /// The current revision, read with these options.
    async fn revision(&self, options: ReadOptions) -> Result<Revision, Error> {
        let root = self.send(&options.apply(Call::new(Method::GET, "/v1/nodes/?meta".to_owned()))).await?;
        root.done()?;
        root.revision()
    }
}

impl LongPoll<'_> {
    fn call(&self, after: Revision, wait: Duration) -> Call {
        let query = format!("wait={}&after={after}", duration::format(wait));
        self.options.apply(Call::new(Method::GET, with_query(self.path, &query)))
    }
}

/// Whether nothing came while the node waited. If the node never existed, the answer is the same as if it had just been
/// removed.
fn has_nothing_newer(reply: &Reply, waited: bool) -> bool {
    reply.status == StatusCode::NOT_MODIFIED || (waited && reply.problem().code == Some(Code::NoNode))
}

/// How long no node has answered, and why.
struct Silence {
    since: Option<Instant>,
    limit: Duration,
    last_error: LastError,
}

impl Silence {
    fn new(limit: Duration) -> Silence {
        Silence { since: None, limit, last_error: LastError::default() }
    }

    fn note(&mut self, attempted: Attempted) -> Option<Duration> {
        self.since.get_or_insert_with(Instant::now);
        self.last_error.note(attempted)
    }

    fn is_too_long(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= self.limit)
    }
}
