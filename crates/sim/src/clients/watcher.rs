//! A client that watches: it resumes after broken connections, as the documentation says, and reports what it received.

use crate::{
    client::{ClientRequest, SimClient},
    coverage::Probe,
    facts::Fact,
    stream::Stream,
    trace,
    watch_events::{SimLine, Watched},
};
use fairhold_types::Revision;
use http::{Method, StatusCode};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use rand::RngExt;
use std::time::Duration;

/// A watch that is silent for longer counts as broken: a bookmark comes every 10 s, by a clock that may be slow.
const SILENT_MAX: Duration = Duration::from_secs(25);

/// One watch, over as many connections as it takes.
struct WatchTask {
    watched: Watched,
    /// Whether it starts with the initial state.
    wants_initial: bool,
    /// The revision at which it started, once known.
    after: Option<Revision>,
    initial: Vec<(Revision, String)>,
    lines: Vec<(Revision, String)>,
    /// All events up to this revision were sent.
    through: Revision,
    /// Whether it reads slowly.
    is_slow: bool,
}

/// Why the client stops reading a connection.
enum WatchEnd {
    /// The connection broke, or the server stopped: the watch resumes elsewhere.
    Broken,
    /// Events are compacted, or the time of the watch is over.
    Over,
}

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(500).await;
        let until = trace::since_start() + Duration::from_millis(client.rng.random_range(1_000..9_000));
        let mut watch = new_watch(&mut client);
        while trace::since_start() < until {
            let Some(stream) = watch.connect(&mut client).await else { continue };
            let end = watch.read(&mut client, stream, until).await;
            watch.report(&client);
            match end {
                WatchEnd::Broken => watch.drop_incomplete_revision(),
                WatchEnd::Over => break,
            }
        }
    }
}

fn new_watch(client: &mut SimClient) -> WatchTask {
    let number: u32 = client.rng.random_range(1..=2);
    let watched = match client.rng.random_range(0..8) {
        0 | 1 => Watched::All,
        2 => Watched::Node(format!("/register-{number}")),
        3 => Watched::Children("/".to_owned()),
        4 => Watched::Below("/".to_owned()),
        5 => Watched::Lock(format!("door-{number}")),
        6 => Watched::Locks,
        _ => Watched::Sessions,
    };
    let (wants_initial, is_slow) = (client.rng.random_range(0..2) == 0, client.rng.random_range(0..4) == 0);
    let (after, initial, lines, through) = (None, Vec::new(), Vec::new(), Revision(0));
    WatchTask { watched, wants_initial, after, initial, lines, through, is_slow }
}

impl WatchTask {
    /// The next request: from the revision after the last complete one.
    fn query(&self) -> String {
        let rest = match (self.after, self.wants_initial) {
            (Some(_), _) => format!("from={}", self.complete().next()),
            (None, wants_initial) => format!("initial={wants_initial}"),
        };
        format!("/v1/watch?{}{rest}", self.watched.query())
    }

    /// The last revision that is complete.
    fn complete(&self) -> Revision {
        let last = self.lines.last().map_or(Revision(0), |(revision, _)| *revision);
        last.max(self.through).max(self.after.unwrap_or_default())
    }

    async fn connect(&mut self, client: &mut SimClient) -> Option<Stream> {
        let request = ClientRequest::new(Method::GET, self.query());
        let floor = client.world.oracle.acknowledged();
        let stream = client.open(&request).await;
        let Some(stream) = stream else {
            client.idle(400).await;
            return None;
        };
        match stream.status {
            StatusCode::OK if self.after.is_none() => {
                let revision = client.revision_of(&stream.headers);
                client.world.oracle.observe(&Fact::Answered { what: "the beginning of a watch".to_owned(), floor, revision });
                Some(stream)
            }
            StatusCode::OK => Some(stream),
            StatusCode::GONE => {
                client.world.coverage.probe(Probe::WatchCompacted);
                *self =
                    WatchTask { after: None, initial: Vec::new(), lines: Vec::new(), through: Revision(0), ..new_watch(client) };
                client.idle(100).await;
                None
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                client.idle(400).await;
                None
            }
            status => {
                client.world.oracle.violation(format!("{}: {} was answered with {status}", client.name, self.query()));
                client.idle(400).await;
                None
            }
        }
    }

