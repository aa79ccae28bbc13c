//! One row for each changing call: the first attempt, and how its caller undoes it.

use crate::client::{Answer, Call, Client, Grant, Session, new_key};
use serde_json::json;
use std::fmt;

/// What a caller does after an answer.
type Undo = Box<dyn Fn(&Answer) -> Vec<Call>>;

/// How a call is tested.
pub(crate) struct Row {
    /// `METHOD path`, as the description has it.
    pub(crate) route: String,
    /// Its operation id in the description.
    pub(crate) operation: String,
    /// The request, which is sent twice.
    pub(crate) first: Call,
    /// The status of its answer.
    pub(crate) done: u16,
    /// The status if it is repeated at once.
    pub(crate) again: u16,
    /// The answer to another request with its key.
    pub(crate) other: Other,
    /// The calls with which the caller undoes it, given its answer.
    pub(crate) undo: Undo,
    /// For the page: what the request did, and what the caller did next.
    pub(crate) words: (&'static str, &'static str),
}

/// The answer to another request with the same key.
pub(crate) enum Other {
    /// The request is refused.
    Refused(Call),
    /// The request is refused, within the answer of a batch.
    Within(Call),
    /// There is no such request, for this reason.
    None(&'static str),
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Other::Refused(_) => f.write_str("`422`"),
            Other::Within(_) => f.write_str("`422` within the answer"),
            Other::None(reason) => f.write_str(reason),
        }
    }
}

/// The clients and nodes with which all rows are tested.
pub(crate) struct Stage {
    client: Client,
    session: Session,
    leader: usize,
    other: usize,
}

const TTL: &str = "10m";
const ID_IS_KEY: &str = "the id in the path is the key";

impl Stage {
    pub(crate) async fn new(client: &Client, leader: usize, other: usize) -> Stage {
        let session = client.open_session(TTL, "stage").await;
        Stage { client: client.clone(), session, leader, other }
    }

    /// The row of a call, with all its preconditions already set up.
    pub(crate) async fn row(&self, route: &str, operation: &str) -> Row {
        let row = match operation {
            "acquire" | "acquireMany" | "batch" | "stand" => self.of_acquiring(operation),
            "releaseGrant" | "renewGrant" | "downgradeGrant" | "upgradeGrant" => self.of_grants(operation).await,
            "proclaim" | "setLock" | "breakLock" | "revokeLock" => self.of_locks(operation).await,
            "putNode" | "deleteNode" | "createSequential" | "putRoot" | "deleteRoot" | "createInRoot" | "transact" => {
                self.of_nodes(operation).await
            }
            "openSession" | "endSession" | "keepAlive" | "keepAliveMany" => self.of_sessions(operation).await,
            "handOver" | "takeSnapshot" | "finalizeUpgrade" => self.of_the_cluster(operation),
            "createJoinToken" | "revokeJoinToken" | "setMember" | "removeMember" | "setSettings" => {
                self.of_members(operation).await
            }
            "enableAccess" | "disableAccess" | "checkAccess" => Stage::of_the_switch(operation),
            "putRole" | "deleteRole" | "bindRole" | "unbindRole" => self.of_roles(operation).await,
            "putTenant" | "deleteTenant" => self.of_tenants(operation).await,
            "createAccessToken" | "revokeAccessToken" | "setUser" => self.of_users(operation).await,
            _ => panic!("{route} ({operation}) has no row: add how its first try arrives late, and how its caller undoes it"),
        };
        Row { route: route.to_owned(), operation: operation.to_owned(), ..row }
    }

    /// Holds a lock in the session.
    async fn hold(&self, lock: &str, more: &str) -> Grant {
        self.client.acquire(lock, &format!("session={}{more}", self.session.id)).await
    }

