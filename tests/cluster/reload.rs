//! SIGHUP makes a node read its configuration again: what changes at once, what needs a restart, and a configuration
//! with errors.

use crate::{
    client::Call,
    harness::{Cluster, NodeProcess, SHORT, eventually, run_parallel, signal_pid},
    traces::{Collector, trace_parent},
};
use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::Signal,
};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{io::AsyncReadExt as _, net::TcpStream, time::timeout};

/// How long a reload may take on a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// What the log says at the end of a reload.
const ACCEPTED: &str = "SIGHUP: the configuration was read again";

/// One node with a configuration file.
struct Configured {
    cluster: Cluster,
    file: PathBuf,
}

impl Configured {
    async fn start(text: impl Fn(&Path) -> String) -> Configured {
        let mut cluster = Cluster::plan_of(1);
        let file = cluster.folder().join("fairhold.toml");
        let text = text(cluster.folder());
        fs::write(&file, text).expect("a configuration");
        cluster.nodes[0].flags = vec!["--config".to_owned(), file.display().to_string()];
        cluster.nodes[0].start();
        cluster.ready().await;
        Configured { cluster, file }
    }

    fn node(&self) -> &NodeProcess {
        &self.cluster.nodes[0]
    }

    /// Sends a request to the node, and expects this status.
    async fn send(&self, call: Call, status: u16) -> String {
        let answer = self.cluster.client(0).send_to(0, &call).await.expect("an answer");
        assert_eq!(answer.status, status, "{}", answer.text);
        answer.text
    }

