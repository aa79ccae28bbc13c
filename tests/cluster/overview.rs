//! The overview: each node shows which requests were refused because of deadlocks, to callers that may see their locks,
//! and which locks are granted most often. Users that may see the same locks share it, and a flood of one user leaves it to
//! the others.

use crate::{
    access::{ENDS_WITHIN, Guarded, User},
    batches::{batch, statuses},
    client::{Answer, Call, new_key},
    harness::{Cluster, READY_WITHIN, SHORT, all, eventually, report, run_exclusive, run_parallel},
    tenants::authorized,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Instant,
};

/// The requests of a flood that are open at a time.
const FLOOD: usize = 100;

async fn overview(cluster: &Cluster, index: usize) -> Answer {
    cluster.client(index).send_to(index, &Call::get("/v1/overview")).await.expect("the node runs").expect_status(200)
}

fn list<'a>(answer: &'a Answer, name: &str) -> &'a [Value] {
    answer.json[name].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn each_node_shows_refused_deadlocks_and_says_since_when_it_knows_them() {
    run_parallel(SHORT, async {
        let mut cluster = Cluster::start().await;
        let client = cluster.client(0);
        let [alice, bob] = [client.open_session("60s", "alice").await, client.open_session("60s", "bob").await];
        client.acquire("left", &format!("session={}&owner=alice", alice.id)).await;
        client.acquire("right", &format!("session={}&owner=bob", bob.id)).await;
        let waits = Call::post(&format!("/v1/locks/right?session={}&owner=alice", alice.id)).with("prefer", "respond-async");
        client.send(&waits).await.expect_status(202);
        let refuse = async || {
            let asks = Call::post(&format!("/v1/locks/left?session={}&owner=bob&wait=60s", bob.id));
            client.send(&asks).await.expect_problem(409, "would_deadlock");
        };
        refuse().await;
        let cycle = json!([
            { "session": bob.number, "owner": "bob", "lock": "left" },
            { "session": alice.number, "owner": "alice", "lock": "right" },
        ]);
        for index in 0..3 {
            let shown = eventually("the node shows the refusal", READY_WITHIN, || async {
                Some(overview(&cluster, index).await).filter(|answer| !list(answer, "refused").is_empty())
            })
            .await;
            let [refused] = list(&shown, "refused") else { panic!("more than one refusal: {shown:?}") };
            assert_eq!(refused["cycle"], cycle, "{shown:?}");
            // Both are in UTC and have milliseconds, so the order of the texts is that of the times.
            assert!(refused["at"].as_str() >= Some(shown.string("refused_since")), "{shown:?}");
            assert!(!shown.text.contains("refused_repeatedly"), "once is no problem: {shown:?}");
        }

        refuse().await;
        refuse().await;
        let problem = |answer: &Answer| list(answer, "problems").iter().find(|one| one["check"] == "refused_repeatedly").cloned();
        let found =
            eventually("three refusals are a problem", READY_WITHIN, || async { problem(&overview(&cluster, 1).await) }).await;
        assert_eq!((&found["lock"], &found["severity"]), (&json!("left"), &json!("warning")), "{found}");
        assert!(found["since"].is_string(), "{found}");

        let before = overview(&cluster, 2).await;
        let newest = list(&before, "refused").first().and_then(|refused| refused["at"].as_str()).expect("a refusal");
        cluster.nodes[2].kill().await;
        cluster.nodes[2].start();
        cluster.ready().await;
        let after = overview(&cluster, 2).await;
        assert!(after.string("refused_since") > newest, "{after:?} claims to know what was before its start: {before:?}");
    });
}

