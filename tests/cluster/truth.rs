//! What `top`, `cluster members` and `doctor` show while the leader is dead: no dead node may appear alive.

use crate::{
    client::{Call, new_key},
    commands::{at, output_of},
    harness::{Cluster, SHORT, eventually, report, run_exclusive, run_parallel},
    terminal::{self, Terminal},
};
use std::time::{Duration, Instant};

const FAIRHOLD: &str = env!("CARGO_BIN_EXE_fairhold");
/// How long a dead node may be shown as alive.
const SHOWN_DEAD_WITHIN: Duration = Duration::from_secs(2);
/// Extra time for drawing on a busy machine.
const SLACK: Duration = Duration::from_secs(3);

/// The line of a screen that contains this URL.
fn line_of(screen: &str, url: &str) -> String {
    screen.lines().find(|line| line.contains(url)).unwrap_or_default().to_owned()
}

#[test]
fn top_shows_a_killed_leader_as_dead_and_continues_at_another_node() {
    run_exclusive(SHORT, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let others: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
        cluster.client(others[0]).acquire("deploy", "ttl=90s&owner=holder").await;
        let url = cluster.nodes[leader].url.clone();
        let mut top = Terminal::start(FAIRHOLD, &["top", "-e", &url], &[]);
        top.screen_with(&["holder", "3 of 3 nodes answer", " leader "]).await;
        cluster.nodes[leader].kill().await;
        let killed = Instant::now();
        eventually("the dead leader is shown as dead", SHORT, || async {
            line_of(&terminal::screen(&top.text()), &url).contains("NO ANSWER").then_some(())
        })
        .await;
        let took = killed.elapsed();
        report(&format!("top showed the dead leader as dead after {took:.1?}"));
        assert!(took < SHOWN_DEAD_WITHIN + SLACK, "it took {took:?}");
        // Its only endpoint is the dead node. It continues with the nodes that this node named.
        let screen = top.screen_with(&["2 of 3 nodes answer, node", " leads in term ", "holder"]).await;
        assert!(screen.contains("0 more may fail"), "{screen}");
        let new = cluster.leader().await;
        assert!(line_of(&screen, &cluster.nodes[new].url).contains(" leader "), "{screen}");
        for node in others {
            cluster.nodes[node].kill().await;
        }
        top.screen_with(&["no node answers; figures seen "]).await;
        top.keys("q");
        assert_eq!(top.child.wait().await.expect("it ends").code(), Some(0));
    });
}

#[test]
fn each_member_is_queried_itself_and_doctor_agrees() {
    run_exclusive(SHORT, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let follower = (leader + 1) % 3;
        let members = output_of(&at(&cluster, follower, &["cluster", "members"]).await, 0);
        let rows: Vec<Vec<&str>> = members.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(rows.len(), 3, "{members}");
        // A follower answered, and still has the leader's information.
        assert!(rows.iter().all(|row| row[4].parse::<u64>().is_ok() && row[6] == "yes"), "{members}");
        cluster.nodes[leader].kill().await;
        let dead = (leader + 1).to_string();
        let row = |text: &str| text.lines().find(|line| line.split('\t').next() == Some(&dead)).unwrap_or_default().to_owned();
        let first = output_of(&at(&cluster, follower, &["cluster", "members"]).await, 0);
        assert!(row(&first).contains("\t-\t") && row(&first).contains("no: "), "right after the kill:\n{first}");
        cluster.leader().await;
        let later = output_of(&at(&cluster, follower, &["cluster", "members"]).await, 0);
        assert!(later.contains("\tleader\t") || later.contains("leader\t"), "{later}");
        assert!(row(&later).contains("no: ") && !row(&later).contains("leader"), "{later}");
        let doctor = at(&cluster, follower, &["doctor", "--timeout", "1s"]).await;
        let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
        assert!(text.contains(&format!("node {dead} at")) && text.contains("cannot be reached"), "{text}");
    });
}

