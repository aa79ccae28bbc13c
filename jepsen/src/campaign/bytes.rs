//! Single bytes of a node's files are changed, one at a time in files as they were: the node must refuse to take part, or have
//! lost nothing, or lack an end of its log as after a crash, which the other nodes then give it again.

use super::{Ended, Setting, sum::Sum};
use crate::{
    cluster::{self, Cluster, READY_WITHIN},
    http::Request,
    net::Network,
    new_key,
    run::NotRun,
    say,
    shell::run as run_program,
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

const NODES: usize = 3;
/// The node whose files are changed.
const VICTIM: usize = 1;
/// Nodes written before each of the steps that leave files of different sorts.
const WRITES: usize = 400;
/// A node that neither answers nor ends by then does neither.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How often it is said how far it is.
const TELL_EVERY: usize = 50;

/// Of files: what they are called, how their names are known, and how many of a hundred flips they get.
type Sort = (&'static str, fn(&str) -> bool, usize);

const SORTS: [Sort; 4] = [
    ("write-ahead log", |name| name.ends_with(".log"), 45),
    ("table of the log", |name| name.ends_with(".sst"), 15),
    ("manifest of the log", |name| name.starts_with("MANIFEST"), 10),
    ("snapshot", |name| name.ends_with(".snap"), 30),
];

/// What became of flips in one sort of file.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    flips: usize,
    refused: usize,
    harmless: usize,
    torn: usize,
}

/// What a node says of itself that has started, with nobody to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    last_log_index: u64,
    snapshot_index: u64,
    digest: (u64, String),
}

/// What became of one flip.
enum Fate {
    Refused,
    Started(Seen),
}

struct Trial {
    cluster: Cluster,
    folder: PathBuf,
}

pub(super) fn run(setting: &Setting, flips: usize) -> Result<Ended, NotRun> {
    fs::create_dir_all(&setting.folder).map_err(|error| format!("{}: {error}", setting.folder.display()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let network = Network::create(NODES).map_err(NotRun::NotHere)?;
        let cluster = Cluster::plan(&network, &setting.fairhold, &setting.folder)?;
        let mut trial = Trial { cluster, folder: setting.folder.clone() };
        let ended = trial.all(setting, flips).await;
        trial.cluster.end();
        if let Err(error) = fs::remove_dir_all(cluster::data_of(&setting.folder)) {
            say(&format!("{}: the data could not be removed: {error}", setting.folder.display()));
        }
        Ok(ended?)
    })
}

impl Trial {
    async fn all(&mut self, setting: &Setting, flips: usize) -> Result<Ended, String> {
        self.fill().await?;
        let whole = match self.look(None).await? {
            Fate::Started(seen) => seen,
            Fate::Refused => return Err("the node does not start with files that nobody changed".to_owned()),
        };
        let (mut sum, mut counts) = (Sum::default(), BTreeMap::<&str, Count>::new());
        let mut random = SmallRng::seed_from_u64(setting.seed);
        for flip in 1..=flips {
            let (sort, file, at, mask) = self.choose(&mut random)?;
            let what = format!("byte {at} of {} ^ {mask:#04x}", file.display());
            let count = counts.entry(sort).or_default();
            count.flips += 1;
            match self.look(Some((&file, at, mask))).await? {
                Fate::Refused => {
                    count.refused += 1;
                    if !self.said_since_start().contains(&*file.file_name().unwrap_or_default().to_string_lossy()) {
                        sum.broke(format!("{what}: the node refused, and did not name the file"));
                    }
                }
                Fate::Started(seen) if seen.last_log_index < whole.last_log_index => count.torn += 1,
                Fate::Started(seen) if seen == whole => count.harmless += 1,
                Fate::Started(seen) => sum.broke(format!("{what}: the node serves {seen:?}, and had {whole:?}")),
            }
            if self.cluster.node(VICTIM).runs() {
                // What then happens: with the others it comes to the state that they have.
                if let Err(why) = self.joins(&whole).await {
                    sum.broke(format!("{what}: {why}"));
                }
            }
            if flip % TELL_EVERY == 0 {
                say(&format!("{flip} of {flips} flips: {counts:?}"));
            }
        }
        Ok(sum.end(&format!("fairhold-jepsen bytes --flips {flips} --seed {}", setting.seed), &table(&counts)))
    }

