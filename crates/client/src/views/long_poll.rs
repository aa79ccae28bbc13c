//! Reads that wait for something newer, over nodes that die, sleep or lose their majority meanwhile.
//!
//! A node that holds a request back is silent, and may have stopped, or have been cut off from the others: then it would say in
//! the end that there is nothing newer, and not know. So it is asked to wait for a short while only, again and again, and at its
//! beginning each of these requests is as fresh as every other read. They all name the same revision, so nothing is missed
//! between them, whichever node answers.

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

/// How long a node is asked to wait at a time.
const WAIT_AT_A_TIME: Duration = Duration::from_secs(10);

/// What is waited for.
#[derive(Debug)]
pub(crate) struct LongPoll<'a> {
    /// Where it is read: a path of a URL, with or without a query.
    pub(crate) path: &'a str,
    /// How fresh.
    pub(crate) reading: ReadOptions,
    /// Newer than this; none: than it is now.
    pub(crate) after: Option<Revision>,
    /// For so long; none: as long as it takes.
    pub(crate) wait: Option<Duration>,
}

impl Client {
    /// The answer once there is something newer; nothing where nothing came in that time. Nodes that do not answer are left for
    /// others; it fails where no node answered for the client's time.
    pub(crate) async fn news(&self, news: &LongPoll<'_>) -> Result<Option<Reply>, Error> {
        let inner = self.inner();
        let until = news.wait.and_then(|wait| Instant::now().checked_add(wait));
        let mut after = match news.after {
            Some(after) => after,
            None => self.revision(news.reading).await?,
        };
        // Another node can be asked within the caller's time where one is silent.
        let work_max = ATTEMPT_MAX.min(inner.timeout / 2);
        let (mut silence, mut backoff) = (SilentPolls::new(inner.timeout), Backoff::new());
        loop {
            self.discover();
            let mut pause = None;
            for endpoint in inner.calls.endpoints.order(Prefer::Anybody) {
                let asked = Instant::now();
                let wait = until.map_or(WAIT_AT_A_TIME, |until| until.saturating_duration_since(asked).min(WAIT_AT_A_TIME));
                let late = until.map_or(Duration::ZERO, |until| asked.saturating_duration_since(until));
                let work = inner.timeout.saturating_sub(late).min(work_max);
                let call = news.call(after, wait);
                if work.is_zero() {
                    return Err(silence.trouble.error(&call));
                }
                match inner.calls.read_at(&endpoint, &call, wait, work).await {
                    Attempted::Answered(reply) if has_nothing_newer(&reply, asked.elapsed() >= wait) => {
                        let is_over = until.is_some_and(|until| Instant::now() >= until);
                        match (is_over, reply.status == StatusCode::NOT_MODIFIED) {
                            (true, true) => return Ok(None),
                            (true, false) => return Ok(Some(reply)),
                            // It is exactly the one up to which there is nothing.
                            (false, true) => after = reply.revision()?.max(after),
                            (false, false) => {}
                        }
                        (silence, backoff) = (SilentPolls::new(inner.timeout), Backoff::new());
                        break;
                    }
                    Attempted::Answered(reply) => return Ok(Some(reply)),
                    tried @ (Attempted::Nothing { .. } | Attempted::Unknown { .. }) => pause = silence.note(tried).max(pause),
                }
            }
            if silence.is_too_long() {
                return Err(silence.trouble.error(&news.call(after, Duration::ZERO)));
            }
            if silence.begun.is_some() {
                sleep(backoff.next(pause)).await;
            }
        }
    }

    /// The revision now, as fresh as it is asked for.
    async fn revision(&self, reading: ReadOptions) -> Result<Revision, Error> {
        let root = self.send(&reading.of(Call::new(Method::GET, "/v1/nodes/?meta".to_owned()))).await?;
        root.done()?;
        root.revision()
    }
}

impl LongPoll<'_> {
    fn call(&self, after: Revision, wait: Duration) -> Call {
        let query = format!("wait={}&after={after}", duration::format(wait));
        self.reading.of(Call::new(Method::GET, with_query(self.path, &query)))
    }
}

/// Whether nothing came in the time that the node waited. Where there is no such node in the tree, that is said as it would be
/// if it had just been removed.
fn has_nothing_newer(reply: &Reply, waited: bool) -> bool {
    reply.status == StatusCode::NOT_MODIFIED || (waited && reply.problem().code == Some(Code::NoNode))
}

/// Since when no node answers, and why.
struct SilentPolls {
    begun: Option<Instant>,
    most: Duration,
    trouble: LastError,
}

impl SilentPolls {
    fn new(most: Duration) -> SilentPolls {
        SilentPolls { begun: None, most, trouble: LastError::default() }
    }

    fn note(&mut self, tried: Attempted) -> Option<Duration> {
        self.begun.get_or_insert_with(Instant::now);
        self.trouble.note(tried)
    }

    fn is_too_long(&self) -> bool {
        self.begun.is_some_and(|begun| begun.elapsed() >= self.most)
    }
}