#[test]
fn a_break_reports_the_ended_grants_and_ends_no_others() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let first = client.acquire("deploy", "ttl=90s&owner=ci-7").await;
        let waiting = {
            let client = cluster.client(1);
            tokio::spawn(async move { client.acquire("deploy", "wait=90s&ttl=90s&owner=ci-8").await })
        };
        crate::queue::wait_for_contenders(&client, "deploy", 2).await;
        let wrong = output_of(&at(&cluster, 2, &["locks", "break", "deploy", "--reason", "test", "--token", "999"]).await, 1);
        assert!(wrong.contains("nothing was broken") && wrong.contains("locks show deploy"), "{wrong}");
        let broken = at(&cluster, 2, &["locks", "break", "deploy", "--reason", "test"]).await;
        let text = String::from_utf8_lossy(&broken.stderr).into_owned();
        assert_eq!(broken.status.code(), Some(0), "{text}");
        assert!(text.contains("broken: ci-7 (#") && text.contains("next: ci-8 (#"), "{text}");
        waiting.await.expect("the waiter's task");
        // The token of the former holder breaks no other grant.
        let stale = format!("/v1/locks/deploy/holders?token={}", first.token);
        client.send(&Call::delete(&stale).key(&new_key())).await.expect_problem(412, "stale_token");
        assert_eq!(client.holders("deploy").await.len(), 1);
        let nobody = at(&cluster, 0, &["locks", "break", "nosuch", "--reason", "test"]).await;
        assert!(String::from_utf8_lossy(&nobody.stderr).contains("nobody held nosuch"), "{nobody:?}");
        for (command, says) in [("queue", "nobody holds nosuch or waits for it"), ("show", "nobody has ever held nosuch")] {
            let output = at(&cluster, 0, &["locks", command, "nosuch"]).await;
            assert!(String::from_utf8_lossy(&output.stderr).contains(says), "{output:?}");
        }
    });
}

#[test]
fn the_front_page_and_the_description_are_served_in_the_requested_form() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(1);
        let to_browser = client.send(&Call::get("/").with("accept", "text/html,*/*;q=0.8")).await.expect_status(303);
        assert_eq!(to_browser.header("location"), Some("ui/"));
        let page = client.send(&Call::get("/ui/").with("accept", "text/html,*/*;q=0.8")).await.expect_status(200);
        assert!(page.text.starts_with("<!doctype html>"), "{}", page.text);
        let tag = page.header("etag").expect("a tag").to_owned();
        client.send(&Call::get("/ui/").with("if-none-match", &tag)).await.expect_status(304);
        let text = client.send(&Call::get("/")).await.expect_status(200);
        assert!(text.text.starts_with("Fairhold ") && text.text.contains("/openapi.json"), "{}", text.text);
        let plain = client.send(&Call::get("/openapi.json")).await.expect_status(200);
        let tag = plain.header("etag").expect("a tag").to_owned();
        client.send(&Call::get("/openapi.json").with("if-none-match", &tag)).await.expect_status(304);
        client.send(&Call::get("/openapi.json").with("if-none-match", "\"other\"")).await.expect_status(200);
        let url = format!("{}/openapi.json", cluster.nodes[0].url);
        let compressed = std::process::Command::new("curl").args(["-s", "--compressed", "-w", "%{size_download}", &url]).output();
        let compressed = String::from_utf8_lossy(&compressed.expect("curl runs").stdout).into_owned();
        let (body, size) = compressed.rsplit_once('\n').expect("a body and its size");
        assert_eq!(body, plain.text.trim_end_matches('\n'));
        let size: usize = size.parse().expect("a number");
        assert!(size * 5 < body.len(), "{size} bytes were sent for {}", body.len());
    });
}

#[test]
fn a_command_without_an_answer_reports_it_within_seconds() {
    run_parallel(SHORT, async {
        let port = crate::harness::free_port();
        let url = format!("http://127.0.0.1:{port}");
        for command in [&["locks", "ls"][..], &["lock", "deploy", "-n", "--", "true"]] {
            let arguments = [command, &["-e", &url, "--timeout", "2s"]].concat();
            let output = tokio::process::Command::new(FAIRHOLD).args(&arguments).output().await.expect("fairhold runs");
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(69), "{text}");
            let first = text.lines().next().unwrap_or_default();
            assert!(first.contains("no answer yet") && first.contains("is it running?"), "{text}");
            assert!(text.lines().count() == 2 && text.contains("refused"), "{text}");
        }
    });
}