    /// Files of all sorts, of a cluster that is stopped then, are kept.
    async fn fill(&mut self) -> Result<(), String> {
        for id in 1..=NODES {
            let disk = cluster::disk_of(&self.folder, id);
            fs::create_dir_all(&disk).map_err(|error| format!("{}: {error}", disk.display()))?;
        }
        self.cluster.start_all().await?;
        self.write("before").await?;
        for id in 1..=NODES {
            let taken = self.cluster.http.ask(id, &Request::post("/v1/cluster/snapshot", &new_key())).await;
            if taken.status != 200 {
                return Err(format!("node {id} takes no snapshot: {} {}", taken.status, taken.text));
            }
        }
        self.write("between").await?;
        // A start puts the log that it finds into tables.
        self.cluster.end();
        self.cluster.start_all().await?;
        self.write("after").await?;
        self.settled().await?;
        self.cluster.end();
        for id in 1..=NODES {
            copy(&self.data(id), &self.kept(id))?;
        }
        Ok(())
    }

    async fn write(&self, when: &str) -> Result<(), String> {
        for number in 0..WRITES {
            let value = format!("{number:0300}");
            let request = Request::put(format!("/v1/nodes/bytes/{when}-{number}?parents"), &new_key(), value);
            let reply = self.cluster.http.ask(number % NODES + 1, &request).await;
            if reply.status != 200 && reply.status != 201 {
                return Err(format!("a write failed: {} {}", reply.status, reply.text));
            }
        }
        Ok(())
    }

    fn data(&self, id: usize) -> PathBuf {
        cluster::disk_of(&self.folder, id).join("fairhold")
    }

    fn kept(&self, id: usize) -> PathBuf {
        cluster::disk_of(&self.folder, id).join("kept")
    }

    /// A byte of a file, as the node had it, and how to change it.
    fn choose(&self, random: &mut SmallRng) -> Result<(&'static str, PathBuf, usize, u8), String> {
        let mut share = random.random_range(0..100);
        let sort = SORTS.iter().find(|(_, _, of)| {
            let here = share < *of;
            share = share.saturating_sub(*of);
            here
        });
        let (name, is_one, _) = sort.ok_or("the shares of files do not add up")?;
        let mut files = Vec::new();
        for folder in ["log", "snapshot"] {
            let entries = fs::read_dir(self.kept(VICTIM).join(folder)).map_err(|error| format!("{folder}: {error}"))?;
            let found = entries.filter_map(Result::ok).filter(|entry| {
                is_one(&entry.file_name().to_string_lossy())
                    && entry.metadata().is_ok_and(|file| file.is_file() && file.len() > 0)
            });
            files.extend(found.map(|entry| PathBuf::from(folder).join(entry.file_name())));
        }
        files.sort();
        if files.is_empty() {
            return Err(format!("the node has no {name}"));
        }
        let file = files.swap_remove(random.random_range(0..files.len()));
        let length = fs::metadata(self.kept(VICTIM).join(&file)).map_err(|error| error.to_string())?.len();
        let at = random.random_range(0..usize::try_from(length).map_err(|error| error.to_string())?);
        let mask = if random.random_range(0..2) == 0 { 1 << random.random_range(0..8) } else { random.random_range(1..=255) };
        Ok((name, file, at, mask))
    }