    fn of_acquiring(&self, operation: &str) -> Row {
        let (key, session) = (new_key(), &self.session.id);
        let batch = |lock: &str| {
            let call = json!({ "acquire": { "id": key, "lock": lock, "session": session } });
            Call::post("/v1/batch").json(&json!({ "calls": [call] }))
        };
        let post = |path: String| Call::post(&path).key(&key);
        let many = |name: &str| post("/v1/locks".to_owned()).json(&json!({ "locks": [{ "name": name }], "session": session }));
        let (first, other) = match operation {
            "batch" => (batch("batch"), Other::Within(batch("batch-other"))),
            "acquireMany" => (many("many"), Other::Refused(many("many-other"))),
            "stand" => {
                let stand = |election: &str| post(format!("/v1/elections/{election}?session={session}&value=a"));
                (stand("stand"), Other::Refused(stand("stand-other")))
            }
            _ => {
                let take = |lock: &str| post(format!("/v1/locks/{lock}?session={session}"));
                (take("taken"), Other::Refused(take("taken-other")))
            }
        };
        let release = Call::delete(&format!("/v1/grants/{key}?session={session}"));
        row(first, 200, other, vec![release], ("acquired a grant", "released it"))
    }

    async fn of_grants(&self, operation: &str) -> Row {
        let of = |grant: &Grant, what: &str| format!("/v1/grants/{}{what}", grant.id);
        match operation {
            "releaseGrant" => {
                let held = self.hold("released", "").await;
                let again = Call::post(&format!("/v1/locks/released?session={}", self.session.id));
                let words = ("released a grant", "acquired the lock again, in the same session");
                row(Call::delete(&of(&held, "")), 204, Other::None(ID_IS_KEY), vec![again], words)
            }
            "renewGrant" => {
                let held = self.client.acquire("renewed", "ttl=10m").await;
                let renew = |ttl: &str| Call::post(&of(&held, "/renew")).json(&json!({ "ttl": ttl }));
                let key = new_key();
                let other = Other::Refused(renew("31m").key(&key));
                let words = ("renewed a grant with another `ttl`", "renewed it with a third `ttl`");
                row(renew("20m").key(&key), 200, other, vec![renew("15m")], words)
            }
            change => {
                let (mode, back, lock) = match change {
                    "downgradeGrant" => ("", "upgrade", "downgraded"),
                    _ => ("&mode=shared", "downgrade", "upgraded"),
                };
                let there = if back == "upgrade" { "/downgrade" } else { "/upgrade" };
                let (held, another) = (self.hold(lock, mode).await, self.hold(&format!("{lock}-other"), mode).await);
                let key = new_key();
                let other = Other::Refused(Call::post(&of(&another, there)).key(&key));
                let undo = vec![Call::post(&of(&held, &format!("/{back}")))];
                let words = match back {
                    "upgrade" => ("made an exclusive grant shared", "made it exclusive again"),
                    _ => ("made a shared grant exclusive", "made it shared again"),
                };
                row(Call::post(&of(&held, there)).key(&key), 200, other, undo, words)
            }
        }
    }

    async fn of_locks(&self, operation: &str) -> Row {
        let key = new_key();
        let session = &self.session.id;
        match operation {
            "proclaim" => {
                let stands = Call::post(&format!("/v1/elections/proclaims?session={session}&value=0"));
                let leads = self.client.acquire_with(&stands).await;
                let proclaim = |value: &str| Call::put(&format!("/v1/elections/proclaims?grant={}&value={value}", leads.id), "");
                let other = Other::Refused(proclaim("c").key(&key));
                row(proclaim("a").key(&key), 200, other, vec![proclaim("b")], ("proclaimed a value", "proclaimed another one"))
            }
            "setLock" => {
                let set = |limit: u64| Call::patch("/v1/locks/set").json(&json!({ "limit": limit }));
                let other = Other::Refused(set(4).key(&key));
                row(set(5).key(&key), 200, other, vec![set(2)], ("set a limit", "set another one"))
            }
            "breakLock" => {
                self.hold("broken", "").await;
                let broken = |reason: &str| Call::delete(&format!("/v1/locks/broken/holders?reason={reason}")).key(&key);
                let again = Call::post(&format!("/v1/locks/broken?session={session}"));
                let words = ("broke a lock", "let another grant hold it");
                row(broken("a"), 204, Other::Refused(broken("b")), vec![again], words)
            }
            _ => {
                let held = self.hold("revoked", "").await;
                let revoke = |reason: &str| Call::post(&format!("/v1/locks/revoked/holders/revoke?reason={reason}")).key(&key);
                let release = Call::delete(&format!("/v1/grants/{}", held.id));
                let again = Call::post(&format!("/v1/locks/revoked?session={session}"));
                let words = ("asked the holder to release the lock", "let another grant hold it");
                row(revoke("a"), 202, Other::Refused(revoke("b")), vec![release, again], words)
            }
        }
    }

