//! The commands of the program, with the most details that they can print, right ones and wrong ones.

use super::{
    Planted, SOON,
    search::{Canary, Evidence, Rule},
    text,
};
use crate::{
    harness::{eventually, program, write_secret},
    terminal::Terminal,
};
use std::{fs, process::Stdio};
use tokio::{io::AsyncReadExt as _, process::Command, time::timeout};

const FAIRHOLD: &str = env!("CARGO_BIN_EXE_fairhold");

/// Commands about the cluster, as the administrator.
const LINES: [&str; 26] = [
    "locks ls -v",
    "locks ls -o json",
    "locks show orders/42 -o json -v",
    "locks queue orders/43 -v",
    "locks history orders/42 -v",
    "locks break orders/99 --reason test -v",
    "sessions ls -v",
    "sessions ls -o ndjson",
    "cluster status -v --digest",
    "cluster members -v --removed",
    "cluster tokens -v",
    "cluster settings -v",
    "backup save - -v",
    "cluster invite --out invited -v",
    "access status -v",
    "access whoami -v",
    "access bindings -v",
    "access check --as user:ci acquire locks:orders/1 -v",
    "roles ls -v",
    "roles show deployers -v",
    "users ls -v",
    "tokens ls -v",
    "tokens revoke 99999 -v",
    "node get /jobs -v",
    "node ls / -v",
    "doctor",
];

/// The same, with a wrong file of a credential or of trust; KEY, CERT, TOKEN and PEER are files.
const WRONG: [&str; 11] = [
    "locks ls --auth-token-file KEY",
    "locks ls --auth-token-file PEER",
    "locks ls --auth-token-file ..",
    "locks ls --cacert KEY",
    "locks ls --cacert TOKEN",
    "locks ls --cert KEY --key CERT",
    "locks ls --cert TOKEN --key TOKEN",
    "cert show KEY",
    "cert show TOKEN",
    "cert renew --ca ca KEY",
    "cert ca --name prod --out ca",
];

impl Planted {
    /// Runs commands, keeps what they say, and plants the secrets that they make.
    pub(super) async fn commands(&mut self) {
        let create = ["tokens", "create", "--user", "ci", "-v"];
        let made = "a user's token, made by the command";
        let said = self.said(&self.administrating(&create), "tokens create").await;
        let printed = String::from_utf8_lossy(&said.bytes).into_owned();
        let token = printed.split_whitespace().find(|word| word.starts_with("fht_")).expect("a token").to_owned();
        self.canaries.push(Canary::token(made, &token));
        self.evidence.push(said.giving(made));
        write_secret(&self.file("made"), &token);

        for line in LINES {
            let arguments: Vec<&str> = line.split(' ').collect();
            let said = self.said(&self.administrating(&arguments), line).await;
            let printed = String::from_utf8_lossy(&said.bytes);
            assert!(!printed.contains("Usage:"), "fairhold {line}: {printed}");
            self.evidence.push(said);
        }
        let (key, cert) = (text(&self.file("certs/client-ci.key")), text(&self.file("certs/client-ci.crt")));
        let (token, peer) = (text(&self.file("made")), text(&self.file("peer.key")));
        for line in WRONG {
            let named = |word: &str| match word {
                "KEY" => key.clone(),
                "CERT" => cert.clone(),
                "TOKEN" => token.clone(),
                "PEER" => peer.clone(),
                other => other.to_owned(),
            };
            let arguments: Vec<String> = line.split(' ').map(named).collect();
            let said = self.said(&self.secure(&arguments), line).await;
            self.evidence.push(said);
        }
        for options in [vec!["--cert", &cert, "--key", &key], vec!["--auth-token-file", &token]] {
            let arguments: Vec<String> = ["access", "whoami", "-v"].iter().chain(&options).map(|&part| part.to_owned()).collect();
            let said = self.said(&self.secure(&arguments), "access whoami by a certificate or a token").await;
            assert!(String::from_utf8_lossy(&said.bytes).contains("user:ci"), "{said:?}");
            self.evidence.push(said);
        }
        self.bundle().await;
        self.configurations(&key, &token).await;
        self.watch().await;
        self.lock().await;
        self.top().await;
    }

    /// A command with the administrators' token, in plain text.
    fn administrating(&self, arguments: &[&str]) -> Vec<String> {
        let file = text(&self.file("admin"));
        let connect = ["-e", &self.cluster.nodes[0].url, "--auth-token-file", &file];
        arguments.iter().chain(&connect).map(|&part| part.to_owned()).collect()
    }

    /// A command with TLS.
    fn secure(&self, arguments: &[String]) -> Vec<String> {
        if arguments[0] == "cert" {
            return arguments.to_vec();
        }
        let mut all = arguments.to_vec();
        all.extend(["-e".to_owned(), self.urls[0].clone(), "--timeout".to_owned(), "2s".to_owned()]);
        if !arguments.iter().any(|part| part == "--cacert") {
            all.extend(["--cacert".to_owned(), text(&self.file("ca/ca.crt"))]);
        }
        all
    }

