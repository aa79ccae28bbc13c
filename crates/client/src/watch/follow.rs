//! Follows a watch from node to node.

use super::{
    event::WatchEvent,
    line::{self, Said},
};
use crate::{
    error::Error,
    wire::{
        backoff::Backoff,
        call::Call,
        endpoints::{Endpoint, Prefer},
        http::{Opened, StreamLines},
        retry::Transport,
    },
};
use fairhold_types::{Code, Revision};
use std::time::Duration;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep},
};

/// How long a node may take to begin.
const BEGIN_WITHIN: Duration = Duration::from_secs(3);
/// A watch that is silent for so long is left for another node: a bookmark comes every 10 s.
const SILENT_MAX: Duration = Duration::from_secs(25);
/// History counts as lost where those who answer have lost it, and the others have not answered for so long.
const ABSENT_MAX: Duration = Duration::from_secs(10);

/// Where a watch begins.
#[derive(Debug, Clone, Copy)]
pub(super) enum WatchStart {
    Now,
    Initial,
    From(Revision),
}

/// How far a watch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Nothing was told, and what happens from the beginning on will be.
    Now,
    /// What is there is being told: so many lines so far.
    Initial(usize),
    /// All before that revision was told, and so many lines of it.
    At(Revision, usize),
}

/// How a watch at one node ended.
enum StreamEnd {
    /// It broke, or could not be begun: another may do better. It may want to be left alone for a while.
    Broke(Option<Duration>),
    /// What would come next is not kept there, but what comes from this revision on is.
    Compacted(Revision),
    /// No node will go on.
    Refused(Error),
    /// Nobody listens any more.
    Unheard,
}

/// The task behind a watch.
pub(super) struct Follower {
    calls: Transport,
    call: Call,
    begins_with_initial: bool,
    place: Position,
    tell: mpsc::Sender<Result<WatchEvent, Error>>,
    begun: Option<oneshot::Sender<Result<(), Error>>>,
    /// Those who have lost what comes next, each with the revision from which it can tell; and when the first of them said so.
    lost: Vec<(Endpoint, Revision)>,
    lost_since: Option<Instant>,
}

impl Follower {
    pub(super) fn new(
        calls: Transport,
        call: Call,
        begin: WatchStart,
        tell: mpsc::Sender<Result<WatchEvent, Error>>,
        begun: oneshot::Sender<Result<(), Error>>,
    ) -> Follower {
        let place = match begin {
            WatchStart::Now => Position::Now,
            WatchStart::Initial => Position::Initial(0),
            WatchStart::From(revision) => Position::At(revision, 0),
        };
        let begins_with_initial = matches!(begin, WatchStart::Initial);
        Follower { calls, call, begins_with_initial, place, tell, begun: Some(begun), lost: Vec::new(), lost_since: None }
    }

