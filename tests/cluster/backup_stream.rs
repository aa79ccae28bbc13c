//! Backups of running nodes: what is in them under load, one at a time, what a broken stream leaves, and the schedule.

use crate::{
    client::{Call, Client},
    harness::{Cluster, READY_WITHIN, SHORT, all, eventually, program, run_parallel},
};
use fairhold_backup::{Backup, BackupSource};
use fairhold_types::Path as NodePath;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Output, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

const PATH: &str = "/v1/cluster/backup";
/// What must happen soon happens within this time.
const SOON: Duration = Duration::from_secs(30);
/// A schedule that failed tries again within a minute.
const RETRIED_WITHIN: Duration = Duration::from_secs(120);
/// The writers of a load.
const WRITERS: usize = 8;
/// The load has begun when so many writes are acknowledged.
const WRITTEN_BEFORE: usize = 200;
/// Values of 1 MiB. An unread stream of so many does not fit into the buffers between a node and its client.
const LARGE_VALUES: usize = 24;
const MIB: usize = 1024 * 1024;

async fn save(url: &str, arguments: &[&str]) -> Output {
    program().args(["backup", "save", "-e", url]).args(arguments).output().await.expect("the program runs")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn names_in(folder: &Path) -> Vec<String> {
    let entry = |entry: Result<fs::DirEntry, _>| entry.expect("an entry").file_name().into_string().expect("UTF-8");
    let mut names: Vec<String> = fs::read_dir(folder).expect("the folder").map(entry).collect();
    names.sort();
    names
}

fn read(file: &Path) -> Backup {
    Backup::read(fs::File::open(file).expect("the file")).expect("a backup").0
}

/// Makes the state so large that an unread backup of it waits for its reader.
async fn make_large(client: &Client) {
    for index in 0..LARGE_VALUES {
        let value: Vec<u8> = (0..MIB).map(|byte| u8::try_from(byte * (index + 1) % 251).expect("a byte")).collect();
        client.write(&Call::put(&format!("/v1/nodes/large-{index}"), value)).await;
    }
}

/// Writers that write one node after the other.
struct Load {
    acknowledged: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<()>>,
}

impl Load {
    fn begin(client: &Client) -> Load {
        let (acknowledged, stop) = (Arc::<Mutex<Vec<String>>>::default(), Arc::new(AtomicBool::new(false)));
        let writer = |writer: usize| {
            let (client, acknowledged, stop) = (client.clone(), Arc::clone(&acknowledged), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    let path = format!("/load-{writer}-{number}");
                    client.write(&Call::put(&format!("/v1/nodes{path}"), path.as_str())).await;
                    acknowledged.lock().expect("no writer panicked").push(path);
                    number += 1;
                }
            })
        };
        let writers = (0..WRITERS).map(writer).collect();
        Load { acknowledged, stop, writers }
    }

    /// The paths whose writes are acknowledged.
    fn written(&self) -> Vec<String> {
        self.acknowledged.lock().expect("no writer panicked").clone()
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        all(self.writers).await;
    }
}

/// What the alarm about old backups has seen, if the node raises it.
async fn backup_old(client: &Client, node: usize) -> Option<String> {
    let alarms = client.send_to(node, &Call::get("/v1/cluster/alarms")).await.ok()?.expect_status(200);
    let alarms = alarms.json["alarms"].as_array().expect("a list");
    let alarm = alarms.iter().find(|alarm| alarm["alarm"] == "backup_old")?;
    Some(alarm["seen"].as_str().expect("a text").to_owned())
}

async fn metric(client: &Client, node: usize, line: &str) -> Option<f64> {
    let page = client.send_to(node, &Call::get("/metrics")).await.ok()?.text;
    page.lines().find_map(|served| served.strip_prefix(line)?.trim().parse().ok())
}