    async fn of_nodes(&self, operation: &str) -> Row {
        let key = new_key();
        let put = |path: &str, value: &str| Call::put(&format!("/v1/nodes/{path}"), value.to_owned());
        match operation {
            "putNode" => {
                let other = Other::Refused(put("put", "c").key(&key));
                row(put("put", "a").key(&key), 201, other, vec![put("put", "b")], ("wrote a node", "wrote it again"))
            }
            "putRoot" => {
                let other = Other::Refused(put("", "c").key(&key));
                row(put("", "a").key(&key), 200, other, vec![put("", "b")], ("wrote the root", "wrote it again"))
            }
            "deleteNode" => {
                self.client.write(&put("deleted", "a")).await;
                self.client.write(&put("deleted-other", "a")).await;
                let delete = |path: &str| Call::delete(&format!("/v1/nodes/{path}")).key(&key);
                let other = Other::Refused(delete("deleted-other"));
                let words = ("deleted a node", "created it again");
                row(delete("deleted"), 204, other, vec![put("deleted", "b")], words)
            }
            "deleteRoot" => {
                let words = ("was refused: the root stays", "nothing");
                row(Call::delete("/v1/nodes/").key(&key), 403, Other::None("it changes nothing"), vec![], words)
            }
            "transact" => {
                let write = |value: &str| {
                    let put = json!({ "put": { "path": "/transacted", "value": value } });
                    Call::post("/v1/txn").json(&json!({ "then": [put] }))
                };
                let other = Other::Refused(write("c").key(&key));
                row(write("a").key(&key), 200, other, vec![write("b")], ("wrote in a transaction", "wrote again in another one"))
            }
            sequential => {
                let parent = if sequential == "createInRoot" { "" } else { "parent" };
                if !parent.is_empty() {
                    self.client.write(&put(parent, "")).await;
                }
                let create = |name: &str| Call::post(&format!("/v1/nodes/{parent}?sequential&name={name}")).key(&key);
                let delete = |answer: &Answer| vec![Call::delete(&format!("/v1/nodes{}", answer.string("path")))];
                let words = ("created a node with a number", "deleted it");
                let row = row(create("a-"), 201, Other::Refused(create("b-")), vec![], words);
                Row { undo: Box::new(delete), ..row }
            }
        }
    }

    async fn of_sessions(&self, operation: &str) -> Row {
        if operation == "openSession" {
            let key = new_key();
            let open = |name: &str| Call::post("/v1/sessions").json(&json!({ "ttl": TTL, "name": name })).key(&key);
            let close = |answer: &Answer| vec![Call::delete(&format!("/v1/sessions/{}", answer.string("id")))];
            let row = row(open("a"), 201, Other::Refused(open("b")), vec![], ("opened a session", "closed it"));
            return Row { undo: Box::new(close), ..row };
        }
        let session = self.client.open_session(TTL, operation).await;
        let close = Call::delete(&format!("/v1/sessions/{}", session.id));
        match operation {
            "endSession" => {
                let open = Call::post("/v1/sessions").json(&json!({ "ttl": TTL }));
                let row = row(close, 204, Other::None(ID_IS_KEY), vec![open], ("closed a session", "opened another one"));
                Row { again: 404, ..row }
            }
            "keepAlive" => {
                let keep = Call::post(&format!("/v1/sessions/{}/keepalive", session.id));
                row(keep, 200, Other::None("a keepalive is not remembered"), vec![close], ("kept a session alive", "closed it"))
            }
            _ => {
                let keep = Call::post("/v1/sessions/keepalive").json(&json!({ "ids": [session.id] }));
                row(keep, 200, Other::None("a keepalive is not remembered"), vec![close], ("kept sessions alive", "closed one"))
            }
        }
    }