    fn started(&self, arguments: &[String]) -> Command {
        let mut command = program();
        command.args(arguments).current_dir(self.cluster.folder()).env_remove("FAIRHOLD_ENDPOINT");
        command.env("FAIRHOLD_LOG", "trace").env("RUST_LOG", "trace").env("RUST_BACKTRACE", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Everything that a command prints.
    async fn said(&self, arguments: &[String], line: &str) -> Evidence {
        let output = timeout(SOON, self.started(arguments).output()).await;
        let output = output.unwrap_or_else(|_| panic!("fairhold {line} does not end")).expect("it runs");
        Evidence::new(format!("fairhold {line}"), [output.stdout, output.stderr].concat())
    }

    /// The archive of `doctor`, with and without names.
    async fn bundle(&mut self) {
        for (name, options) in [("bundle.tar", vec![]), ("hidden.tar", vec!["--hide-names"])] {
            let command = ["doctor", "--bundle", name, "--config", "1.toml"];
            let command: Vec<&str> = command.into_iter().chain(options).collect();
            let said = self.said(&self.administrating(&command), "doctor --bundle").await;
            self.evidence.push(said);
            let archive = fs::read(self.file(name)).expect("an archive");
            for part in ["MANIFEST", "node-1/metrics.txt", "node-1/alarms.json", "findings.json", "configuration.toml"] {
                assert!(String::from_utf8_lossy(&archive).contains(part), "{part} is not in {name}");
            }
            self.evidence.push(Evidence::new(format!("the archive {name}"), archive));
        }
    }

    /// What the program says of right and wrong configurations.
    async fn configurations(&mut self, key: &str, token: &str) {
        let damaged = text(&self.file("damaged"));
        let invited = fs::read_to_string(self.file("invited")).expect("a join token");
        let canary = "a join token";
        let joined = self.canaries.iter().position(|known| known.name == canary).expect("it is planted");
        self.canaries[joined] = self.canaries[joined].clone().or(invited.trim());
        write_secret(&self.file("damaged"), &invited[..invited.len() / 2]);
        let flags = self.cluster.nodes[0].flags.clone();
        let member = ["--id", "1", "--member", "1=https://127.0.0.1:1,127.0.0.1:2", "--data", "nowhere"].map(str::to_owned);
        let with = |first: &[&str], more: &[&str]| -> Vec<String> {
            first
                .iter()
                .map(|&part| part.to_owned())
                .chain(flags.clone())
                .chain(more.iter().map(|&part| part.to_owned()))
                .collect()
        };
        let join = ["--join-file", "invited", "--advertise", "https://127.0.0.1:1,127.0.0.1:2", "--data", "nowhere"];
        let joining: Vec<&str> = join.iter().map(|part| if *part == "invited" { damaged.as_str() } else { *part }).collect();
        let mut lines = vec![
            ("config show --origin", [with(&["config", "show", "--origin"], &[]), member.to_vec()].concat()),
            ("config check", [with(&["config", "check"], &[]), member.to_vec()].concat()),
            ("config show of a joining node", with(&["config", "show"], &join)),
            ("config check with a damaged join token", with(&["config", "check"], &joining)),
        ];
        for (flag, file) in [
            ("--admin-token-file", key),
            ("--admin-token-file", token),
            ("--cert", key),
            ("--key", token),
            ("--client-ca", key),
            ("--peer-key", token),
            ("--peer-key-file", key),
            ("--config", token),
        ] {
            let mut arguments = [with(&["serve"], &[]), member.to_vec()].concat();
            match arguments.iter().position(|part| part == flag) {
                Some(at) => arguments[at + 1] = file.to_owned(),
                None => arguments.extend([flag.to_owned(), file.to_owned()]),
            }
            // Were the file usable, the node would run until it is killed.
            arguments.push("--exit-with-parent".to_owned());
            lines.push((flag, arguments));
        }
        for (line, arguments) in lines {
            let said = self.said(&arguments, line).await;
            self.evidence.push(said);
        }
    }

    /// `fairhold lock` with all details: its command alone learns the grant.
    async fn lock(&mut self) {
        let id = "the id of the lock command's grant";
        let file = text(&self.file("grant"));
        let script = format!("echo $FAIRHOLD_GRANT > {file}.new; mv {file}.new {file}; cat > /dev/null");
        let token = text(&self.file("made"));
        let url = self.cluster.nodes[1].url.clone();
        let arguments = ["lock", "orders/45", "-v", "-e", &url, "--auth-token-file", &token, "--", "sh", "-c", &script];
        let mut command = self.started(&arguments.map(str::to_owned));
        let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
        let grant = eventually("the command runs", SOON, || async { fs::read_to_string(&file).ok() }).await;
        self.canaries.push(Canary::new(id, Rule::Capability, grant.trim()));
        drop(child.stdin.take());
        let output = timeout(SOON, child.wait_with_output()).await.expect("it ends").expect("it runs");
        assert!(output.status.success(), "{output:?}");
        self.evidence.push(Evidence::new("fairhold lock", [output.stdout, output.stderr].concat()));
    }

    /// `fairhold watch`, which does not end by itself.
    async fn watch(&mut self) {
        let arguments = self.administrating(&["watch", "--initial", "-o", "ndjson", "-v"]);
        let mut child = self.started(&arguments).spawn().expect("it starts");
        let mut output = child.stdout.take().expect("its output");
        let mut said = Vec::new();
        while !String::from_utf8_lossy(&said).contains("\"bookmark\"") {
            let read = timeout(SOON, output.read_buf(&mut said)).await.expect("it says more").expect("it is read");
            assert!(read > 0, "it ended: {}", String::from_utf8_lossy(&said));
        }
        child.kill().await.expect("it runs");
        self.evidence.push(Evidence::new("fairhold watch", said));
    }

    async fn top(&mut self) {
        let (url, token, ca) = (self.urls[0].clone(), text(&self.file("admin")), text(&self.file("ca/ca.crt")));
        let arguments = ["top", "-e", &url, "--cacert", &ca, "--auth-token-file", &token];
        let mut top = Terminal::start(FAIRHOLD, &arguments, &[("RUST_LOG", "trace")]);
        top.screen_with(&["3 of 3 nodes answer", "orders/42"]).await;
        top.keys("q");
        timeout(SOON, top.child.wait()).await.expect("it ends").expect("it runs");
        self.evidence.push(Evidence::new("fairhold top", top.text()));
    }
}