    /// How many reloads had this result.
    async fn reloads(&self, result: &str) -> u64 {
        let metrics = self.send(Call::get("/metrics"), 200).await;
        let series = format!("fairhold_config_reloads_total{{result=\"{result}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&series)).and_then(|count| count.parse().ok()).expect("the metric")
    }

    /// Writes another configuration, sends SIGHUP, and waits for the result. Returns what the log says of it.
    async fn reload(&self, text: &str, result: &str) -> String {
        let before = (self.reloads(result).await, self.node().log_text().len());
        fs::write(&self.file, text).expect("a configuration");
        signal_pid(self.node().pid(), Signal::HUP);
        eventually("the reload has ended", SOON, || async { (self.reloads(result).await > before.0).then_some(()) }).await;
        // The last line of a reload follows its count.
        let last = if result == "accepted" { ACCEPTED } else { "so nothing has changed" };
        eventually("the log says so", SOON, || async {
            let said = self.node().log_text().get(before.1..).unwrap_or_default().to_owned();
            said.contains(last).then_some(said)
        })
        .await
    }
}

fn entries(log: &Path) -> usize {
    fs::read_to_string(log).unwrap_or_default().lines().count()
}

async fn wait_for_entries(log: &Path, count: usize) {
    eventually("the entries", SOON, || async { (entries(log) >= count).then_some(()) }).await;
}

#[test]
fn a_reload_changes_the_log_the_audit_and_the_limits_at_once_and_names_what_needs_a_restart() {
    run_parallel(SHORT, async {
        let audit = |folder: &Path, name: &str, what: &str| {
            format!("[audit]\nfile = {:?}\nwhat = \"{what}\"\n", folder.join(name).display().to_string())
        };
        let configured = Configured::start(|folder| format!("log = \"info\"\n{}", audit(folder, "a.log", "denied"))).await;
        let folder = configured.cluster.folder().to_owned();
        let (first, second) = (folder.join("a.log"), folder.join("b.log"));
        configured.send(Call::post("/v1/locks/a?ttl=60s"), 200).await;

        // More of the requests, in another file.
        let said = configured.reload(&format!("log = \"info\"\n{}", audit(&folder, "b.log", "writes")), "accepted").await;
        assert!(said.contains("audit.file, audit.what") && !said.contains("needs a restart"), "{said}");
        configured.send(Call::post("/v1/locks/b?ttl=60s"), 200).await;
        wait_for_entries(&second, 1).await;
        assert_eq!(entries(&first), 0, "the acquire before the reload was in no entry");

        // The log, and two settings that need a restart.
        let text = format!("log = \"warn\"\ntiming = \"wan\"\nfinalize-later = 1\n{}", audit(&folder, "b.log", "writes"));
        let refused = configured.reload(&text, "refused").await;
        assert!(refused.contains("unknown key `finalize-later`"), "{refused}");
        let text = format!("log = \"debug\"\nstate-bytes-max = 2000000\n{}", audit(&folder, "b.log", "writes"));
        let said = configured.reload(&text, "accepted").await;
        eventually("the restart is named", SOON, || async {
            configured.node().log_text().contains("a change of state-bytes-max needs a restart").then_some(())
        })
        .await;
        assert!(!said.contains("audit."), "it did not change: {said}");
        eventually("more lines than before", SOON, || async { configured.node().log_text().contains("DEBUG").then_some(()) })
            .await;

        // Fewer connections: those that are open stay.
        let address = configured.node().url.trim_start_matches("http://").to_owned();
        let early = TcpStream::connect(&address).await.expect("the port is open");
        let text = format!("connections-max = 1\nconnections-per-address-max = 1\n{}", audit(&folder, "b.log", "writes"));
        configured.reload(&text, "accepted").await;
        let mut late = TcpStream::connect(&address).await.expect("the port is open");
        let mut said = String::new();
        timeout(SOON, late.read_to_string(&mut said)).await.expect("an answer").expect("it is read");
        assert!(said.starts_with("HTTP/1.1 503 "), "{said}");
        configured.send(Call::get("/v1/cluster"), 200).await;
        drop(early);
    });
}

#[test]
fn a_refused_reload_changes_nothing_and_tells_every_finding() {
    run_parallel(SHORT, async {
        let configured = Configured::start(|folder| {
            format!("log = \"info\"\n[audit]\nfile = {:?}\nwhat = \"denied\"\n", folder.join("a.log").display().to_string())
        })
        .await;
        let folder = configured.cluster.folder().to_owned();
        let missing = folder.join("missing");
        let wrong = [
            "log = \"debug\n".to_owned(),
            "log = \"debug\"\nlisen = \"a:1\"\n".to_owned(),
            "log = \"debug\"\n[trace]\nendpoint = \"http://user:s3cretPW@127.0.0.1:4318\"\n".to_owned(),
            "log = \"debug\"\ntrace = \"http://user:s3cretPW@127.0.0.1:4318\"\n".to_owned(),
            "log = \"debug\"\n[jwt.ci]\nissuer = \"https://user:s3cretPW@x\"\naudience = \"a\"\njwks = \"j\"\n".to_owned(),
            format!("log = \"debug\"\n[audit]\nfile = {:?}\nwhat = \"all\"\n", missing.join("a.log").display().to_string()),
            format!(
                "log = \"debug\"\n[jwt.ci]\nissuer = \"i\"\naudience = \"a\"\njwks = {0:?}\n\
                 [audit]\nfile = {1:?}\nwhat = \"all\"\n",
                missing.join("jwks.json").display().to_string(),
                folder.join("c.log").display().to_string()
            ),
        ];
        for text in &wrong {
            configured.reload(text, "refused").await;
            configured.send(Call::get("/readyz"), 200).await;
        }
        fs::remove_file(&configured.file).expect("the configuration");
        mknodat(CWD, &configured.file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        signal_pid(configured.node().pid(), Signal::HUP);
        eventually("the FIFO is refused", SOON, || async {
            let log = configured.node().log_text();
            let ends = log.matches("so nothing has changed").count();
            (log.contains("it is not a regular file") && ends == wrong.len() + 1).then_some(())
        })
        .await;
        fs::remove_file(&configured.file).expect("the FIFO");
        let several = "lgo = \"debug\"\nstate-bytes-max = 5\nlisten = 7\n";
        let said = configured.reload(several, "refused").await;
        for finding in ["did you mean `log`?", "--state-bytes-max 5", "listen: invalid type"] {
            assert_eq!(said.matches(finding).count(), 1, "{finding}: {said}");
        }
        assert_eq!((configured.reloads("accepted").await, configured.reloads("refused").await), (0, 9));
        configured.send(Call::post("/v1/locks/a?ttl=60s"), 200).await;
        let log = configured.node().log_text();
        assert!(!log.contains("DEBUG"), "the log has changed");
        assert!(log.contains("names http://127.0.0.1:4318") && !log.contains("s3cretPW"), "{log}");
        assert!(!folder.join("c.log").exists() && entries(&folder.join("a.log")) == 0, "the audit log has changed");
    });
}

#[test]
fn of_many_signals_the_last_one_counts() {
    run_parallel(SHORT, async {
        let configured = Configured::start(|_| "log = \"info\"\n".to_owned()).await;
        for number in 0..10 {
            let level = if number == 9 { "debug" } else { "warn" };
            fs::write(&configured.file, format!("log = \"{level}\"\n")).expect("a configuration");
            signal_pid(configured.node().pid(), Signal::HUP);
        }
        eventually("the last one counts", SOON, || async {
            configured.send(Call::get("/v1/cluster"), 200).await;
            configured.node().log_text().contains("DEBUG").then_some(())
        })
        .await;
        assert_eq!(configured.reloads("refused").await, 0);
    });
}

#[test]
fn a_reload_turns_traces_on_moves_them_and_turns_them_off() {
    run_parallel(SHORT, async {
        let (first, first_url) = Collector::start().await;
        let (second, second_url) = Collector::start().await;
        let without = "log = \"info\"\n";
        let with = |url: &str, names: bool| format!("{without}[trace]\nendpoint = \"{url}\"\nsample = 0\nnames = {names}\n");
        let configured = Configured::start(|_| without.to_owned()).await;
        let acquire = async |lock: &str| {
            let call = Call::post(&format!("/v1/locks/{lock}?ttl=60s")).with("traceparent", &trace_parent());
            configured.send(call, 200).await;
        };
        let arrived = async |at: &Collector, names: &[Option<&str>]| {
            let names: Vec<_> = names.iter().map(|name| name.map(|name| format!("locks:{name}"))).collect();
            eventually("the spans", SOON, || async { (at.acquired() == names).then_some(()) }).await;
        };
        acquire("before").await;

        let said = configured.reload(&with(&first_url, false), "accepted").await;
        assert!(said.contains("trace.endpoint, trace.names, trace.sample") && !said.contains("needs a restart"), "{said}");
        acquire("first").await;
        arrived(&first, &[None]).await;

        configured.reload(&with(&second_url, true), "accepted").await;
        acquire("second").await;
        arrived(&second, &[Some("second")]).await;

        let wrong = with(&first_url, false).replace("sample = 0", "sample = 2");
        let said = configured.reload(&wrong, "refused").await;
        assert!(said.contains("trace.sample"), "{said}");
        acquire("third").await;
        arrived(&second, &[Some("second"), Some("third")]).await;

        configured.reload(without, "accepted").await;
        acquire("fourth").await;
        configured.reload(&with(&first_url, true), "accepted").await;
        acquire("fifth").await;
        arrived(&first, &[None, Some("fifth")]).await;
        arrived(&second, &[Some("second"), Some("third")]).await;
    });
}
