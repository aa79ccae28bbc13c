//! Requests for every route of the description: right ones, and wrong ones of each kind, with secrets where they do not
//! belong.

use serde_json::{Value, json};

const DESCRIPTION: &str = include_str!("../../../proto/openapi.json");
/// Calls whose success would end the test's own setting. Their other requests are harmless.
const NOT_AS_ADMINISTRATOR: [&str; 3] = ["disableAccess", "handOver", "setSettings"];

/// A request as the walk sends it.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// With its query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str) -> Request {
        Request { method: method.to_uppercase(), path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    /// Sets a header, and replaces an earlier one.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Request {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn bearer(self, token: &str) -> Request {
        self.with("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn json(self, body: &Value) -> Request {
        Request { body: body.to_string().into_bytes(), ..self }.with("content-type", "application/json")
    }

    fn body(self, content_type: &str, body: impl Into<Vec<u8>>) -> Request {
        Request { body: body.into(), ..self }.with("content-type", content_type)
    }

    fn parameter(self, name: &str, value: &str) -> Request {
        let separator = if self.path.contains('?') { '&' } else { '?' };
        Request { path: format!("{}{separator}{name}={value}", self.path), ..self }
    }
}

/// The secrets that the requests show.
pub(crate) struct Shown {
    pub(crate) administrator: String,
    pub(crate) user: String,
    pub(crate) jwt: String,
    pub(crate) grant: String,
    pub(crate) session: String,
    /// A secret in another scheme, in the query, in a path, in a body, in a cookie, for a proxy, in another header, and in one
    /// that is too long.
    pub(crate) basic: String,
    pub(crate) query: String,
    pub(crate) path: String,
    pub(crate) body: String,
    pub(crate) cookie: String,
    pub(crate) proxy: String,
    pub(crate) long: String,
}

struct Parameter<'d> {
    name: &'d str,
    place: &'d str,
    example: String,
}

/// A call of the description.
struct Operation<'d> {
    id: &'d str,
    method: &'d str,
    path: &'d str,
    parameters: Vec<Parameter<'d>>,
    body: Option<(&'d str, Value)>,
}

fn operations(description: &Value) -> Vec<Operation<'_>> {
    let mut operations = Vec::new();
    for (path, methods) in description["paths"].as_object().expect("paths") {
        for (method, call) in methods.as_object().expect("methods") {
            let Some(id) = call["operationId"].as_str() else { continue };
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let parameters = call["parameters"].as_array().into_iter().flatten().filter_map(|parameter| {
                let parameter = Parameter {
                    name: parameter["name"].as_str()?,
                    place: parameter["in"].as_str()?,
                    example: text(&parameter["example"]),
                };
                Some(parameter)
            });
            let content = call["requestBody"]["content"].as_object().and_then(|content| content.iter().next());
            let body = content.map(|(kind, content)| (kind.as_str(), content["example"].clone()));
            operations.push(Operation { id, method, path, parameters: parameters.collect(), body });
        }
    }
    operations
}

