//! Users that use locks and nodes while an administrator takes their rights and their tokens, and gives them back.
//!
//! They keep using what they lost: nothing that needs it may succeed.

use super::{
    Keys,
    locks::{SLEEP, pause},
};
use crate::{
    access::{bind, put_role, set_user, unbind},
    client::{AcquireOptions, ChaosClient, ChaosUser, RightsChange},
    history::{Call, Right},
    http::Request,
    workload::Workload,
};
use rand::RngExt;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The role with the rights on locks, which all users have.
const LOCKS_ROLE: &str = "access-change-locks";
const LOCKS_RULES: &[&str] = &["acquire,fence,inspect locks:*"];
/// Each user has its own role with the rights on nodes.
const NODES_RULES: &[&str] = &["read,write nodes:chaos", "read,write nodes:chaos/**"];
const READ_RULES: &[&str] = &["read nodes:chaos", "read nodes:chaos/**"];
/// The subtree that the users write, read and watch.
const TREE: &str = "access-change-tree";
/// How long a user waits for a lock.
const WAIT: Duration = Duration::from_millis(700);
/// How long a right is lost when it is lost for long: for longer than a server that is cut off may serve by old rights.
const LONG: Duration = Duration::from_secs(10);
/// One loss in this many lasts long.
const LONG_ONE_IN: u32 = 8;
/// A user waits this long for its first token, and after a refused watch.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// The clients of a user: it acts twice at a time, watches, and an administrator changes its rights.
#[derive(Debug)]
pub(super) struct UserClients {
    pub(super) acts: [ChaosClient; 2],
    pub(super) watches: ChaosClient,
    pub(super) administrator: ChaosClient,
}

/// The keys of the nodes that all users share.
pub(super) fn node_keys(of: u64) -> Keys {
    Keys::new(format!("{TREE}/n"), of)
}

pub(super) async fn run(clients: UserClients, locks: Arc<Keys>, nodes: Arc<Keys>, number: u64) {
    let user = Arc::new(ChaosUser::new(number, format!("{}-{number}", Workload::AccessChange.name())));
    let UserClients { acts: [one, other], watches, administrator } = clients;
    tokio::join!(
        administrate(administrator, Arc::clone(&user)),
        act(one.of_user(&user), Arc::clone(&user), Arc::clone(&locks), Arc::clone(&nodes)),
        act(other.of_user(&user), Arc::clone(&user), locks, nodes),
        watch(watches.of_user(&user), Arc::clone(&user)),
    );
}