#[test]
fn a_backup_of_a_follower_under_load_has_everything_that_was_acknowledged_before() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let [follower, other] = cluster.followers().await;
        let client = cluster.client(other);
        let held = client.acquire("held", "ttl=60s&owner=ci-7").await;
        let load = Load::begin(&client);
        eventually("the load has begun", SOON, || async { (load.written().len() >= WRITTEN_BEFORE).then_some(()) }).await;

        let file = cluster.folder().join("under-load.backup");
        let before = load.written();
        let saved = save(&cluster.nodes[follower].url, &[text(&file)]).await;
        assert!(saved.status.success(), "{saved:?}");
        let goes_on = || load.written().len() > before.len() + WRITERS;
        eventually("the load goes on", SOON, || async { goes_on().then_some(()) }).await;
        load.end().await;
        assert!(stderr(&saved).contains("verified"), "{saved:?}");
        let backup = read(&file);
        for path in &before {
            let path = NodePath::parse(path).expect("a path");
            assert!(backup.state().node(&path).is_some(), "{path} was acknowledged before, and is missing");
        }
        let header = backup.header();
        assert_eq!((header.node, header.source), (cluster.nodes[follower].id as u64, BackupSource::Barrier));
        assert_eq!((header.members.len(), backup.state().live_grants()), (3, 0), "no grant is in it");
        let bytes = fs::read(&file).expect("the file");
        assert!(!bytes.windows(held.id.len()).any(|window| window == held.id.as_bytes()), "the id of a grant is in it");
        assert_eq!(fs::metadata(&file).expect("the file").permissions().mode() & 0o777, 0o600);

        // The file is replaced only on request, and a local backup needs no leader.
        let again = save(&cluster.nodes[follower].url, &[text(&file)]).await;
        assert_eq!(again.status.code(), Some(2), "{again:?}");
        assert!(stderr(&again).contains("pass --force"), "{again:?}");
        assert_eq!(fs::read(&file).expect("the file"), bytes);
        let forced = save(&cluster.nodes[follower].url, &[text(&file), "--force", "--local"]).await;
        assert!(forced.status.success(), "{forced:?}");
        assert_eq!(read(&file).header().source, BackupSource::Local);
        let piped = save(&cluster.nodes[follower].url, &["-"]).await;
        assert!(piped.status.success(), "{piped:?}");
        Backup::read(&*piped.stdout).expect("a whole backup in the pipe");
        assert!(!names_in(cluster.folder()).iter().any(|name| name.ends_with(".partial")));
    });
}

#[test]
fn a_node_makes_one_backup_at_a_time_until_its_reader_leaves() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        make_large(&client).await;
        let unread = client.stream_from(0, PATH, &[]).await.expect("the node runs");
        assert_eq!(
            (unread.status().as_u16(), unread.headers()["content-type"].as_bytes()),
            (200, &b"application/vnd.fairhold.backup"[..])
        );
        let busy = client.once(&Call::get(PATH)).await;
        assert!(busy.header("retry-after").is_some(), "{busy:?}");
        busy.expect_problem(429, "backup_busy");
        // Writes go on, and another node makes its own.
        client.write(&Call::put("/v1/nodes/meanwhile", "1")).await;
        let file = cluster.folder().join("other.backup");
        let elsewhere = [cluster.nodes[0].url.as_str(), cluster.nodes[1].url.as_str()].join(",");
        let saved = save(&elsewhere, &[text(&file)]).await;
        assert!(saved.status.success(), "{saved:?}");
        assert_eq!(read(&file).header().node, 2);
        drop(unread);
        let freed = eventually("the slot is free", SOON, || async {
            let response = client.stream_from(0, PATH, &[]).await.expect("the node runs");
            (response.status() == 200).then_some(response)
        })
        .await;
        let failed = || metric(&client, 0, "fairhold_backups_failed_total{kind=\"read\"}");
        eventually("the first one is counted", SOON, || async { (failed().await == Some(1.0)).then_some(()) }).await;
        let whole = freed.bytes().await.expect("the whole backup");
        Backup::read(&*whole).expect("a backup");
        let complete = || metric(&client, 0, "fairhold_backups_total{kind=\"read\"}");
        eventually("it is counted", SOON, || async { (complete().await == Some(1.0)).then_some(()) }).await;
        let bytes = metric(&client, 0, "fairhold_backup_last_bytes{kind=\"read\"}").await;
        assert_eq!(bytes, Some(whole.len() as f64));
    });
}