#[test]
fn a_lock_that_was_granted_and_released_is_hot_and_the_last_seconds_are_counted() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let queue = async || {
            let call = Call::post("/v1/locks/printer?ttl=60s").with("prefer", "respond-async");
            client.send(&call).await.expect_status(202).string("id").to_owned()
        };
        let first = client.acquire("printer", "ttl=60s").await;
        let second = queue().await;
        queue().await;
        client.acquire("calm", "ttl=60s").await;
        client.release(&first.id).await;
        // It was handed over, and is again.
        client.release(&second).await;
        let hot = eventually("the lock is hot", READY_WITHIN, || async {
            let answer = overview(&cluster, 1).await;
            // The node may have applied the first release only.
            let is_handed_over = list(&answer, "hot").iter().any(|lock| lock["hand_overs_per_minute"] == 1);
            is_handed_over.then_some(answer)
        })
        .await;
        let [printer] = list(&hot, "hot") else { panic!("more than one lock was released: {hot:?}") };
        let figures = ["lock", "grants_per_minute", "hand_overs_per_minute", "queue_length"].map(|name| &printer[name]);
        assert_eq!(figures, [&json!("printer"), &json!(2), &json!(1), &json!(0)], "{hot:?}");
        eventually("a row of the series has the grants", READY_WITHIN, || async {
            let recent = overview(&cluster, 1).await.json["recent"].clone();
            (recent["over"].is_string() && recent["grants"].is_u64()).then_some(())
        })
        .await;
    });
}

#[test]
fn every_node_shows_the_figures_of_every_member_and_which_does_not_answer() {
    run_parallel(SHORT, async {
        let mut cluster = Cluster::start().await;
        let find =
            |answer: &Answer, id: usize| list(answer, "members").iter().find(|one| one["id"] == id).cloned().expect("a member");
        for index in 0..3 {
            let shown = eventually("the node shows the figures of all", READY_WITHIN, || async {
                let shown = overview(&cluster, index).await;
                // A node reads its disk once a second.
                let is_known = |one: &Value| one["reachable"] == true && one["figures"]["disk_free_bytes"].is_u64();
                list(&shown, "members").iter().all(is_known).then_some(shown)
            })
            .await;
            for one in list(&shown, "members") {
                let figures = &one["figures"];
                for name in ["applied_index", "behind", "log_entries", "disk_bytes"] {
                    assert!(figures[name].is_u64(), "{name} of {shown:?}");
                }
                for name in ["as_of", "started_at", "version"] {
                    assert!(figures[name].is_string(), "{name} of {shown:?}");
                }
                if cfg!(target_os = "linux") {
                    assert!(figures["open_files"].as_u64() > Some(0), "{shown:?}");
                }
                let clock = figures["clock_ahead_ms"].as_i64().zip(figures["clock_doubt_ms"].as_u64());
                assert_eq!(clock.is_none(), one["id"] == cluster.nodes[index].id, "{shown:?}");
                // All nodes have the clock of this machine.
                assert!(clock.is_none_or(|(ahead, doubt)| ahead.unsigned_abs() <= doubt), "{shown:?}");
            }
            assert!(list(&shown, "members").iter().any(|one| one["figures"]["behind"] == 0), "{shown:?}");
        }
        cluster.nodes[2].kill().await;
        let killed = cluster.nodes[2].id;
        for index in 0..2 {
            let shown = eventually("the node shows that a member does not answer", READY_WITHIN, || async {
                Some(overview(&cluster, index).await).filter(|shown| find(shown, killed)["reachable"] == false)
            })
            .await;
            let last = find(&shown, killed)["figures"]["as_of"].as_str().expect("it has answered before").to_owned();
            assert!(last.as_str() < shown.string("as_of"), "{shown:?}");
        }
    });
}

#[test]
fn an_owner_that_loses_three_sessions_is_a_problem_for_those_that_may_see_their_locks() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, _) = guarded.enforce().await;
        set_role(&guarded, "watchers", "inspect locks:deploy/**").await;
        guarded.bind("watchers", "user:watcher").await;
        let watcher = guarded.user("watcher").await;
        for lock in ["deploy%2Fa", "deploy%2Fb", "secret"] {
            root.acquire(lock, "ttl=1s&owner=ci-9").await.expect_status(200);
        }
        let problem = async |user: &User| {
            let shown = user.send(Call::get("/v1/overview")).await.expect_status(200);
            list(&shown, "problems").iter().find(|one| one["check"] == "lost_repeatedly").cloned()
        };
        let found = eventually("three lost sessions are a problem", READY_WITHIN, || async { problem(&root).await }).await;
        assert!(found["seen"].as_str().is_some_and(|seen| seen.contains("ci-9 expired in 3 sessions")), "{found}");
        assert!(found["lock"].is_string() && found["since"].is_string(), "{found}");
        assert_eq!(problem(&watcher).await, None, "one of the locks is hidden");
        root.acquire("deploy%2Fc", "ttl=1s&owner=ci-9").await.expect_status(200);
        let found = eventually("the user sees three of the four", READY_WITHIN, || async { problem(&watcher).await }).await;
        assert!(found["seen"].as_str().is_some_and(|seen| seen.contains("3 sessions") && !seen.contains("secret")), "{found}");
    });
}