async fn has_token(client: &ChaosClient, user: &ChaosUser) {
    while user.credential().is_none() && !client.is_over() {
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

async fn act(mut client: ChaosClient, user: Arc<ChaosUser>, locks: Arc<Keys>, nodes: Arc<Keys>) {
    has_token(&client, &user).await;
    while !client.is_over() {
        match client.random.random_range(0..10) {
            0..=2 => hold(&mut client, locks.next()).await,
            3 | 4 => drop(client.read(&format!("chaos/{}", nodes.next())).await),
            5 | 6 => client.read_local(&format!("chaos/{}", nodes.next())).await,
            7 | 8 => drop(client.write(&format!("chaos/{}", nodes.next()), None).await),
            _cas => {
                let key = format!("chaos/{}", nodes.current());
                if let Some((Some(version), _)) = client.read(&key).await {
                    client.write(&key, Some(version)).await;
                }
            }
        }
        pause(&mut client, 20).await;
    }
}

/// Holds a lock for a while, whatever happens to its rights meanwhile.
async fn hold(client: &mut ChaosClient, key: String) {
    let Some(mut held) = client.acquire(&AcquireOptions { key, wait: WAIT, ..AcquireOptions::default() }).await else { return };
    for _ in 0..client.random.random_range(1..=3) {
        client.write_fenced(&held).await;
        pause(client, 20).await;
        client.renew(&mut held).await;
    }
    if client.random.random_range(0..1_000) < client.shared.sleepers {
        tokio::time::sleep(SLEEP).await;
    }
    client.release(&held).await;
}

async fn watch(mut client: ChaosClient, user: Arc<ChaosUser>) {
    has_token(&client, &user).await;
    while !client.is_over() {
        client.watch(TREE).await;
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// Gives the user its rights, and then takes one after the other and gives it back.
async fn administrate(mut client: ChaosClient, user: Arc<ChaosUser>) {
    let nodes_role = format!("access-change-nodes-{}", user.number);
    let begin = [
        (put_role(LOCKS_ROLE, LOCKS_RULES), Vec::new()),
        (bind(LOCKS_ROLE, &user.name), vec![Right::Locks]),
        (put_role(&nodes_role, NODES_RULES), Vec::new()),
        (bind(&nodes_role, &user.name), vec![Right::Read, Right::Write]),
    ];
    for (request, rights) in begin {
        change(&mut client, &user, Call::Widen, "prepare", rights, request).await;
    }
    client.give_token(&user).await;
    while !client.is_over() {
        pause_between(&mut client, 200, 900).await;
        take_and_give(&mut client, &user, &nodes_role).await;
    }
}

async fn take_and_give(client: &mut ChaosClient, user: &ChaosUser, nodes_role: &str) {
    let name = &user.name;
    let nodes = || vec![Right::Read, Right::Write];
    match client.random.random_range(0..5) {
        0 => {
            change(client, user, Call::Narrow, "unbind", vec![Right::Locks], unbind(LOCKS_ROLE, name)).await;
            without_right(client).await;
            change(client, user, Call::Widen, "bind", vec![Right::Locks], bind(LOCKS_ROLE, name)).await;
        }
        1 => {
            change(client, user, Call::Narrow, "unbind", nodes(), unbind(nodes_role, name)).await;
            without_right(client).await;
            change(client, user, Call::Widen, "bind", nodes(), bind(nodes_role, name)).await;
        }
        2 => {
            let narrowed = put_role(nodes_role, READ_RULES);
            change(client, user, Call::Narrow, "narrow the role", vec![Right::Write], narrowed).await;
            without_right(client).await;
            let widened = put_role(nodes_role, NODES_RULES);
            change(client, user, Call::Widen, "widen the role", vec![Right::Write], widened).await;
        }
        3 => {
            let Some(credential) = user.credential() else { return };
            let revoke = Request::delete(format!("/v1/access/tokens/{}", credential.number));
            end_token(client, user, "revoke the token", credential.number, revoke).await;
            without_right(client).await;
            client.give_token(user).await;
        }
        _disable => {
            let Some(credential) = user.credential() else { return };
            end_token(client, user, "disable the user", credential.number, set_user(name, true)).await;
            without_right(client).await;
            change(client, user, Call::Widen, "enable the user", Vec::new(), set_user(name, false)).await;
            client.give_token(user).await;
        }
    }
}

async fn change(
    client: &mut ChaosClient,
    user: &ChaosUser,
    call: Call,
    what: &'static str,
    rights: Vec<Right>,
    request: Request,
) {
    client.change_rights(call, user, &RightsChange { what, rights, credential: None }, request).await;
}

async fn end_token(client: &mut ChaosClient, user: &ChaosUser, what: &'static str, number: u64, request: Request) {
    let ended = RightsChange { what, rights: Vec::new(), credential: Some(number) };
    client.change_rights(Call::Narrow, user, &ended, request).await;
}

/// Leaves the user without the right for a while: mostly shortly, so that there are many changes.
async fn without_right(client: &mut ChaosClient) {
    if client.random.random_range(0..LONG_ONE_IN) > 0 {
        return pause_between(client, 100, 700).await;
    }
    let began = Instant::now();
    while began.elapsed() < LONG && !client.is_over() {
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

async fn pause_between(client: &mut ChaosClient, least: u64, most: u64) {
    let length = client.random.random_range(least..=most);
    tokio::time::sleep(Duration::from_millis(length)).await;
}
