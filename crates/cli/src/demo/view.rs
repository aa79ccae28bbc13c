//! The demo's view as lines of text.

use super::{
    board::{Board, Record},
    frame::{DemoFrame, DemoNode, DemoQueue, Pids},
    names::LOCKS,
};
use std::time::Duration;

/// The title line.
pub(super) fn title(running: Duration, board: &Board) -> String {
    format!("fairhold demo, {} s, {} grants; Ctrl-C stops everything", running.as_secs(), board.grants())
}

/// Where the dashboard is: at a node that is up.
pub(super) fn dashboard(frame: &DemoFrame) -> String {
    let up = frame.nodes.iter().find(|node| node.status.is_some()).or_else(|| frame.nodes.first());
    format!("  Dashboard: {}/ui/", up.map(|node| node.url.as_str()).unwrap_or_default())
}

/// The dashboard, and a line for each node.
pub(super) fn nodes(frame: &DemoFrame, pids: &Pids) -> Vec<String> {
    let mut lines = vec![dashboard(frame), "  node     pid  role        term  url".to_owned()];
    for node in &frame.nodes {
        let (role, term) = match &node.status {
            Some(status) => (status.role.as_str(), status.term.to_string()),
            None => ("DOWN", "-".to_owned()),
        };
        lines.push(format!("  {:<4} {:>7}  {role:<10} {term:>5}  {}", node.id, pid(pids, node), node.url));
    }
    lines
}

/// A few lines for each lock.
pub(super) fn locks(frame: &DemoFrame, board: &Board) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (lock, seen) in &frame.locks {
        let record = board.record(lock);
        lines.push(format!("  lock {lock}: {}", holder(seen.as_ref(), &record)));
        lines.push(format!("    waiting  {}", waiting(seen.as_ref(), ", then ")));
        lines.push(format!("    granted  {}", last_grants(&record)));
        lines.push(format!("    {}", gaps(&record)));
    }
    lines
}

/// What to try in another terminal.
pub(super) fn advice(frame: &DemoFrame, pids: &Pids, restarts: bool) -> Vec<String> {
    let leader = frame.leader();
    let up = |node: &&DemoNode| node.status.is_some();
    let follower = frame.nodes.iter().filter(up).find(|node| Some(node.id) != leader).or_else(|| frame.nodes.first());
    let url = follower.map(|node| node.url.as_str()).unwrap_or_default();
    let kill = match frame.nodes.iter().find(|node| Some(node.id) == leader) {
        Some(node) => format!("kill -9 {}", pid(pids, node)),
        None => "(no leader at the moment)".to_owned(),
    };
    let after = if restarts { "the node restarts after 2 s" } else { "the node stays down" };
    vec![
        String::new(),
        "  Try this in another terminal.".to_owned(),
        format!("  Kill the leader; the queue continues in the same order ({after}):"),
        kill,
        "  Join the queue, and hold the lock until Ctrl-C:".to_owned(),
        format!("curl -N -X POST '{url}/v1/locks/{}?wait=10m&hold=stream&owner=me'", LOCKS[0]),
        "  Show the holder and the waiters:".to_owned(),
        format!("curl {url}/v1/locks/{}/queue", LOCKS[0]),
    ]
}

/// All nodes on one line.
pub(super) fn brief_nodes(frame: &DemoFrame, pids: &Pids) -> Vec<String> {
    let node = |node: &DemoNode| match &node.status {
        Some(status) => format!("node {} pid {} {} term {}", node.id, pid(pids, node), status.role, status.term),
        None => format!("node {} pid {} DOWN", node.id, pid(pids, node)),
    };
    vec![String::new(), frame.nodes.iter().map(node).collect::<Vec<_>>().join("; ")]
}

/// A line for each lock.
pub(super) fn brief_locks(frame: &DemoFrame, board: &Board) -> Vec<String> {
    let line = |(lock, seen): &(&'static str, Option<DemoQueue>)| {
        let record = board.record(lock);
        let holder = holder(seen.as_ref(), &record);
        let waiting = waiting(seen.as_ref(), ", ");
        format!("lock {lock}: {holder}; waiting: {waiting}; {}", gaps(&record))
    };
    frame.locks.iter().map(line).collect()
}

fn pid(pids: &Pids, node: &DemoNode) -> String {
    pids.get(&node.id).copied().flatten().map_or_else(|| "-".to_owned(), |pid| pid.to_string())
}

fn holder(seen: Option<&DemoQueue>, record: &Record) -> String {
    let Some(seen) = seen else { return "no node answers".to_owned() };
    match &seen.holder {
        Some(holder) => {
            let since = record.held_for(holder.token).map(|held| format!(" for {}", short(held))).unwrap_or_default();
            format!("held by {}{since} (token {})", holder.owner, holder.token)
        }
        None => "free".to_owned(),
    }
}