    async fn of_members(&self, operation: &str) -> Row {
        let key = new_key();
        let create = |ttl: &str| Call::post("/v1/cluster/join-tokens").json(&json!({ "ttl": ttl }));
        let revoke = |answer: &Answer| Call::delete(&format!("/v1/cluster/join-tokens/{}", answer.number("number")));
        match operation {
            "createJoinToken" => {
                let other = Other::Refused(create("2h").key(&key));
                let row = row(create("1h").key(&key), 201, other, vec![], ("created a join token", "revoked it"));
                Row { undo: Box::new(move |answer: &Answer| vec![revoke(answer)]), ..row }
            }
            "revokeJoinToken" => {
                let created = self.client.send(&create("1h")).await.expect_status(201);
                let words = ("revoked a join token", "created another one");
                row(revoke(&created), 204, Other::None("the number in the path is the key"), vec![create("3h")], words)
            }
            "setMember" => {
                let set = |zone: &str| Call::patch(&format!("/v1/cluster/members/{}", self.other)).json(&json!({ "zone": zone }));
                let other = Other::Refused(set("c").key(&key));
                row(set("a").key(&key), 200, other, vec![set("b")], ("set the zone of a member", "set another one"))
            }
            "removeMember" => {
                let words = ("was refused: there is no such member", "nothing");
                let no_member = Call::delete("/v1/cluster/members/99");
                row(no_member, 404, Other::None("the id in the path is the key: no node gets it again"), vec![], words)
            }
            _ => {
                let set = |timing: &str| Call::patch("/v1/cluster/settings").json(&json!({ "timing": timing, "force": true }));
                let other = Other::Refused(set("wan").key(&key));
                row(set("metro").key(&key), 200, other, vec![set("lan")], ("set the timing profile", "set another one"))
            }
        }
    }

    /// Once rights are enforced, these callers could not go on. So the switch is refused: there is no administrator.
    fn of_the_switch(operation: &str) -> Row {
        let nothing = || Other::None("it changes nothing");
        match operation {
            "checkAccess" => {
                let check = Call::post("/v1/access/check").json(&json!({ "verb": "acquire", "on": "locks:a" }));
                row(check, 200, nothing(), vec![], ("checked a right", "nothing"))
            }
            "enableAccess" => {
                let words = ("was refused: nobody could change the access data", "nothing");
                row(Call::post("/v1/access/enable"), 409, nothing(), vec![], words)
            }
            _ => {
                let words = ("was refused: only an administrator by a file may do it", "nothing");
                row(Call::post("/v1/access/disable"), 403, nothing(), vec![], words)
            }
        }
    }

    async fn of_roles(&self, operation: &str) -> Row {
        let key = new_key();
        let put = |role: &str, rule: &str| Call::put(&format!("/v1/access/roles/{role}"), "").json(&json!({ "rules": [rule] }));
        let binding = |subject: &str| format!("/v1/access/bindings/viewer/{subject}");
        match operation {
            "putRole" => {
                let other = Other::Refused(put("put", "share locks:c").key(&key));
                let undo = vec![put("put", "share locks:b")];
                row(put("put", "share locks:a").key(&key), 200, other, undo, ("put a role", "put it with other rules"))
            }
            "deleteRole" => {
                for role in ["deleted", "deleted-other"] {
                    self.client.send(&put(role, "share locks:a")).await.expect_status(200);
                }
                let delete = |role: &str| Call::delete(&format!("/v1/access/roles/{role}")).key(&key);
                let undo = vec![put("deleted", "share locks:b")];
                row(delete("deleted"), 204, Other::Refused(delete("deleted-other")), undo, ("deleted a role", "created it again"))
            }
            "bindRole" => {
                let bind = |subject: &str| Call::put(&binding(subject), "").key(&key);
                let undo = vec![Call::delete(&binding("user:bound"))];
                let other = Other::Refused(bind("user:bound-other"));
                row(bind("user:bound"), 204, other, undo, ("gave a role to a subject", "took it away"))
            }
            _ => {
                self.client.send(&Call::put(&binding("user:unbound"), "")).await.expect_status(204);
                let unbind = |subject: &str| Call::delete(&binding(subject)).key(&key);
                let undo = vec![Call::put(&binding("user:unbound"), "")];
                let other = Other::Refused(unbind("user:unbound-other"));
                row(unbind("user:unbound"), 204, other, undo, ("took a role from a subject", "gave it back"))
            }
        }
    }