/// Has a request for `one` refused, because another one waits for `other`.
async fn refuse(root: &User, one: &str, other: &str) {
    let open = async || {
        let opened = root.send(Call::post("/v1/sessions").json(&json!({ "ttl": "60s" }))).await.expect_status(201);
        opened.string("id").to_owned()
    };
    let (alice, bob) = (open().await, open().await);
    root.acquire(one, &format!("session={alice}&owner=alice")).await.expect_status(200);
    root.acquire(other, &format!("session={bob}&owner=bob")).await.expect_status(200);
    let waits = Call::post(&format!("/v1/locks/{other}?session={alice}&owner=alice")).with("prefer", "respond-async");
    root.send(waits).await.expect_status(202);
    root.acquire(one, &format!("session={bob}&owner=bob&wait=60s")).await.expect_problem(409, "would_deadlock");
}

#[test]
fn a_refused_deadlock_is_shown_only_to_callers_that_may_see_all_its_locks() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, _) = guarded.enforce().await;
        let rules = json!({ "rules": ["status cluster", "inspect locks:deploy/**"] });
        guarded.file().send(Call::put("/v1/access/roles/watchers", "").json(&rules)).await.expect_status(200);
        guarded.bind("watchers", "user:watcher").await;
        let watcher = guarded.user("watcher").await;
        refuse(&root, "deploy%2Fa", "deploy%2Fb").await;
        refuse(&root, "deploy%2Fc", "secret").await;
        let look = async |user: &User| user.send(Call::get("/v1/overview")).await.expect_status(200);
        let all = eventually("the node has applied both refusals", READY_WITHIN, || async {
            Some(look(&root).await).filter(|answer| list(answer, "refused").len() == 2)
        })
        .await;
        assert!(all.text.contains("secret"), "{all:?}");
        let some = look(&watcher).await;
        let [refused] = list(&some, "refused") else { panic!("not one refusal: {some:?}") };
        assert!(refused.to_string().contains("deploy/b") && !some.text.contains("secret"), "{some:?}");
    });
}

/// Sends a call to the first node, once: another node shares nothing with it.
async fn ask(user: &User, path: &str) -> Answer {
    user.client.once(&authorized(user, Call::get(path))).await.expect_status(200)
}

async fn set_role(guarded: &Guarded, role: &str, rule: &str) {
    let rules = json!({ "rules": ["status cluster", rule] });
    guarded.file().send(Call::put(&format!("/v1/access/roles/{role}"), "").json(&rules)).await.expect_status(200);
}

