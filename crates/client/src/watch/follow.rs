//! The task behind a watch: follows it from node to node.

use super::{
    event::WatchEvent,
    line::{self, Parsed},
};
use crate::{
    error::Error,
    wire::{
        backoff::Backoff,
        call::Call,
        endpoints::{Endpoint, Prefer},
        http::Opened,
        retry::Transport,
        stream_lines::StreamLines,
    },
};
use fairhold_types::{Code, Revision};
use std::time::Duration;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep},
};

/// How long a node may take to start.
const START_WITHIN: Duration = Duration::from_secs(3);
/// After this much silence the client moves the watch to another node: a bookmark comes every 10 s.
const SILENT_MAX: Duration = Duration::from_secs(25);
/// History counts as lost if every node that answers has lost it and the other nodes have not answered for this long.
const ABSENT_MAX: Duration = Duration::from_secs(10);

/// Where a watch starts.
#[derive(Debug, Clone, Copy)]
pub(super) enum WatchStart {
    Now,
    Initial,
    From(Revision),
}

/// How far a watch has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// It has reported nothing yet, and starts with the next change.
    Now,
    /// It is reporting what exists: this many lines so far.
    Initial(usize),
    /// It has reported everything before that revision, and this many lines of it.
    At(Revision, usize),
}

/// How a watch at one node ended.
enum StreamEnd {
    /// It broke, or could not start: another node may do better. The node may ask for a pause.
    Broke(Option<Duration>),
    /// The node no longer keeps what comes next, but it keeps everything from this revision on.
    Compacted(Revision),
    /// No node will continue it.
    Refused(Error),
    /// The program has dropped the watch.
    Dropped,
}

/// The task behind a watch.
pub(super) struct Follower {
    calls: Transport,
    call: Call,
    starts_with_initial: bool,
    position: Position,
    events: mpsc::Sender<Result<WatchEvent, Error>>,
    /// `None` once the watch has started.
    started: Option<oneshot::Sender<Result<(), Error>>>,
    /// The nodes that have lost what comes next, each with the first revision that it keeps.
    lost: Vec<(Endpoint, Revision)>,
    /// When the first of them said so.
    lost_since: Option<Instant>,
}

impl Follower {
    pub(super) fn new(
        calls: Transport,
        call: Call,
        start: WatchStart,
        events: mpsc::Sender<Result<WatchEvent, Error>>,
        started: oneshot::Sender<Result<(), Error>>,
    ) -> Follower {
        let position = match start {
            WatchStart::Now => Position::Now,
            WatchStart::Initial => Position::Initial(0),
            WatchStart::From(revision) => Position::At(revision, 0),
        };
        let starts_with_initial = matches!(start, WatchStart::Initial);
        Follower {
            calls,
            call,
            starts_with_initial,
            position,
            events,
            started: Some(started),
            lost: Vec::new(),
            lost_since: None,
        }
    }

    /// Runs until the program drops the watch or the cluster refuses it.
    pub(super) async fn follow(mut self) {
        let mut backoff = Backoff::new();
        loop {
            let mut retry_after = None;
            let before = self.position;
            let order = self.calls.endpoints.order(Prefer::Any);
            for endpoint in &order {
                match self.watch_at(endpoint).await {
                    StreamEnd::Broke(pause) => retry_after = pause.max(retry_after),
                    StreamEnd::Compacted(oldest) => self.note_lost(endpoint, oldest),
                    StreamEnd::Refused(error) => return self.end(error).await,
                    StreamEnd::Dropped => return,
                }
                if self.position != before {
                    // It made progress: a node that had lost other events may have what comes now.
                    self.lost.clear();
                    backoff = Backoff::new();
                    break;
                }
            }
            if self.is_lost_everywhere(&order) && !self.reset().await {
                return;
            }
            sleep(backoff.next(retry_after)).await;
        }
    }

    fn note_lost(&mut self, endpoint: &Endpoint, oldest: Revision) {
        if self.lost.is_empty() {
            self.lost_since = Some(Instant::now());
        }
        self.lost.retain(|(known, _)| known != endpoint);
        self.lost.push((endpoint.clone(), oldest));
    }

    fn is_lost_everywhere(&self, all: &[Endpoint]) -> bool {
        let has_lost_it = |endpoint: &Endpoint| self.lost.iter().any(|(known, _)| known == endpoint);
        let waited = self.lost_since.is_some_and(|since| since.elapsed() >= ABSENT_MAX);
        !self.lost.is_empty() && (waited || all.iter().all(has_lost_it))
    }

    /// Reports lost events and moves to the first revision from which some node has everything. Returns whether the
    /// program still reads the watch.
    async fn reset(&mut self) -> bool {
        let oldest = self.lost.drain(..).map(|(_, oldest)| oldest).min().unwrap_or_default();
        self.position = if self.starts_with_initial { Position::Initial(0) } else { Position::At(oldest, 0) };
        self.start();
        self.send(WatchEvent::Compacted { oldest }).await
    }