    async fn of_tenants(&self, operation: &str) -> Row {
        let key = new_key();
        let put = |tenant: &str, nodes: u64| {
            let body = json!({ "prefixes": [format!("nodes:of-{tenant}/**")], "nodes": nodes });
            Call::put(&format!("/v1/access/tenants/{tenant}"), "").json(&body)
        };
        if operation == "putTenant" {
            let other = Other::Refused(put("put", 3).key(&key));
            return row(put("put", 1).key(&key), 200, other, vec![put("put", 2)], ("put a tenant", "put it with another quota"));
        }
        for tenant in ["deleted", "deleted-other"] {
            self.client.send(&put(tenant, 1)).await.expect_status(200);
        }
        let delete = |tenant: &str| Call::delete(&format!("/v1/access/tenants/{tenant}")).key(&key);
        let words = ("deleted a tenant", "created it again");
        row(delete("deleted"), 204, Other::Refused(delete("deleted-other")), vec![put("deleted", 2)], words)
    }

    async fn of_users(&self, operation: &str) -> Row {
        let key = new_key();
        let create =
            |user: &str, digit: &str| Call::post("/v1/access/tokens").json(&json!({ "user": user, "hash": digit.repeat(64) }));
        let revoke = |answer: &Answer| Call::delete(&format!("/v1/access/tokens/{}", answer.number("number")));
        match operation {
            "createAccessToken" => {
                let other = Other::Refused(create("another", "a").key(&key));
                let row = row(create("a", "a").key(&key), 201, other, vec![], ("created a token", "revoked it"));
                Row { undo: Box::new(move |answer: &Answer| vec![revoke(answer)]), ..row }
            }
            "revokeAccessToken" => {
                let created = self.client.send(&create("b", "b")).await.expect_status(201);
                let words = ("revoked a token", "created another one");
                row(revoke(&created), 204, Other::None("the number in the path is the key"), vec![create("b", "c")], words)
            }
            _ => {
                let set = |disabled: bool| Call::put("/v1/access/users/set", "").json(&json!({ "disabled": disabled }));
                let other = Other::Refused(set(false).key(&key));
                row(set(true).key(&key), 200, other, vec![set(false)], ("disabled a user", "enabled it again"))
            }
        }
    }

    fn of_the_cluster(&self, operation: &str) -> Row {
        if operation == "takeSnapshot" {
            let words = ("took a snapshot of one server", "nothing: the state is the same");
            return row(Call::post("/v1/cluster/snapshot"), 200, Other::None("there is only one such request"), vec![], words);
        }
        if operation == "finalizeUpgrade" {
            let words = ("raised the cluster's version", "nothing: the version never falls");
            let finalize = Call::post("/v1/cluster/upgrade/finalize").json(&json!({ "to": 2 }));
            return row(finalize, 200, Other::None("a repeated request does nothing"), vec![], words);
        }
        let key = new_key();
        let lead = |id: usize| Call::post("/v1/cluster/leader").json(&json!({ "to": id }));
        let other = Other::Refused(lead(self.leader).key(&key));
        let words = ("handed the leadership over", "handed it back");
        row(lead(self.other).key(&key), 200, other, vec![lead(self.leader)], words)
    }
}

fn row(first: Call, done: u16, other: Other, undo: Vec<Call>, words: (&'static str, &'static str)) -> Row {
    let undo = Box::new(move |_: &Answer| undo.clone());
    Row { route: String::new(), operation: String::new(), first, done, again: done, other, undo, words }
}