#[test]
fn users_that_may_see_the_same_locks_share_an_overview_for_a_second_and_others_do_not() {
    run_parallel(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, _) = guarded.enforce().await;
        let (deploy, stock) = ("inspect locks:deploy/**", "inspect locks:stock/**");
        let mut users = Vec::new();
        for (role, name, rule) in [("watchers", "one", deploy), ("guests", "two", deploy), ("clerks", "three", stock)] {
            set_role(&guarded, role, rule).await;
            guarded.bind(role, &format!("user:{name}")).await;
            users.push(guarded.user(name).await);
        }
        let [one, two, three] = &users[..] else { panic!("three users") };
        root.acquire("deploy%2Fa", "ttl=600s").await.expect_status(200);
        root.acquire("stock%2Fb", "ttl=600s").await.expect_status(200);
        let look = async |user: &User| {
            let shown = ask(user, "/v1/overview").await;
            let sees = (shown.text.contains("deploy/a"), shown.text.contains("stock/b"));
            (sees, shown.string("as_of").to_owned())
        };

        let (begun, mut made) = (Instant::now(), BTreeSet::new());
        for _ in 0..20 {
            for user in [one, two] {
                let (sees, as_of) = look(user).await;
                assert_eq!(sees, (true, false));
                made.insert(as_of);
            }
            assert_eq!(look(three).await.0, (false, true));
            assert_eq!(look(&root).await.0, (true, true));
        }
        // The next one is made a second after the last one was made.
        let most = usize::try_from(begun.elapsed().as_secs()).expect("a short time") + 1;
        assert!(made.len() <= most, "{} overviews were made for two users, at most {most} expected", made.len());

        set_role(&guarded, "watchers", stock).await;
        eventually("the user shares with others", ENDS_WITHIN, || async {
            let (sees, _) = look(one).await;
            assert_ne!(sees, (true, true), "the answer is of one set of rights");
            (sees == (false, true)).then_some(())
        })
        .await;
        assert_eq!(look(two).await.0, (true, false));
    });
}

/// Takes that many locks below `deploy`.
async fn take_locks(user: &User, count: usize) {
    let opened = user.send(Call::post("/v1/sessions").json(&json!({ "ttl": "600s" }))).await.expect_status(201);
    let session = opened.string("id");
    let acquire = |number| json!({ "acquire": { "id": new_key(), "lock": format!("deploy/{number}"), "session": session } });
    let acquires: Vec<Value> = (0..count).map(acquire).collect();
    for some in acquires.chunks(256) {
        let answer = user.send(batch(some)).await.expect_status(200);
        assert!(statuses(&answer).iter().all(|status| *status == 200), "{answer:?}");
    }
}

/// Sends searches of all locks, one after the other, until it is over. Counts the answers.
async fn search(user: User, over: Arc<AtomicBool>, answered: Arc<AtomicUsize>) {
    while !over.load(SeqCst) {
        // It is not of the node's own state, so no answer is shared.
        ask(&user, "/v1/locks?owner=nobody").await;
        answered.fetch_add(1, SeqCst);
    }
}

/// How many searches of the flood are answered while another caller looks at one page.
async fn answered_during_a_page(flooding: &User, other: &User) -> usize {
    take_locks(flooding, 4_096).await;
    let (over, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let start = || tokio::spawn(search(flooding.clone(), Arc::clone(&over), Arc::clone(&answered)));
    let flood = (0..FLOOD).map(|_| start()).collect();
    eventually("the flood is high", READY_WITHIN, || async { (answered.load(SeqCst) >= FLOOD).then_some(()) }).await;
    // Each of them is a walk of its own.
    let pages = ["/v1/overview", "/v1/waits", "/v1/locks?consistency=local&sort=waiters", "/v1/locks?owner=ann"];
    let before = answered.load(SeqCst);
    for page in pages {
        ask(other, page).await;
    }
    let each = (answered.load(SeqCst) - before) / pages.len();
    over.store(true, SeqCst);
    all(flood).await;
    report(&format!("while another caller looked at a page, {each} searches were answered of a flood of {FLOOD} at a time"));
    each
}

#[test]
fn a_flood_of_searches_by_one_user_hardly_delays_the_pages_of_another() {
    run_exclusive(SHORT, async {
        let guarded = Guarded::start().await;
        let (root, ci) = guarded.enforce().await;
        let each = answered_during_a_page(&ci, &root).await;
        assert!(each < FLOOD / 2, "a page waited behind {each} searches of the flood");
    });
}

#[test]
fn a_flood_of_searches_without_credentials_hardly_delays_the_pages_of_another_address() {
    run_exclusive(SHORT, async {
        let cluster = Cluster::start().await;
        // While rights are not enforced, a token that nobody knows is ignored.
        let flooding = User { client: cluster.client(0), token: "unknown".to_owned() };
        let other = User { client: flooding.client.bound_to(IpAddr::from([127, 0, 0, 2])), ..flooding.clone() };
        let each = answered_during_a_page(&flooding, &other).await;
        assert!(each < FLOOD / 2, "a page waited behind {each} searches of the flood");
    });
}