impl Operation<'_> {
    /// The value of a parameter of the path: the planted ids, and no member that exists.
    fn in_path(&self, name: &str, example: &str, shown: &Shown) -> String {
        match (name, self.path) {
            ("id", path) if path.starts_with("/v1/grants") => shown.grant.clone(),
            ("id", path) if path.starts_with("/v1/sessions") => shown.session.clone(),
            ("id", _) => "99".to_owned(),
            ("number", _) => "99999".to_owned(),
            ("name", path) if path.starts_with("/v1/access/users") => "somebody".to_owned(),
            ("role" | "name", path) if path.starts_with("/v1/access") => "walked".to_owned(),
            ("path", _) => example.to_owned(),
            _ => example.replace('/', "%2F"),
        }
    }

    fn request(&self, value: impl Fn(&Parameter<'_>) -> String) -> Request {
        let mut path = self.path.to_owned();
        for parameter in self.parameters.iter().filter(|parameter| parameter.place == "path") {
            path = path.replace(&format!("{{{}}}", parameter.name), &value(parameter));
        }
        // No request waits longer than its answer is read.
        Request::new(self.method, &path).with("fairhold-timeout", "2s")
    }

    /// The request with the examples of the description.
    fn right(&self, shown: &Shown) -> Request {
        let request = self.request(|parameter| self.in_path(parameter.name, &parameter.example, shown));
        match &self.body {
            Some((kind, Value::String(text))) => request.body(kind, text.clone()),
            Some((kind, example)) => request.body(kind, self.with_planted_ids(example, shown).to_string()),
            None => request,
        }
    }

    /// An example with the planted ids.
    fn with_planted_ids(&self, example: &Value, shown: &Shown) -> Value {
        match example {
            Value::Object(fields) => {
                let replaced = fields.iter().map(|(name, value)| match name.as_str() {
                    "session" => (name.clone(), json!(shown.session)),
                    "id" | "grant" => (name.clone(), json!(shown.grant)),
                    _ => (name.clone(), self.with_planted_ids(value, shown)),
                });
                Value::Object(replaced.collect())
            }
            Value::Array(items) => items.iter().map(|item| self.with_planted_ids(item, shown)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => example.clone(),
        }
    }

    /// The same call by callers of each kind.
    fn by_callers(&self, shown: &Shown) -> Vec<Request> {
        let right = || self.right(shown);
        let mut requests = vec![
            right(),
            right().bearer(&shown.user),
            right().bearer(&shown.jwt),
            right().with("authorization", &format!("Basic {}", shown.basic)),
            right().with("authorization", &shown.basic),
            right().bearer(&format!("{} {}", shown.user, shown.user)),
            right().bearer(&shown.user[..shown.user.len() - 1]),
            right().bearer(&shown.user).with("cookie", &format!("session={}", shown.cookie)),
            right().bearer(&shown.user).with("proxy-authorization", &format!("Bearer {}", shown.proxy)),
            right().bearer(&shown.user).with("x-forwarded-authorization", &shown.proxy),
            right().bearer(&shown.user).with("idempotency-key", &shown.cookie),
        ];
        if !NOT_AS_ADMINISTRATOR.contains(&self.id) {
            requests.push(right().bearer(&shown.administrator));
        }
        requests
    }

    /// The same call with secrets in its query, its headers and its path.
    fn with_misplaced_secrets(&self, shown: &Shown) -> Vec<Request> {
        let right = || self.right(shown).bearer(&shown.user);
        let of_query = self.parameters.iter().filter(|parameter| parameter.place == "query");
        let misplaced = of_query.map(|parameter| right().parameter(parameter.name, &shown.query));
        let known = ["token", "access_token", "auth_token", "key"].map(|name| right().parameter(name, &shown.query));
        let of_headers = self.parameters.iter().filter(|parameter| parameter.place == "header");
        let in_headers = of_headers.map(|parameter| right().with(parameter.name, &shown.proxy));
        let mut requests: Vec<Request> = misplaced.chain(known).chain(in_headers).collect();
        requests.push(right().parameter("id_token", &shown.jwt));
        if self.parameters.iter().any(|parameter| ["id", "number"].contains(&parameter.name)) {
            requests.push(self.request(|_| shown.path.clone()).bearer(&shown.user));
            requests.push(self.request(|_| shown.path.clone()).bearer(&shown.administrator));
        }
        requests
    }

    /// The same call with wrong bodies.
    fn with_wrong_bodies(&self, shown: &Shown) -> Vec<Request> {
        let Some((kind, example)) = &self.body else { return Vec::new() };
        let right = || self.right(shown).bearer(&shown.user);
        let secret = &shown.body;
        let mut bodies = vec![
            format!("{{\"token\":\"{secret}\"}}"),
            format!("{{\"{secret}\":1}}"),
            format!("{{\"{secret}"),
            format!("\"{secret}\""),
            format!("[\"{secret}\"]"),
            secret.clone(),
        ];
        for (name, _) in example.as_object().into_iter().flatten() {
            // An object is right for `meta`, and is shown to those who may see the grant.
            let object = Some(json!({ "token": secret })).filter(|_| name != "meta");
            for wrong in object.into_iter().chain([json!([secret])]) {
                let mut body = example.clone();
                body[name] = wrong;
                bodies.push(body.to_string());
            }
        }
        let wrong = bodies.into_iter().map(|body| right().body(kind, body));
        // A value that is stored is no wrong body.
        if *kind == "application/json" { wrong.collect() } else { Vec::new() }
    }
}

/// All requests of the walk.
pub(crate) fn requests(shown: &Shown) -> Vec<Request> {
    let description: Value = serde_json::from_str(DESCRIPTION).expect("the description is JSON");
    let mut requests = Vec::new();
    for operation in operations(&description) {
        requests.extend(operation.by_callers(shown));
        requests.extend(operation.with_misplaced_secrets(shown));
        requests.extend(operation.with_wrong_bodies(shown));
    }
    for times in [2, 200, 20_000] {
        let long = shown.long.repeat(times);
        requests.push(Request::new("GET", "/v1/locks").bearer(&long));
        requests.push(Request::new("GET", "/v1/locks").bearer(&shown.user).with("x-long", &long));
    }
    // Paths and methods that no route has.
    for path in ["/", "/v1", "/v2/locks", "/v1/locks/a/b", "//v1/locks"] {
        for method in ["GET", "POST", "BREW"] {
            for token in [&shown.user, &shown.administrator] {
                requests.push(Request::new(method, path).bearer(token));
            }
        }
    }
    requests
}
