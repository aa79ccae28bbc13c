//! The dashboard's address, a node without a dashboard, and the files of its developers.

use crate::{
    client::Call,
    commands::{at, output_of},
    harness::{Cluster, SHORT, free_port, run_parallel},
};
use std::fs;
use tokio::process::Command;

const FAIRHOLD: &str = env!("CARGO_BIN_EXE_fairhold");

#[test]
fn ui_prints_the_address_of_a_node_that_serves_the_dashboard() {
    run_parallel(SHORT, async {
        let mut cluster = Cluster::plan();
        cluster.nodes[2].flags = vec!["--ui=false".to_owned()];
        cluster.nodes.iter_mut().for_each(crate::harness::NodeProcess::start);
        cluster.ready().await;
        let url = &cluster.nodes[1].url;
        assert_eq!(output_of(&at(&cluster, 1, &["ui"]).await, 0), format!("{url}/ui/\n"));

        // The next node, if the first does not answer.
        let nobody = format!("http://127.0.0.1:{}", free_port());
        let mut command = Command::new(FAIRHOLD);
        let by_variable = command.arg("ui").env("FAIRHOLD_ENDPOINT", format!("{nobody},{url}")).output().await;
        assert_eq!(output_of(&by_variable.expect("fairhold runs"), 0), format!("{url}/ui/\n"));

        let refused = output_of(&at(&cluster, 2, &["ui"]).await, 1);
        assert!(refused.contains("serves no dashboard: it runs with --ui=false"), "{refused}");
        let arguments = ["ui", "-e", &nobody, "--timeout", "1s"];
        let silent = Command::new(FAIRHOLD).args(arguments).output().await.expect("fairhold runs");
        assert_eq!(silent.status.code(), Some(69), "{silent:?}");

        let client = cluster.client(2);
        for path in ["/ui", "/ui/", "/ui/0123456789abcdef/app/main.js"] {
            client.send(&Call::get(path)).await.expect_problem(404, "not_found");
        }
        client.send(&Call::get("/").with("accept", "text/html")).await.expect_problem(404, "not_found");
        let front = client.send(&Call::get("/")).await.expect_status(200);
        assert!(front.text.contains("/v1/locks") && !front.text.contains("/ui/"), "{}", front.text);
    });
}

#[test]
fn a_developer_sees_a_change_of_a_file_after_a_reload() {
    run_parallel(SHORT, async {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("app")).expect("a folder in it");
        fs::write(folder.path().join("index.html"), "<!doctype html>\n<script src=\"./{HASH}/app/main.js\">").expect("a page");
        let name = folder.path().to_str().expect("a name in UTF-8");
        let mut cluster = Cluster::plan_of(1);
        cluster.nodes[0].flags = vec!["--ui-dir".to_owned(), name.to_owned()];
        cluster.nodes[0].start();
        cluster.ready().await;
        let client = cluster.client(0);
        let page = client.send(&Call::get("/ui/")).await.expect_status(200);
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert!(page.header("content-security-policy").is_some_and(|policy| policy.contains("script-src 'self'")));
        let script = page.text.split("\"./").nth(1).and_then(|rest| rest.split('"').next()).expect("the path of the script");
        for content in ["let a = 1;", "let a = 2;"] {
            fs::write(folder.path().join("app/main.js"), content).expect("a file");
            let file = client.send(&Call::get(&format!("/ui/{script}"))).await.expect_status(200);
            assert_eq!((file.header("cache-control"), &*file.text), (Some("no-store"), content));
        }
        client.send(&Call::get(&format!("/ui/{script}/../../index.html"))).await.expect_status(404);

        let data = format!("{name}/data");
        let exposed = ["serve", "--id", "1", "--data", &data, "--insecure", "--listen", "0.0.0.0:7171", "--ui-dir", name];
        let member = format!("1=http://127.0.0.1:{},127.0.0.1:{}", free_port(), free_port());
        let refused = Command::new(FAIRHOLD).args(exposed).args(["--member", &member]).output().await.expect("fairhold runs");
        assert!(output_of(&refused, 2).contains("--ui-dir: 0.0.0.0:7171 is not a loopback address"), "{refused:?}");
    });
}