#[test]
fn a_node_that_stops_waits_for_no_reader_and_the_backup_is_not_usable() {
    run_parallel(SHORT, async {
        let mut cluster = Cluster::start().await;
        make_large(&cluster.client(0)).await;
        let mut saving = program();
        saving.args(["backup", "save", "-", "-e", &cluster.nodes[0].url]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut saving = saving.kill_on_drop(true).spawn().expect("the program runs");
        let mut out = saving.stdout.take().expect("a pipe");
        let mut bytes = vec![0; 1024];
        out.read_exact(&mut bytes).await.expect("the backup begins");
        let stopped = cluster.nodes[0].terminate().await;
        assert!(stopped.success(), "{stopped}");
        out.read_to_end(&mut bytes).await.expect("the rest");
        let saved = saving.wait_with_output().await.expect("it ends");
        assert_eq!(saved.status.code(), Some(1), "{}", stderr(&saved));
        assert!(
            stderr(&saved).contains("is not usable") && stderr(&saved).contains("run the command again"),
            "{}",
            stderr(&saved)
        );
        assert!(Backup::read(&*bytes).is_err());
    });
}

/// Answers each request like a node that ends the connection within a backup. Returns its URL.
async fn node_that_breaks_off(backup: Vec<u8>, is_chunked: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _read = stream.read(&mut request).await;
            let framing = if is_chunked { "transfer-encoding: chunked" } else { "connection: close" };
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.fairhold.backup\r\nfairhold-revision: 7\r\n\
                 fairhold-cluster: 0123456789abcdef0123456789abcdef\r\n{framing}\r\n\r\n"
            );
            let mut answer = head.into_bytes();
            if is_chunked {
                answer.extend_from_slice(format!("{:x}\r\n", backup.len()).as_bytes());
            }
            answer.extend_from_slice(&backup);
            if is_chunked {
                answer.extend_from_slice(b"\r\n");
            }
            let _written = stream.write_all(&answer).await;
        }
    });
    url
}

#[test]
fn a_stream_that_breaks_leaves_no_file_and_says_what_to_do() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let whole = save(&cluster.nodes[0].url, &["-"]).await.stdout;
        let half = whole[..whole.len() / 2].to_vec();
        let folder = cluster.folder().join("broken");
        fs::create_dir(&folder).expect("a folder");
        let file = folder.join("a.backup");
        // A connection that breaks, and a proxy that hides the break.
        for is_chunked in [true, false] {
            let url = node_that_breaks_off(half.clone(), is_chunked).await;
            for target in [text(&file), "-"] {
                let saved = save(&url, &[target]).await;
                assert_eq!(saved.status.code(), Some(1), "{saved:?}");
                assert!(
                    stderr(&saved).contains("is not usable") && stderr(&saved).contains("run the command again"),
                    "{saved:?}"
                );
                assert_eq!(names_in(&folder), [""; 0], "{}", stderr(&saved));
            }
        }
    });
}

/// Makes backups of the cluster with these names.
async fn make_old(cluster: &Cluster, folder: &Path, names: &[String]) {
    for name in names {
        let saved = save(&cluster.nodes[0].url, &[text(&folder.join(name))]).await;
        assert!(saved.status.success(), "{saved:?}");
    }
}

/// Restarts the first node with this configuration file.
async fn restart_with(cluster: &mut Cluster, config: &Path) {
    let stopped = cluster.nodes[0].terminate().await;
    assert!(stopped.success(), "{stopped}");
    cluster.nodes[0].flags.extend(["--config".to_owned(), text(config).to_owned()]);
    cluster.nodes[0].start();
    cluster.ready().await;
}

