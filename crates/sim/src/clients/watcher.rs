//! A client that watches: it resumes after broken connections, as the documentation says, and reports what it received.

use crate::{
    client::{Ask, SimClient},
    facts::Fact,
    stream::Stream,
    tally::Probe,
    tidings::{SimLine, Watched},
    trace,
};
use fairhold_types::Revision;
use http::{Method, StatusCode};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use rand::RngExt;
use std::time::Duration;

/// A watch that is silent for longer is taken for broken: a bookmark comes every 10 s, by a clock that may be slow.
const SILENT_MAX: Duration = Duration::from_secs(25);

/// One watch, over as many connections as it takes.
struct WatchTask {
    watched: Watched,
    /// It begins with what is there.
    initial: bool,
    /// Where it began, once that is known.
    after: Option<Revision>,
    there: Vec<(Revision, String)>,
    told: Vec<(Revision, String)>,
    /// All events up to this revision were sent.
    through: Revision,
    /// It reads slowly.
    lazy: bool,
}

/// Why a connection is not read any further.
enum WatchEnd {
    /// It broke, or the server stopped: the watch goes on elsewhere.
    Broken,
    /// Events are gone, or it has had enough.
    Over,
}

pub(super) async fn work(mut client: SimClient, rounds: u32) {
    for _ in 0..rounds {
        client.idle(500).await;
        let until = trace::since_start() + Duration::from_millis(client.chance.random_range(1_000..9_000));
        let mut watch = wish(&mut client);
        while trace::since_start() < until {
            let Some(stream) = watch.connect(&mut client).await else { continue };
            let end = watch.read(&mut client, stream, until).await;
            watch.tell(&client);
            match end {
                WatchEnd::Broken => watch.forget_the_last_revision(),
                WatchEnd::Over => break,
            }
        }
    }
}

fn wish(client: &mut SimClient) -> WatchTask {
    let number: u32 = client.chance.random_range(1..=2);
    let watched = match client.chance.random_range(0..8) {
        0 | 1 => Watched::All,
        2 => Watched::Node(format!("/register-{number}")),
        3 => Watched::Children("/".to_owned()),
        4 => Watched::Below("/".to_owned()),
        5 => Watched::Lock(format!("door-{number}")),
        6 => Watched::Locks,
        _ => Watched::Sessions,
    };
    let (initial, lazy) = (client.chance.random_range(0..2) == 0, client.chance.random_range(0..4) == 0);
    let (after, there, told, through) = (None, Vec::new(), Vec::new(), Revision(0));
    WatchTask { watched, initial, after, there, told, through, lazy }
}

impl WatchTask {
    /// What is asked next: the revision after the last that is known to be whole.
    fn query(&self) -> String {
        let rest = match (self.after, self.initial) {
            (Some(_), _) => format!("from={}", self.whole().next()),
            (None, initial) => format!("initial={initial}"),
        };
        format!("/v1/watch?{}{rest}", self.watched.query())
    }

    /// The last revision that is known to be whole.
    fn whole(&self) -> Revision {
        let last = self.told.last().map_or(Revision(0), |(revision, _)| *revision);
        last.max(self.through).max(self.after.unwrap_or_default())
    }

    async fn connect(&mut self, client: &mut SimClient) -> Option<Stream> {
        let ask = Ask::new(Method::GET, self.query());
        let floor = client.world.oracle.acknowledged();
        let stream = client.open(&ask).await;
        let Some(stream) = stream else {
            client.idle(400).await;
            return None;
        };
        match stream.status {
            StatusCode::OK if self.after.is_none() => {
                let revision = client.revision_of(&stream.headers);
                client.world.oracle.told(&Fact::Answered { what: "the beginning of a watch".to_owned(), floor, revision });
                Some(stream)
            }
            StatusCode::OK => Some(stream),
            StatusCode::GONE => {
                client.world.tally.probe(Probe::WatchCompacted);
                *self = WatchTask { after: None, there: Vec::new(), told: Vec::new(), through: Revision(0), ..wish(client) };
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
                client.world.tally.probe(Probe::WatchBroken);
                return WatchEnd::Broken;
            };
            trace::bytes(&piece);
            for line in piece.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                // Sometimes the connection breaks in the middle of a revision.
                if client.chance.random_range(0..40) == 0 {
                    client.world.tally.probe(Probe::WatchBroken);
                    return WatchEnd::Broken;
                }
                if let Some(end) = self.line(client, line) {
                    return end;
                }
            }
            if self.lazy {
                client.idle(1_500).await;
            }
        }
    }

    /// Takes one line.
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
            ("goaway", _) => {
                client.world.tally.probe(Probe::WatchSentAway);
                self.through = self.through.max(if self.after.is_some() { revision } else { Revision(0) });
                Some(WatchEnd::Broken)
            }
            ("error", _) if json.get("code").is_some_and(|code| code == "compacted") => {
                client.world.tally.probe(Probe::WatchCompacted);
                Some(WatchEnd::Over)
            }
            ("error", _) => Some(WatchEnd::Broken),
            ("initial", Some(line)) => {
                self.there.push((revision, line.text));
                None
            }
            (_, Some(line)) => {
                if self.after.is_none() {
                    client.world.oracle.violation(format!("{}: {} came before the first bookmark", client.name, line.text));
                }
                self.told.push((revision, line.text));
                None
            }
            (_, None) => {
                let text = String::from_utf8_lossy(line);
                client.world.oracle.violation(format!("{}: a watch told {text}", client.name));
                Some(WatchEnd::Over)
            }
        }
    }

    /// The first bookmark: after it changes come.
    fn begin(&mut self, client: &SimClient, revision: Revision) {
        (self.after, self.through) = (Some(revision), revision);
        if self.initial {
            if let Some((other, line)) = self.there.iter().find(|(other, _)| *other != revision) {
                client.world.oracle.violation(format!("{line} is of revision {other}, and the first bookmark of {revision}"));
            }
            let there = self.there.iter().map(|(_, line)| line.clone()).collect();
            client.world.oracle.told(&Fact::WatchBegan { watched: self.watched.clone(), revision, there });
        }
    }

    /// Tells what it has had so far.
    fn tell(&self, client: &SimClient) {
        let Some(after) = self.after else { return };
        let (watched, told, through) = (self.watched.clone(), self.told.clone(), self.through);
        client.world.oracle.told(&Fact::WatchTold { watched, after, told, through });
    }

    /// A connection that breaks may break within a revision: its lines come again.
    fn forget_the_last_revision(&mut self) {
        if self.after.is_none() {
            self.there.clear();
        }
        if let Some((last, _)) = self.told.last().filter(|(last, _)| *last > self.through).cloned() {
            self.told.retain(|(revision, _)| *revision < last);
        }
    }
}
