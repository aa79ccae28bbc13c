//! A cluster goes from plain text to TLS at both ports, and then to a new authority and new certificates, while clients
//! lock and write. Nothing fails that a retry does not mend, and a reload moves no leadership.

use crate::{
    certificates::cert,
    client::{Call, Client},
    harness::{Cluster, LONG, NODES, all, eventually, free_port, report, run_exclusive},
    hostile::terms,
    load::{Load, read_counter},
    peer_tls::{all_with_tls, options},
    rolling_restart::{COUNTER, queue},
};
use std::{fs, time::Duration};

const WORKERS: usize = 8;
/// So many operations and grants show that the clients work.
const BUSY: (usize, usize) = (60, 10);
/// Nodes look at their files every two seconds.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(30);

/// A cluster under load.
struct Rotation {
    cluster: Cluster,
    load: Load,
}

impl Rotation {
    async fn cert(&self, line: &str) {
        let (code, text) = cert(self.cluster.folder(), line).await;
        assert_eq!(code, 0, "{line}: {text}");
    }

    /// Issues the certificates of all nodes, into this folder.
    async fn issue(&self, authority: &str, folder: &str) {
        self.cert(&format!("ca --name prod --out {authority}")).await;
        for id in 1..=NODES {
            self.cert(&format!("node --ca {authority} --id {id} --host 127.0.0.1 --out {folder}")).await;
        }
    }

    /// Replaces a file in one step, as the tools that renew certificates do.
    fn replace(&self, file: &str, content: &[u8]) {
        let (temporary, file) = (self.cluster.folder().join("new-file"), self.cluster.folder().join(file));
        fs::write(&temporary, content).expect("a new file");
        fs::rename(&temporary, &file).expect("the file is replaced");
    }

    fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.cluster.folder().join(file)).expect("a file")
    }

    /// How often a node has taken over new certificates or authorities at its peer port.
    fn reloads(&self, node: usize) -> usize {
        self.cluster.nodes[node].log_text().matches("new connections use the new certificate").count()
    }

    /// Runs a change of files, and waits until these nodes use them. No leadership may move.
    async fn reload(&self, what: &str, nodes: &[usize], change: impl FnOnce(&Rotation)) {
        let (before, counts) = (terms(&self.cluster).await, nodes.iter().map(|node| self.reloads(*node)));
        let counts: Vec<usize> = counts.collect();
        change(self);
        for (node, count) in nodes.iter().zip(counts) {
            eventually(&format!("node {} takes over {what}", node + 1), TAKEN_OVER_WITHIN, || async {
                (self.reloads(*node) > count).then_some(())
            })
            .await;
        }
        self.load.wait_until_busy(BUSY.0, BUSY.1).await;
        assert_eq!(terms(&self.cluster).await, before, "{what}: a reload moved the leadership");
    }

    /// Restarts a node with other options. The leadership moves at most once.
    async fn restart(&mut self, what: &str, node: usize, flags: Vec<String>) {
        let before = terms(&self.cluster).await.into_iter().max().expect("a term");
        self.cluster.nodes[node].terminate().await;
        self.cluster.nodes[node].flags = flags;
        self.cluster.restart(node).await;
        self.load.wait_until_busy(BUSY.0, BUSY.1).await;
        let after = terms(&self.cluster).await.into_iter().max().expect("a term");
        assert!(after <= before + 1, "{what}: the restart of node {} made {} leaders", node + 1, after - before);
    }
}

fn of_node(folder: &std::path::Path, node: usize, mode: &str) -> Vec<String> {
    options(folder, &format!("node-{}", node + 1), mode, "prod")
}

#[test]
fn a_cluster_goes_to_tls_at_both_ports_and_to_a_new_authority_under_load() {
    run_exclusive(LONG, async {
        let (cluster, load) = (Cluster::start().await, Load::default());
        let plain = cluster.client(0);
        plain.write(&Call::put(&format!("/v1/nodes/{COUNTER}"), "0 0")).await;
        let start = |client: &Client| -> Vec<_> {
            (0..WORKERS).map(|number| tokio::spawn(queue(client.beginning_with(number), load.clone()))).collect()
        };
        let mut workers = start(&plain);
        let mut rotation = Rotation { cluster, load: load.clone() };
        let folder = rotation.cluster.folder().to_owned();

        rotation.issue("ca", "certs").await;
        for mode in ["optional", "required"] {
            for node in 0..NODES {
                rotation.restart(mode, node, of_node(&folder, node, mode)).await;
            }
            for node in 0..NODES {
                all_with_tls(&rotation.cluster, node).await;
            }
        }

        let everyone: Vec<usize> = (0..NODES).collect();
        rotation.issue("ca-2", "certs-2").await;
        let both = [rotation.read("ca/ca.crt"), rotation.read("ca-2/ca.crt")].concat();
        rotation.reload("both authorities", &everyone, |rotation| rotation.replace("certs/ca.crt", &both)).await;
        for node in 0..NODES {
            let what = format!("the certificate of node {} from the new authority", node + 1);
            rotation
                .reload(&what, &[node], |rotation| {
                    // The key first: a pair that does not fit changes nothing.
                    for suffix in ["key", "crt"] {
                        let name = format!("node-{}.{suffix}", node + 1);
                        rotation.replace(&format!("certs/{name}"), &rotation.read(&format!("certs-2/{name}")));
                    }
                })
                .await;
        }
        let new = rotation.read("ca-2/ca.crt");
        rotation.reload("the new authority alone", &everyone, |rotation| rotation.replace("certs/ca.crt", &new)).await;

        // The port for clients: both kinds, then the URLs, then the clients.
        let urls: Vec<String> = (0..NODES).map(|_| format!("https://127.0.0.1:{}", free_port())).collect();
        for (node, url) in urls.iter().enumerate() {
            let text = |suffix: &str| folder.join(format!("certs/node-{}.{suffix}", node + 1)).display().to_string();
            let (listen, old) = (url.trim_start_matches("https://"), rotation.cluster.nodes[node].url.clone());
            let more = [
                ("--cert", text("crt")),
                ("--key", text("key")),
                ("--listen", listen.to_owned()),
                ("--listen-plain", old.trim_start_matches("http://").to_owned()),
            ];
            let more = more.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
            let flags = of_node(&folder, node, "required").into_iter().chain(more).collect();
            rotation.restart("TLS for clients", node, flags).await;
        }
        for (node, url) in urls.iter().enumerate() {
            let id = rotation.cluster.nodes[node].id;
            let set = Call::patch(&format!("/v1/cluster/members/{id}")).json(&serde_json::json!({ "url": url }));
            plain.send(&set).await.expect_status(200);
        }
        let secure = plain.trusting(&new, urls.clone());
        workers.extend(start(&secure));
        load.wait_until_busy(BUSY.0, BUSY.1).await;
        for node in 0..NODES {
            all_with_tls(&rotation.cluster, node).await;
        }

        load.end();
        let grants: usize = all(workers).await.iter().map(Vec::len).sum();
        let (count, _) = read_counter(&secure, COUNTER).await;
        report(&format!("from plain text to TLS and a new authority under load: {grants} grants, counter {count}"));
        assert_eq!(count, grants as u64, "each grant has counted once");
    });
}