    /// Watches at one node until the stream ends.
    async fn watch_at(&mut self, endpoint: &Endpoint) -> StreamEnd {
        if let Position::Initial(reported) = self.position
            && reported > 0
        {
            self.position = Position::Initial(0);
            if !self.send(WatchEvent::Restarted).await {
                return StreamEnd::Dropped;
            }
        }
        let start = match self.position {
            Position::Now => String::new(),
            Position::Initial(_) => "&initial".to_owned(),
            Position::At(revision, _) => format!("&from={revision}"),
        };
        let call = Call { path: format!("{}{start}", self.call.path), ..self.call.clone() };
        let lines = match self.calls.open_at(endpoint, &call, START_WITHIN).await {
            Opened::Stream { lines, revision } => {
                if let (Position::Now, Some(revision)) = (self.position, revision) {
                    self.position = Position::At(revision.next(), 0);
                }
                self.start();
                lines
            }
            Opened::Refused(reply) => {
                let problem = reply.problem();
                return match (problem.code, problem.oldest) {
                    (Some(Code::Compacted), Some(oldest)) => StreamEnd::Compacted(oldest),
                    _ => StreamEnd::Refused(Error::refused(reply.status.as_u16(), problem)),
                };
            }
            Opened::Failed { retry_after } => return StreamEnd::Broke(retry_after),
        };
        let ended = self.read(lines).await;
        if matches!(ended, StreamEnd::Broke(_)) {
            self.calls.endpoints.failed(endpoint);
        }
        ended
    }

    async fn read(&mut self, mut lines: StreamLines) -> StreamEnd {
        // The node repeats the lines of the first revision that were already reported.
        let (first, mut skip) = match self.position {
            Position::At(revision, reported) => (revision, reported),
            Position::Now | Position::Initial(_) => (Revision(0), 0),
        };
        loop {
            let text = match lines.next(SILENT_MAX).await {
                Ok(text) => text,
                Err(why) => {
                    tracing::debug!(why, "a watch broke and continues at another node");
                    return StreamEnd::Broke(None);
                }
            };
            let is_read = match line::read(&text) {
                Ok(Parsed::Change(line)) if line.revision == first && skip > 0 => {
                    skip -= 1;
                    true
                }
                Ok(Parsed::Change(line)) => {
                    self.position = self.position.after_line(line.revision);
                    self.send(WatchEvent::Change(line)).await
                }
                Ok(Parsed::Other(revision)) if revision == first && skip > 0 => {
                    skip -= 1;
                    true
                }
                Ok(Parsed::Other(revision)) => {
                    self.position = self.position.after_unknown_line(revision);
                    true
                }
                Ok(Parsed::Bookmark(revision)) => {
                    self.position = Position::At(revision.next(), 0);
                    self.send(WatchEvent::Bookmark(revision)).await
                }
                Ok(Parsed::CredentialExpires) => true,
                Ok(Parsed::GoAway(revision)) => {
                    if !matches!(self.position, Position::Initial(_)) {
                        self.position = Position::At(revision.next(), 0);
                    }
                    return StreamEnd::Broke(None);
                }
                Ok(Parsed::Compacted(oldest)) => return StreamEnd::Compacted(oldest),
                Ok(Parsed::Refused(error)) => return StreamEnd::Refused(error),
                Ok(Parsed::Failed(why)) => {
                    tracing::debug!(why, "a node cannot continue a watch; the watch continues at another node");
                    return StreamEnd::Broke(None);
                }
                Err(error) => {
                    tracing::debug!(%error, "a watch received an invalid line and continues at another node");
                    return StreamEnd::Broke(None);
                }
            };
            if !is_read {
                return StreamEnd::Dropped;
            }
        }
    }

    /// Wakes the task that waits for the start.
    fn start(&mut self) {
        if let Some(started) = self.started.take() {
            // If that task is gone, nobody will read the events either.
            started.send(Ok(())).ok();
        }
    }

    async fn end(mut self, error: Error) {
        match self.started.take() {
            Some(started) => drop(started.send(Err(error))),
            None => drop(self.events.send(Err(error)).await),
        }
    }

    /// Returns whether the program still reads the watch.
    async fn send(&self, event: WatchEvent) -> bool {
        self.events.send(Ok(event)).await.is_ok()
    }
}

impl Position {
    /// The position after one more line of that revision.
    fn after_line(self, revision: Revision) -> Position {
        match self {
            Position::Initial(reported) => Position::Initial(reported + 1),
            Position::At(at, reported) if at == revision => Position::At(at, reported + 1),
            Position::At(..) | Position::Now => Position::At(revision, 1),
        }
    }

    /// The same for an unknown kind of line. It may be no change and name a revision that is already complete.
    fn after_unknown_line(self, revision: Revision) -> Position {
        match self {
            Position::At(at, _) if revision < at => self,
            Position::At(..) | Position::Now | Position::Initial(_) => self.after_line(revision),
        }
    }
}
