//! Checks that the description has an example of everything that clients send and receive.

use super::{Describer, calls, document, examples};
use crate::{api::batch, edge::params};
use fairhold_types::{Code, call, dto, election, txn};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// Everything that is described without an example.
fn without_example(document: &Value) -> Vec<String> {
    let mut bare = Vec::new();
    for (path, methods) in fields(&document["paths"]) {
        for (method, operation) in fields(methods) {
            let mut tell = |what: String| bare.push(format!("{method} {path}: {what}"));
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let in_json = &parameter["content"]["application/json"]["example"];
                if parameter["example"].is_null() && in_json.is_null() {
                    tell(format!("the parameter {} in the {}", parameter["name"], parameter["in"]));
                }
            }
            bodies(&operation["requestBody"], document, "the request's body", &mut tell);
            for (status, answer) in fields(&operation["responses"]) {
                bodies(answer, document, &format!("the answer {status}"), &mut tell);
            }
        }
    }
    bare
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn bodies(of: &Value, document: &Value, what: &str, tell: &mut impl FnMut(String)) {
    for (sort, content) in fields(&of["content"]) {
        let shown = shown(content, document);
        if shown.is_empty() || shown.iter().any(|(_, example)| example.is_null()) {
            tell(format!("{what} as {sort}"));
        }
        if sort == "application/problem+json" {
            let codes = content["schema"]["allOf"][1]["properties"]["code"]["enum"].as_array().cloned().unwrap_or_default();
            let is_shown = |code: &&Value| shown.iter().any(|(_, example)| example["code"] == **code);
            codes.iter().filter(|code| !is_shown(code)).for_each(|code| tell(format!("{what} with {code}")));
        }
        if sort == "application/x-ndjson" {
            for kind in kinds(&content["schema"], document) {
                if !shown.iter().any(|(_, example)| kind.is_that_of(example)) {
                    tell(format!("{what} as {sort}: a line {kind:?}"));
                }
            }
            let events = &of["content"]["text/event-stream"];
            let missing = |name: &&String| !events.is_null() && events["examples"][*name].is_null();
            fields(&content["examples"]).map(|(name, _)| name).filter(missing).for_each(|name| tell(format!("an event {name}")));
        }
    }
}

/// The examples of a body, by their names.
fn shown(content: &Value, document: &Value) -> Vec<(String, Value)> {
    let one = content.get("example").map(|example| (String::new(), example.clone()));
    let several = fields(&content["examples"]).map(|(name, example)| {
        let meant = match example["$ref"].as_str() {
            Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null),
            None => example,
        };
        (name.clone(), meant["value"].clone())
    });
    one.into_iter().chain(several).collect()
}

/// A kind of line: its tags, and the fields that it must have.
#[derive(Debug)]
struct LineKind {
    tags: Vec<(String, Value)>,
    required: Vec<String>,
}

impl LineKind {
    fn is_that_of(&self, line: &Value) -> bool {
        self.tags.iter().all(|(name, tag)| line[name] == *tag) && self.required.iter().all(|name| !line[name].is_null())
    }
}

/// The kinds of lines in a schema; none if all lines are of one kind.
fn kinds(schema: &Value, document: &Value) -> Vec<LineKind> {
    let meant = schema["$ref"].as_str().and_then(|reference| document.pointer(reference.trim_start_matches('#')));
    let one_of = meant.unwrap_or(schema)["oneOf"].as_array().cloned().unwrap_or_default();
    let kind = |schema: &Value| LineKind {
        tags: fields(&schema["properties"])
            .filter_map(|(name, field)| Some((name.clone(), field.get("const")?.clone())))
            .collect(),
        required: schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect(),
    };
    one_of.iter().map(kind).collect()
}

/// A call that has everything except examples, to test the check.
fn bare_call() -> Value {
    json!({
        "parameters": [
            { "name": "a", "in": "query", "schema": {} },
            { "name": "b", "in": "path", "schema": {} },
            { "name": "c", "in": "header", "schema": {} },
            { "name": "d", "in": "query", "content": { "application/json": { "schema": {} } } },
        ],
        "requestBody": { "content": { "application/json": { "schema": {} } } },
        "responses": {
            "200": { "content": {
                "application/json": { "schema": {}, "examples": { "x": { "$ref": "#/components/examples/nowhere" } } },
                "application/x-ndjson": {
                    "schema": { "$ref": "#/components/schemas/HoldLine" },
                    "examples": { "alive": { "value": { "event": "alive" } } },
                },
                "text/event-stream": { "schema": {} },
            } },
            "409": { "content": { "application/problem+json": {
                "schema": { "allOf": [{}, { "properties": { "code": { "enum": ["lock_held", "wait_timeout"] } } }] },
                "examples": { "lock_held": { "$ref": "#/components/examples/lock_held" } },
            } } },
        },
    })
}

