//! Each example in the description of the API is sent to a cluster: all of them are valid requests.

use crate::{
    client::{Call, new_key},
    harness::{Cluster, LONG, report, run_parallel},
};
use reqwest::{Client, Method, redirect::Policy};
use serde_json::{Map, Value};
use std::{fs, time::Duration};

/// An invalid request is refused at once; a request that still waits after this time is valid.
const REFUSED_WITHIN: Duration = Duration::from_secs(2);
/// After this many writes, the revisions in the examples are in the past.
const WRITES: usize = 60;
/// The locks of the examples, which would stay held from one request to the next.
const LOCKS: [&str; 3] = ["orders%2F42", "stock", "primary"];

/// A parameter without which this option has no meaning.
fn companion(operation: &str, name: &str) -> &'static str {
    match (operation, name) {
        ("acquire", "permits") => "limit=5",
        ("createJoinToken", "up_to") => "standing=true",
        ("watch", "recursive" | "children") => "path=%2Fjobs",
        ("getNode" | "getRoot", "limit" | "cursor") => "children",
        (_, "wait") if operation.starts_with("get") && operation != "getGrant" => "after=1",
        _ => "",
    }
}

/// Whether a call accepts only one of an option and a field of its body.
fn excludes(operation: &str, option: &str, field: &str) -> bool {
    match (operation, option) {
        ("createJoinToken", "standing" | "up_to") => matches!(field, "ttl" | "replaces"),
        ("setMember", "voter") => true,
        _ => false,
    }
}

struct Case {
    method: Method,
    target: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
    about: String,
}

fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// The form in a query or a header.
fn text(example: &Value) -> String {
    example.as_str().map_or_else(|| example.to_string(), str::to_owned)
}

fn example(parameter: &Value) -> &Value {
    if parameter["example"].is_null() { &parameter["content"]["application/json"]["example"] } else { &parameter["example"] }
}

/// A case for each option of a call alone, and one for its body.
fn cases(path: &str, method: &str, operation: &Value) -> Vec<Case> {
    let id = operation["operationId"].as_str().expect("a name");
    let parameters: Vec<&Value> = operation["parameters"].as_array().into_iter().flatten().collect();
    let mut target = path.to_owned();
    for parameter in parameters.iter().filter(|parameter| parameter["in"] == "path") {
        let value = text(example(parameter));
        // Slashes in a node's path stay as they are.
        let value = if parameter["name"] == "path" { value } else { encode(&value) };
        target = target.replace(&format!("{{{}}}", parameter["name"].as_str().expect("a name")), &value);
    }
    let pair =
        |parameter: &Value| format!("{}={}", parameter["name"].as_str().expect("a name"), encode(&text(example(parameter))));
    let needed: Vec<&Value> = parameters.iter().filter(|one| one["in"] == "query" && one["required"] == true).copied().collect();
    let content = &operation["requestBody"]["content"];
    let json = content["application/json"]["example"].as_object();
    let raw = content["application/octet-stream"]["example"].as_str();
    let body = |without: &str| match json {
        Some(fields) => {
            let rest = fields.iter().filter(|(name, _)| *name != without && !excludes(id, without, name));
            let rest: Map<String, Value> = rest.map(|(a, b)| (a.clone(), b.clone())).collect();
            Some(Value::Object(rest).to_string().into_bytes())
        }
        None => raw.map(|raw| raw.as_bytes().to_vec()),
    };
    let case = |name: &str, own: Option<&Value>| {
        let is_query = own.is_some_and(|own| own["in"] == "query");
        let mut query: Vec<String> = needed.iter().filter(|one| one["name"] != name).map(|one| pair(one)).collect();
        query.extend(own.filter(|_| is_query).map(pair));
        query.extend(Some(companion(id, name).to_owned()).filter(|more| !more.is_empty()));
        let mut headers: Vec<(String, String)> =
            own.filter(|_| !is_query).map(|own| (name.to_owned(), text(example(own)))).into_iter().collect();
        headers.extend(json.map(|_| ("content-type".to_owned(), "application/json".to_owned())));
        // For elections, only a stream continues after a revision.
        headers
            .extend(matches!(name, "from" | "Last-Event-ID").then(|| ("accept".to_owned(), "application/x-ndjson".to_owned())));
        let mark = if query.is_empty() { "" } else { "?" };
        Case {
            method: method.to_uppercase().parse().expect("a method"),
            target: format!("{target}{mark}{}", query.join("&")),
            headers,
            body: body(name),
            about: format!("{id}: {}", if name.is_empty() { "its body" } else { name }),
        }
    };
    let options = parameters.iter().filter(|parameter| parameter["in"] != "path");
    let mut cases: Vec<Case> = options.map(|own| case(own["name"].as_str().expect("a name"), Some(own))).collect();
    cases.push(case("", None));
    cases
}