    /// Until nobody listens any more, or the cluster refuses.
    pub(super) async fn follow(mut self) {
        let mut backoff = Backoff::new();
        loop {
            let (mut asked, before) = (None, self.place);
            let order = self.calls.endpoints.order(Prefer::Anybody);
            for endpoint in &order {
                match self.at(endpoint).await {
                    StreamEnd::Broke(pause) => asked = pause.max(asked),
                    StreamEnd::Compacted(oldest) => self.note_lost(endpoint, oldest),
                    StreamEnd::Refused(error) => return self.end(error).await,
                    StreamEnd::Unheard => return,
                }
                if self.place != before {
                    // It continued: a watch that had lost other events may have what comes now.
                    self.lost.clear();
                    backoff = Backoff::new();
                    break;
                }
            }
            if self.is_lost_everywhere(&order) && !self.reset().await {
                return;
            }
            sleep(backoff.next(asked)).await;
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
        let said_so = |endpoint: &Endpoint| self.lost.iter().any(|(known, _)| known == endpoint);
        let waited = self.lost_since.is_some_and(|since| since.elapsed() >= ABSENT_MAX);
        !self.lost.is_empty() && (waited || all.iter().all(said_so))
    }

    /// Says that something is lost, and goes on from where somebody has all; says whether anybody heard it.
    async fn reset(&mut self) -> bool {
        let oldest = self.lost.drain(..).map(|(_, oldest)| oldest).min().unwrap_or_default();
        self.place = if self.begins_with_initial { Position::Initial(0) } else { Position::At(oldest, 0) };
        self.begin();
        self.tell(WatchEvent::Compacted { oldest }).await
    }

    /// Watches at one node until that ends.
    async fn at(&mut self, endpoint: &Endpoint) -> StreamEnd {
        if let Position::Initial(told) = self.place
            && told > 0
        {
            self.place = Position::Initial(0);
            if !self.tell(WatchEvent::Restarted).await {
                return StreamEnd::Unheard;
            }
        }
        let begin = match self.place {
            Position::Now => String::new(),
            Position::Initial(_) => "&initial".to_owned(),
            Position::At(revision, _) => format!("&from={revision}"),
        };
        let call = Call { path: format!("{}{begin}", self.call.path), ..self.call.clone() };
        let lines = match self.calls.open_at(endpoint, &call, BEGIN_WITHIN).await {
            Opened::Stream { lines, revision } => {
                if let (Position::Now, Some(revision)) = (self.place, revision) {
                    self.place = Position::At(revision.next(), 0);
                }
                self.begin();
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
        // What was told of the first revision comes again.
        let (first, mut skip) = if let Position::At(revision, told) = self.place { (revision, told) } else { (Revision(0), 0) };
        loop {
            let text = match lines.next(SILENT_MAX).await {
                Ok(text) => text,
                Err(why) => {
                    tracing::debug!(why, "a watch broke, and goes on at another node");
                    return StreamEnd::Broke(None);
                }
            };
            let heard = match line::read(&text) {
                Ok(Said::Happened(line)) if line.revision == first && skip > 0 => {
                    skip -= 1;
                    true
                }
                Ok(Said::Happened(line)) => {
                    self.place = self.place.after_line(line.revision);
                    self.tell(WatchEvent::Change(line)).await
                }
                Ok(Said::Other(revision)) if revision == first && skip > 0 => {
                    skip -= 1;
                    true
                }
                Ok(Said::Other(revision)) => {
                    self.place = self.place.after_line(revision);
                    true
                }
                Ok(Said::Bookmark(revision)) => {
                    self.place = Position::At(revision.next(), 0);
                    self.tell(WatchEvent::Bookmark(revision)).await
                }
                Ok(Said::GoAway(revision)) => {
                    if !matches!(self.place, Position::Initial(_)) {
                        self.place = Position::At(revision.next(), 0);
                    }
                    return StreamEnd::Broke(None);
                }
                Ok(Said::Compacted(oldest)) => return StreamEnd::Compacted(oldest),
                Ok(Said::Refused(error)) => return StreamEnd::Refused(error),
                Ok(Said::Failed(why)) => {
                    tracing::debug!(why, "a node cannot go on with a watch; another may");
                    return StreamEnd::Broke(None);
                }
                Err(error) => {
                    tracing::debug!(%error, "a line of a watch is not valid");
                    return StreamEnd::Broke(None);
                }
            };
            if !heard {
                return StreamEnd::Unheard;
            }
        }
    }

    /// It has begun: wakes the task that waits for that.
    fn begin(&mut self) {
        if let Some(begun) = self.begun.take() {
            // Nobody waits any more: then nobody will listen either.
            begun.send(Ok(())).ok();
        }
    }

    async fn end(mut self, error: Error) {
        match self.begun.take() {
            Some(begun) => drop(begun.send(Err(error))),
            // That nobody hears it is the end too.
            None => drop(self.tell.send(Err(error)).await),
        }
    }

    /// Says whether anybody listens.
    async fn tell(&self, tidings: WatchEvent) -> bool {
        self.tell.send(Ok(tidings)).await.is_ok()
    }
}

impl Position {
    /// After one more line of that revision.
    fn after_line(self, revision: Revision) -> Position {
        match self {
            Position::Initial(told) => Position::Initial(told + 1),
            Position::At(at, told) if at == revision => Position::At(at, told + 1),
            Position::At(..) | Position::Now => Position::At(revision, 1),
        }
    }
}