#[test]
fn a_node_makes_backups_by_its_schedule_and_deletes_only_old_ones() {
    run_parallel(SHORT, async {
        let mut cluster = Cluster::start().await;
        let folder = cluster.folder().join("backups");
        fs::create_dir(&folder).expect("a folder");
        let old = ["1", "2", "3"].map(|day| format!("fairhold-prod-{day}-2020010{day}T000000Z.backup"));
        make_old(&cluster, &folder, &old).await;
        // The last one is of a cluster that had the same name and is lost: its revision is higher.
        let others = ["fairhold-test-9-20200101T000000Z.backup", "notes.txt", "fairhold-prod-9000001-20200101T000000Z.backup"];
        for name in others {
            fs::write(folder.join(name), "kept by the test").expect("a file");
        }
        // A file that a killed process left.
        fs::write(folder.join("fairhold-prod-node-1.backup.partial"), "half").expect("a file");
        let config = cluster.folder().join("node-1.toml");
        let table = format!("cluster-name = \"prod\"\n[backup]\ndir = {:?}\nevery = \"1h\"\nkeep = 2\n", text(&folder));
        fs::write(&config, table).expect("a configuration");
        restart_with(&mut cluster, &config).await;
        let newest = eventually("a backup, and only the newest old one", READY_WITHIN, || async {
            let names = names_in(&folder);
            let fits = names.len() == 2 + others.len()
                && names.contains(&old[2])
                && others.iter().all(|other| names.iter().any(|name| name == other));
            let is_new = |name: &String| !old.contains(name) && !others.contains(&name.as_str());
            fits.then(|| names.into_iter().find(is_new)).flatten()
        })
        .await;
        assert!(newest.starts_with("fairhold-prod-") && newest.ends_with("Z.backup"), "{newest}");
        let file = folder.join(&newest);
        let header = read(&file).header().clone();
        assert_eq!((header.node, header.source), (1, BackupSource::Local));
        assert!(newest.contains(&format!("-{}-", header.revision)), "{newest}");
        assert_eq!(fs::metadata(&file).expect("the file").permissions().mode() & 0o777, 0o600);
        let client = cluster.client(0);
        let complete = || metric(&client, 0, "fairhold_backups_total{kind=\"scheduled\"}");
        eventually("it is counted", SOON, || async { (complete().await == Some(1.0)).then_some(()) }).await;
        assert_eq!(metric(&client, 0, "fairhold_backups_failed_total{kind=\"scheduled\"}").await, Some(0.0));
    });
}

#[test]
fn a_node_whose_backups_fail_serves_and_says_so_until_they_succeed() {
    run_parallel(2 * SHORT, async {
        let mut cluster = Cluster::start().await;
        let folder = cluster.folder().join("backups");
        // A folder is where the file of the backup belongs.
        let obstacle = folder.join("fairhold-prod-node-1.backup.partial");
        fs::create_dir_all(&obstacle).expect("a folder");
        // A clock that was wrong has made the one from the future. It hides nothing.
        let others = ["fairhold-prod-8-20200101T000000Z.backup", "fairhold-prod-9-29990101T000000Z.backup"];
        make_old(&cluster, &folder, &others.map(str::to_owned)).await;
        let config = cluster.folder().join("node-1.toml");
        let table = format!("cluster-name = \"prod\"\n[backup]\ndir = {:?}\nevery = \"1m\"\n", text(&folder));
        fs::write(&config, table).expect("a configuration");
        restart_with(&mut cluster, &config).await;
        let client = cluster.client(0);
        let failed = || metric(&client, 0, "fairhold_backups_failed_total{kind=\"scheduled\"}");
        eventually("the failure is counted", SOON, || async { (failed().await >= Some(1.0)).then_some(()) }).await;
        let ready = client.once(&Call::get("/readyz?verbose")).await.expect_status(200);
        assert!(ready.string("warning").contains("the scheduled backups fail"), "{ready:?}");
        client.write(&Call::put("/v1/nodes/a", "1")).await;
        let log = cluster.nodes[0].log_text();
        assert_eq!(log.matches("the scheduled backups fail").count(), 1, "{log}");

        let seen = eventually("the alarm is raised", SOON, || backup_old(&client, 0)).await;
        let found = format!("the newest scheduled backup in {} is ", text(&folder));
        let age = seen
            .strip_prefix(&found)
            .and_then(|rest| rest.split_once(" old, and one is due every 1m; the last attempt failed: "));
        assert!(age.is_some_and(|(age, fault)| age.contains('d') && fault.contains(text(&folder))), "{seen}");
        assert_eq!(metric(&client, 0, "fairhold_alarm{alarm=\"backup_old\"}").await, Some(1.0));
        assert_eq!(metric(&client, 1, "fairhold_alarm{alarm=\"backup_old\"}").await, Some(0.0), "it makes no backups");

        fs::remove_dir(&obstacle).expect("an empty folder");
        let is_gone = || async { (metric(&client, 0, "fairhold_alarm{alarm=\"backup_old\"}").await == Some(0.0)).then_some(()) };
        eventually("the alarm is gone", RETRIED_WITHIN, is_gone).await;
        assert_eq!(backup_old(&client, 0).await, None);
        let names = names_in(&folder);
        let is_new = |name: &String| name.ends_with("Z.backup") && !others.contains(&name.as_str());
        assert!(names.iter().any(is_new), "{names:?}");
        let is_logged = || async { cluster.nodes[0].log_text().contains("the scheduled backups succeed again").then_some(()) };
        eventually("the log says so", SOON, is_logged).await;
    });
}