    async fn read(&mut self, client: &mut SimClient, mut stream: Stream, until: Duration) -> WatchEnd {
        loop {
            let left = until.saturating_sub(trace::since_start());
            if left.is_zero() {
                return WatchEnd::Over;
            }
            let Ok(piece) = SimRuntime::timeout(left.min(SILENT_MAX), stream.next()).await else {
                return if left > SILENT_MAX { WatchEnd::Broken } else { WatchEnd::Over };
            };
            let Some(piece) = piece else {
                client.world.coverage.probe(Probe::WatchBroken);
                return WatchEnd::Broken;
            };
            trace::bytes(&piece);
            for line in piece.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                // Sometimes the connection breaks in the middle of a revision.
                if client.rng.random_range(0..40) == 0 {
                    client.world.coverage.probe(Probe::WatchBroken);
                    return WatchEnd::Broken;
                }
                if let Some(end) = self.line(client, line) {
                    return end;
                }
            }
            if self.is_slow {
                client.idle(1_500).await;
            }
        }
    }

    /// Handles one line.
    fn line(&mut self, client: &SimClient, line: &[u8]) -> Option<WatchEnd> {
        let json: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
        let revision = Revision(json.get("revision").and_then(serde_json::Value::as_u64).unwrap_or_default());
        let kind = json.get("type").and_then(serde_json::Value::as_str).unwrap_or_default();
        match (kind, SimLine::read(&json)) {
            ("bookmark", _) => {
                if self.after.is_none() {
                    self.begin(client, revision);
                }
                self.through = self.through.max(revision);
                None
            }
            ("credential_expires", _) => None,
            ("goaway", _) => {
                client.world.coverage.probe(Probe::WatchSentAway);
                self.through = self.through.max(if self.after.is_some() { revision } else { Revision(0) });
                Some(WatchEnd::Broken)
            }
            ("error", _) if json.get("code").is_some_and(|code| code == "compacted") => {
                client.world.coverage.probe(Probe::WatchCompacted);
                Some(WatchEnd::Over)
            }
            ("error", _) => Some(WatchEnd::Broken),
            ("initial", Some(line)) => {
                self.initial.push((revision, line.text));
                None
            }
            (_, Some(line)) => {
                if self.after.is_none() {
                    client.world.oracle.violation(format!("{}: {} came before the first bookmark", client.name, line.text));
                }
                self.lines.push((revision, line.text));
                None
            }
            (_, None) => {
                let text = String::from_utf8_lossy(line);
                client.world.oracle.violation(format!("{}: a watch sent {text}", client.name));
                Some(WatchEnd::Over)
            }
        }
    }

    /// Handles the first bookmark: changes follow it.
    fn begin(&mut self, client: &SimClient, revision: Revision) {
        (self.after, self.through) = (Some(revision), revision);
        if self.wants_initial {
            if let Some((other, line)) = self.initial.iter().find(|(other, _)| *other != revision) {
                client.world.oracle.violation(format!("{line} is of revision {other}, but the first bookmark is of {revision}"));
            }
            let initial = self.initial.iter().map(|(_, line)| line.clone()).collect();
            client.world.oracle.observe(&Fact::WatchBegan { watched: self.watched.clone(), revision, initial });
        }
    }

    /// Reports everything received so far.
    fn report(&self, client: &SimClient) {
        let Some(after) = self.after else { return };
        let (watched, lines, through) = (self.watched.clone(), self.lines.clone(), self.through);
        client.world.oracle.observe(&Fact::WatchReceived { watched, after, lines, through });
    }

    /// Drops the lines of an incomplete revision: the connection broke within it, and the next one repeats them.
    fn drop_incomplete_revision(&mut self) {
        if self.after.is_none() {
            self.initial.clear();
        }
        if let Some((last, _)) = self.lines.last().filter(|(last, _)| *last > self.through).cloned() {
            self.lines.retain(|(revision, _)| *revision < last);
        }
    }
}
