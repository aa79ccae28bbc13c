//! A disk that can be full, broken or slow, and that reports what is durable: `disk_double.c`, compiled here and loaded into
//! a node's process. It needs no privileges and no mount, so it runs wherever the tests do.

use crate::{harness::NodeProcess, without::compile};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// One node's disk.
#[derive(Debug)]
pub(crate) struct DiskDouble {
    root: PathBuf,
    rule: PathBuf,
    trace: PathBuf,
}

/// The effect of a power cut.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PowerCut {
    /// Files that lost their end, or everything.
    pub(crate) files_cut: usize,
    /// Files whose names were not on the disk yet.
    pub(crate) files_gone: usize,
    /// Bytes that were only in the kernel's memory.
    pub(crate) bytes_lost: u64,
}

/// The compiled library.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("disk_double-{}.so", std::process::id()));
        compile("../../tests/cluster/disk_double.c", &target, &["-shared", "-fPIC"]);
        target
    })
}

impl DiskDouble {
    /// Loads the disk double between a node and its files, from the node's next start on.
    pub(crate) fn under(node: &mut NodeProcess) -> DiskDouble {
        let library = library();
        let beside = |ending: &str| node.data.with_extension(ending);
        let disk = DiskDouble { root: node.data.clone(), rule: beside("rule"), trace: beside("trace") };
        disk.heal();
        // With a slash: the node's log lies next to the folder, under a name with the same beginning.
        let root = disk.root.join("");
        let variable = |name: &str, path: &Path| (name.to_owned(), path.as_os_str().to_owned());
        node.environment = vec![
            variable("LD_PRELOAD", library),
            variable("FAIRHOLD_DISK_ROOT", &root),
            variable("FAIRHOLD_DISK_RULE", &disk.rule),
            variable("FAIRHOLD_DISK_TRACE", &disk.trace),
        ];
        disk
    }

    /// Only `bytes` more bytes fit into files whose path contains `part`.
    pub(crate) fn fill(&self, bytes: u64, part: &str) {
        self.put_rule(&format!("full {bytes} {part}"));
    }

    /// The `nth` sync from now on of a file whose path contains `part` fails; later ones report success.
    pub(crate) fn fail_sync(&self, nth: u64, part: &str) {
        self.put_rule(&format!("sync {nth} {part}"));
    }

    /// Skips the syncs of files whose path contains `part`, as if the program had forgotten them.
    pub(crate) fn skip_syncs(&self, part: &str) {
        self.put_rule(&format!("skip 0 {part}"));
    }

    /// Each sync of a file whose path contains `part` takes this much longer.
    pub(crate) fn slow_syncs(&self, time: Duration, part: &str) {
        self.put_rule(&format!("slow {} {part}", time.as_millis()));
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) {
        fs::write(&self.rule, "").expect("the rule can be written");
    }

    fn put_rule(&self, rule: &str) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let temporary = self.rule.with_extension("rule-new");
        fs::write(&temporary, format!("{} {rule}\n", NEXT.fetch_add(1, Ordering::SeqCst))).expect("the rule can be written");
        fs::rename(&temporary, &self.rule).expect("the rule can be written");
    }

    /// How many syncs succeeded, and how many failed.
    pub(crate) fn syncs(&self) -> (usize, usize) {
        let text = fs::read_to_string(&self.trace).expect("the trace is there");
        let count = |kind: &str| text.lines().filter(|line| line.starts_with(kind)).count();
        (count("S "), count("E "))
    }

    /// Removes everything that was never synced from the files of a stopped node: the ends of files, and whole files.
    /// After a failed sync, a file keeps what was synced before it, whatever later syncs reported. A removed file stays
    /// removed.
    pub(crate) fn cut_power(&self) -> PowerCut {
        let (mut sizes, mut broken, mut names) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let text = fs::read_to_string(&self.trace).expect("the trace is there");
        for line in text.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["S", size, path] if !broken.contains(path) => {
                    sizes.insert(path.to_owned(), size.parse::<u64>().expect("a size"));
                }
                ["S", ..] => {}
                ["E", _, path] => drop(broken.insert(path.to_owned())),
                ["N", _, path] => drop(names.insert(path.to_owned())),
                ["R", _, from, to] => {
                    let size = sizes.remove(from).unwrap_or(0);
                    sizes.insert(to.to_owned(), size);
                    if broken.remove(from) {
                        broken.insert(to.to_owned())
                    } else {
                        broken.remove(to)
                    };
                }
                _ => panic!("not a line of a trace: {line}"),
            }
        }
        let mut cut = PowerCut::default();
        for folder in [self.root.clone(), self.root.join("log"), self.root.join("snapshot")] {
            for entry in fs::read_dir(&folder).expect("the folder is there") {
                let path = entry.expect("it can be read").path();
                if !path.is_file() {
                    continue;
                }
                let name = path.to_str().expect("a name of ours");
                let length = path.metadata().expect("it is there").len();
                let synced = sizes.get(name).copied().unwrap_or(0).min(length);
                cut.bytes_lost += length - synced;
                if names.contains(name) {
                    cut.files_cut += usize::from(synced < length);
                    fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(synced)).expect("it can be cut");
                } else {
                    cut.files_gone += 1;
                    fs::remove_file(&path).expect("it can be removed");
                }
            }
        }
        // The current content is on the disk.
        cut
    }
}