    /// Starts the node alone with its files as they were, but for one byte, until it ends or answers.
    async fn look(&mut self, flip: Option<(&Path, usize, u8)>) -> Result<Fate, String> {
        self.cluster.end();
        self.put_back(VICTIM)?;
        if let Some((file, at, mask)) = flip {
            let file = self.data(VICTIM).join(file);
            let mut bytes = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            bytes[at] ^= mask;
            fs::write(&file, bytes).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        fs::write(&self.cluster.node(VICTIM).log, "").map_err(|error| error.to_string())?;
        self.cluster.start(VICTIM)?;
        let started = Instant::now();
        loop {
            if self.cluster.node(VICTIM).has_ended() {
                return Ok(Fate::Refused);
            }
            if let Some(seen) = self.ask(VICTIM).await {
                return Ok(Fate::Started(seen));
            }
            if started.elapsed() > ANSWERS_WITHIN {
                return Err(format!("the node neither answers nor ends: {flip:?}"));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn ask(&self, id: usize) -> Option<Seen> {
        let look = Request::get("/v1/cluster?digest").within(Duration::from_secs(2), Duration::ZERO);
        let cluster: Value = self.cluster.http.ask(id, &look).await.json;
        Some(Seen {
            last_log_index: cluster["last_log_index"].as_u64()?,
            snapshot_index: cluster["snapshot_index"].as_u64().unwrap_or(0),
            digest: (cluster["digest_revision"].as_u64()?, cluster["digest"].as_str()?.to_owned()),
        })
    }

    fn said_since_start(&mut self) -> String {
        fs::read_to_string(&self.cluster.node(VICTIM).log).unwrap_or_default()
    }

    fn put_back(&self, id: usize) -> Result<(), String> {
        run_program("rm", &["-rf", &self.data(id).to_string_lossy()])?;
        copy(&self.kept(id), &self.data(id))
    }

    /// The others, with the files that they had, and the node come to the same state, and nothing is missing from it.
    async fn joins(&mut self, whole: &Seen) -> Result<(), String> {
        for id in (1..=NODES).filter(|id| *id != VICTIM) {
            self.put_back(id)?;
            self.cluster.start(id)?;
        }
        for id in 1..=NODES {
            self.cluster.ready(id, READY_WITHIN).await?;
        }
        let seen = self.settled().await?;
        let there = self.cluster.http.ask(VICTIM, &Request::get(format!("/v1/nodes/bytes/after-{}", WRITES - 1))).await;
        self.cluster.end();
        if there.status != 200 || seen.last_log_index < whole.last_log_index {
            return Err(format!("the cluster lacks something: {seen:?}, {} {}", there.status, there.text));
        }
        Ok(())
    }

    /// Waits until all nodes have the same state.
    async fn settled(&self) -> Result<Seen, String> {
        let started = Instant::now();
        loop {
            let mut all = Vec::new();
            for id in 1..=NODES {
                all.push(self.ask(id).await);
            }
            match all.first() {
                Some(Some(first)) if all.iter().flatten().filter(|seen| seen.digest == first.digest).count() == NODES => {
                    return Ok(first.clone());
                }
                _other if started.elapsed() > READY_WITHIN => return Err(format!("the nodes differ: {all:?}")),
                _other => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    run_program("cp", &["-a", &from.to_string_lossy(), &to.to_string_lossy()]).map(|_| ())
}

fn table(counts: &BTreeMap<&str, Count>) -> String {
    let mut text = format!("{:<20} {:>6} {:>8} {:>9} {:>6}\n", "a byte of the", "flips", "refused", "harmless", "torn");
    let mut all = Count::default();
    let mut row = |name: &str, count: &Count| {
        writeln!(text, "{name:<20} {:>6} {:>8} {:>9} {:>6}", count.flips, count.refused, count.harmless, count.torn)
            .expect("writing to a String cannot fail");
    };
    for (name, count) in counts {
        row(name, count);
        all.flips += count.flips;
        all.refused += count.refused;
        all.harmless += count.harmless;
        all.torn += count.torn;
    }
    row("all", &all);
    text.push_str(
        "refused: the node ends and names the file; harmless: it starts with all that it had; torn: it starts without the end of \
         its log\nwho started came to the state of the other nodes, with all that was acknowledged\n",
    );
    text
}