#[test]
fn every_parameter_body_and_answer_has_an_example() {
    let bare = without_example(&document());
    assert!(bare.is_empty(), "without an example:\n{}", bare.join("\n"));
}

#[test]
fn a_missing_example_is_found() {
    let mut document = document();
    document["paths"]["/v1/planted"] = json!({ "get": bare_call() });
    let bare = without_example(&document).join("\n");
    for what in [
        "the parameter \"a\" in the \"query\"",
        "the parameter \"b\"",
        "the parameter \"c\"",
        "the parameter \"d\"",
        "the request's body as application/json",
        "the answer 200 as application/json",
        "the answer 200 as text/event-stream",
        "an event alive",
        "the answer 409 with \"wait_timeout\"",
        "String(\"held\")",
        "String(\"goaway\")",
    ] {
        assert!(bare.contains(what), "{what} is not in\n{bare}");
    }
    assert!(!bare.contains("lock_held"), "{bare}");
    assert!(bare.lines().all(|line| line.starts_with("get /v1/planted: ")), "{bare}");
}

/// Reads an answer and writes it again.
type RoundTrip = fn(Value) -> Result<Value, serde_json::Error>;

fn round_trip<T: Serialize + DeserializeOwned>(value: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(value)?)
}

/// The function for answers with that schema; none for types that are only written: their examples come from the types.
fn round_trip_of(schema: &str) -> Option<RoundTrip> {
    Some(match schema {
        "AccessStatus" => round_trip::<dto::AccessStatus>,
        "AccessMode" => round_trip::<dto::AccessMode>,
        "WhoAmI" => round_trip::<dto::WhoAmI>,
        "AccessCheck" => round_trip::<dto::AccessCheck>,
        "AuditedAct" => round_trip::<dto::AuditedAct>,
        "RoleList" => round_trip::<dto::RoleList>,
        "RoleEntry" => round_trip::<dto::RoleEntry>,
        "TenantList" => round_trip::<dto::TenantList>,
        "TenantEntry" => round_trip::<dto::TenantEntry>,
        "BindingList" => round_trip::<dto::BindingList>,
        "UserList" => round_trip::<dto::UserList>,
        "UserEntry" => round_trip::<dto::UserEntry>,
        "CreatedAccessToken" => round_trip::<dto::CreatedAccessToken>,
        "AccessTokenEntryPage" => round_trip::<dto::Page<dto::AccessTokenEntry>>,
        "Cluster" => round_trip::<dto::Cluster>,
        "ClusterTiming" => round_trip::<dto::ClusterTiming>,
        "Alarms" => round_trip::<dto::Alarms>,
        "ClusterUpgrade" => round_trip::<dto::ClusterUpgrade>,
        "CreatedJoinToken" => round_trip::<dto::CreatedJoinToken>,
        "Election" => round_trip::<election::Election>,
        "FenceCheck" => round_trip::<dto::FenceCheck>,
        "Grant" => round_trip::<dto::Grant>,
        "Holding" => round_trip::<dto::Holding>,
        "HoldingPage" => round_trip::<dto::Page<dto::Holding>>,
        "JoinTokens" => round_trip::<dto::JoinTokens>,
        "KeptAlive" => round_trip::<dto::KeptAlive>,
        "Leader" => round_trip::<dto::Leader>,
        "ListedElectionPage" => round_trip::<dto::Page<election::ListedElection>>,
        "ListedGrantPage" => round_trip::<dto::Page<dto::ListedGrant>>,
        "ListedLockPage" => round_trip::<dto::Page<dto::ListedLock>>,
        "Lock" => round_trip::<dto::Lock>,
        "LockHistories" => round_trip::<dto::LockHistories>,
        "Members" => round_trip::<dto::Members>,
        "Overview" => round_trip::<dto::Overview>,
        "OverviewSeries" => round_trip::<dto::OverviewSeries>,
        "Waits" => round_trip::<dto::Waits>,
        "OpenedSession" => round_trip::<dto::OpenedSession>,
        "Proclaimed" => round_trip::<election::Proclaimed>,
        "Queue" => round_trip::<dto::Queue>,
        "Readiness" => round_trip::<dto::Readiness>,
        "RenewedGrant" => round_trip::<dto::RenewedGrant>,
        "RenewedSession" => round_trip::<dto::RenewedSession>,
        "Session" => round_trip::<dto::Session>,
        "SessionPage" => round_trip::<dto::Page<dto::Session>>,
        "Settings" => round_trip::<dto::Settings>,
        "SnapshotTaken" => round_trip::<dto::SnapshotTaken>,
        "Stat" => round_trip::<dto::Stat>,
        "StatPage" => round_trip::<dto::Page<dto::Stat>>,
        "stringPage" => round_trip::<dto::Page<String>>,
        "Transacted" => round_trip::<txn::Transacted>,
        "Version" => round_trip::<dto::Version>,
        "Written" => round_trip::<dto::Written>,
        "BatchAnswers" | "ElectionLine" | "HoldLine" | "RecentEvents" | "WatchLine" => return None,
        other => panic!("no type has the schema {other}"),
    })
}