fn waiting(seen: Option<&DemoQueue>, between: &str) -> String {
    let Some(seen) = seen.filter(|seen| !seen.waiting.is_empty()) else { return "nobody".to_owned() };
    let waiter = |(name, waits_for): &(String, Option<String>)| match waits_for {
        Some(other) => format!("{name} (for {other})"),
        None => name.clone(),
    };
    seen.waiting.iter().map(waiter).collect::<Vec<_>>().join(between)
}

fn last_grants(record: &Record) -> String {
    let grant = |grant: &super::board::DemoGrant| format!("{} #{}", grant.owner, grant.token);
    match record.last.is_empty() {
        true => "nothing yet".to_owned(),
        false => format!("{}  (newest first)", record.last.iter().map(grant).collect::<Vec<_>>().join(", ")),
    }
}

/// How long the lock was free while a client wanted it. Other free time means nothing, and is left out.
fn gaps(record: &Record) -> String {
    let Some(last) = record.last.front() else { return "no grant yet".to_owned() };
    let ago = format!("last grant {} ago", short(last.at.elapsed()));
    match record.free {
        Some((last, longest)) => format!("{ago}; handed over in {}, at worst {}", short(last), short(longest)),
        None => ago,
    }
}

/// A duration in a short form.
fn short(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            board::DemoGrant,
            frame::{DemoHolder, NodeStatus},
        },
        *,
    };
    use tokio::time::Instant;

    fn frame() -> DemoFrame {
        let status = |role: &str| Some(NodeStatus { role: role.to_owned(), term: 4 });
        let node = |id, status| DemoNode { id, url: format!("http://127.0.0.1:717{id}"), status };
        let waiting = vec![("bob".to_owned(), Some("alice".to_owned())), ("carol".to_owned(), Some("bob".to_owned()))];
        let deploy = DemoQueue { holder: Some(DemoHolder { owner: "alice".to_owned(), token: 41 }), waiting };
        DemoFrame {
            nodes: vec![node(1, None), node(2, status("leader")), node(3, status("follower"))],
            locks: vec![("report", Some(deploy)), ("printer", None)],
        }
    }

    fn pids() -> Pids {
        Pids::from([(1, None), (2, Some(4712)), (3, Some(4713))])
    }

    #[test]
    fn nodes_are_shown_with_pid_role_and_term() {
        assert_eq!(
            nodes(&frame(), &pids())[2..],
            [
                "  1          -  DOWN           -  http://127.0.0.1:7171",
                "  2       4712  leader         4  http://127.0.0.1:7172",
                "  3       4713  follower       4  http://127.0.0.1:7173",
            ]
        );
        let brief = "node 1 pid - DOWN; node 2 pid 4712 leader term 4; node 3 pid 4713 follower term 4";
        assert_eq!(brief_nodes(&frame(), &pids())[1], brief);
    }

    #[test]
    fn the_dashboard_is_that_of_a_node_that_is_up() {
        assert_eq!(dashboard(&frame()), "  Dashboard: http://127.0.0.1:7172/ui/");
        assert_eq!(nodes(&frame(), &pids())[0], dashboard(&frame()));
        let mut down = frame();
        for node in &mut down.nodes {
            node.status = None;
        }
        assert_eq!(dashboard(&down), "  Dashboard: http://127.0.0.1:7171/ui/");
    }

    #[test]
    fn a_lock_is_shown_with_holder_and_queue() {
        let board = Board::new(&LOCKS);
        let lines = locks(&frame(), &board);
        assert_eq!(lines[1], "  lock report: held by alice (token 41)");
        assert_eq!(lines[2], "    waiting  bob (for alice), then carol (for bob)");
        assert_eq!(lines[5], "  lock printer: no node answers");
        let now = Instant::now();
        board.granted("report", DemoGrant { owner: "alice", token: 41, at: now }, now);
        assert!(brief_locks(&frame(), &board)[0].starts_with("lock report: held by alice for "), "the client knows for how long");
        assert!(locks(&frame(), &board)[3].contains("alice #41"));
    }

    #[test]
    fn the_advice_names_the_leader_and_a_node_that_is_up() {
        let text = advice(&frame(), &pids(), true).join("\n");
        assert!(text.contains("kill -9 4712") && text.contains("http://127.0.0.1:7173/v1/locks/report/queue"), "{text}");
        let mut headless = frame();
        headless.nodes[1].status = None;
        assert!(advice(&headless, &pids(), true).join("\n").contains("no leader at the moment"));
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(
            (short(Duration::from_millis(7)), short(Duration::from_millis(1_250))),
            ("7 ms".to_owned(), "1.2 s".to_owned())
        );
    }
}