/// Why the answer differs from the description, if it does.
async fn complaint(http: &Client, url: &str, case: Case, answers: &Value) -> Option<String> {
    let mut request = http.request(case.method.clone(), format!("{url}{}", case.target));
    for (name, value) in &case.headers {
        request = request.header(name, value);
    }
    if let Some(body) = case.body {
        request = request.body(body);
    }
    let Ok(sent) = tokio::time::timeout(REFUSED_WITHIN, request.send()).await else { return None };
    let response = sent.expect("the cluster answers");
    let status = response.status().as_u16();
    let is_described = !answers[status.to_string()].is_null();
    if is_described && status != 400 {
        return None;
    }
    let body = response.text().await.unwrap_or_default();
    Some(format!("{}: {} {} is answered with {status}: {body}", case.about, case.method, case.target))
}

#[test]
fn every_example_in_the_api_description_is_a_valid_request() {
    run_parallel(LONG, async {
        let path = "../../proto/openapi.json";
        let description: Value = serde_json::from_str(&fs::read_to_string(path).expect("it is there")).expect("JSON");
        let cluster = Cluster::start().await;
        cluster.expect_elections(1, "one of the examples requests another leader");
        let client = cluster.client(0);
        for _ in 0..WRITES {
            client.write(&Call::put("/v1/nodes/jobs", "")).await;
        }
        let http = Client::builder().no_proxy().redirect(Policy::none()).build().expect("a client");
        let (mut complaints, mut asked) = (Vec::new(), 0);
        for (path, methods) in description["paths"].as_object().expect("paths") {
            for (method, operation) in methods.as_object().expect("methods") {
                for mut case in cases(path, method, operation) {
                    // The example is the id of a member, and the cluster would remove it.
                    case.target = case.target.replace("/v1/cluster/members/2", "/v1/cluster/members/9");
                    if case.method == Method::POST && (path.starts_with("/v1/locks") || path.starts_with("/v1/elections")) {
                        for lock in LOCKS {
                            client
                                .send(&Call::delete(&format!("/v1/locks/{lock}/holders")).key(&new_key()))
                                .await
                                .expect_status(204);
                        }
                    }
                    asked += 1;
                    let url = &cluster.nodes[asked % cluster.nodes.len()].url;
                    complaints.extend(complaint(&http, url, case, &operation["responses"]).await);
                }
            }
        }
        report(&format!("{asked} requests from examples"));
        assert!(asked > 200 && complaints.is_empty(), "of {asked}:\n{}", complaints.join("\n"));

        let planted = Case {
            method: Method::GET,
            target: "/v1/locks?sort=hight".to_owned(),
            headers: Vec::new(),
            body: None,
            about: "planted".to_owned(),
        };
        let answers = &description["paths"]["/v1/locks"]["get"]["responses"];
        assert!(
            complaint(&http, &cluster.nodes[0].url, planted, answers)
                .await
                .is_some_and(|text| text.contains("hold or contention"))
        );
    });
}