#[test]
fn every_example_answer_matches_its_type() {
    let (document, mut seen) = (document(), 0);
    for (path, method) in fields(&document["paths"]).flat_map(|(path, methods)| fields(methods).map(move |(_, own)| (path, own)))
    {
        for (status, answer) in fields(&method["responses"]) {
            for (sort, content) in fields(&answer["content"]).filter(|(sort, _)| *sort != "application/problem+json") {
                let schemas = content["schema"]["anyOf"].as_array().cloned().unwrap_or_else(|| vec![content["schema"].clone()]);
                let names = schemas.iter().filter_map(|schema| schema["$ref"].as_str()?.rsplit('/').next());
                let readers: Vec<RoundTrip> = names.filter_map(round_trip_of).collect();
                if readers.is_empty() {
                    continue;
                }
                for (name, example) in shown(content, &document) {
                    let is_one = readers.iter().any(|round_trip| round_trip(example.clone()).is_ok_and(|same| same == example));
                    let why: Vec<_> = readers.iter().map(|round_trip| round_trip(example.clone())).collect();
                    assert!(is_one, "{path} {status} {sort} {name}: {example}\nis read as {why:?}");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 30, "{seen}");
}

/// Whether a call accepts that body.
type Accepts = fn(&str) -> bool;

fn accepts<T: DeserializeOwned>(body: &str) -> bool {
    params::parse::<T>(None, body.as_bytes()).is_ok()
}

/// The function that reads the body of a call.
fn reader(operation: &str) -> Accepts {
    match operation {
        "acquire" => accepts::<call::Acquire>,
        "acquireMany" => accepts::<call::AcquireMany>,
        "batch" => |body| batch::read(body.as_bytes()).is_ok_and(|calls| calls.len() == 3),
        "renewGrant" => accepts::<call::Renew>,
        "upgradeGrant" => accepts::<call::Upgrade>,
        "stand" => accepts::<call::Stand>,
        "proclaim" => accepts::<call::Proclaim>,
        "setLock" => accepts::<call::SetLock>,
        "revokeLock" => accepts::<call::RevokeLock>,
        "openSession" => accepts::<call::OpenSession>,
        "keepAliveMany" => accepts::<call::KeepAliveMany>,
        "handOver" => accepts::<call::HandOver>,
        "createJoinToken" => accepts::<call::CreateJoinToken>,
        "setMember" => accepts::<call::SetMember>,
        "setSettings" => accepts::<call::SetSettings>,
        "finalizeUpgrade" => accepts::<call::FinalizeUpgrade>,
        "checkAccess" => accepts::<call::CheckAccess>,
        "createAccessToken" => accepts::<call::CreateAccessToken>,
        "putRole" => accepts::<call::PutRole>,
        "putTenant" => accepts::<call::PutTenant>,
        "setUser" => accepts::<call::SetUser>,
        "downgradeGrant" | "keepAlive" | "takeSnapshot" => accepts::<call::Empty>,
        "transact" => |body| serde_json::from_str::<txn::Transaction>(body).is_ok(),
        other => panic!("no function reads the body of {other}"),
    }
}

#[test]
fn every_example_body_is_accepted_by_its_call() {
    for operation in calls(&mut Describer::new()) {
        let body = &operation.value["requestBody"]["content"]["application/json"]["example"];
        let id = operation.value["operationId"].as_str().unwrap();
        if !body.is_null() {
            let text = body.to_string();
            assert!(reader(id)(&text), "{id}: {text}");
        }
    }
}

#[test]
fn each_code_has_an_example_with_its_name_and_a_detail() {
    for code in Code::ALL {
        let example = super::problems::example_json(crate::edge::problem::status_of(*code), *code);
        let fields: &Map<String, Value> = example.as_object().unwrap();
        assert_eq!(fields["code"], code.as_str());
        assert!(fields["detail"].as_str().is_some_and(|detail| detail.len() > 10), "{example}");
    }
    assert_eq!(examples::usual("nothing"), Value::Null);
}
