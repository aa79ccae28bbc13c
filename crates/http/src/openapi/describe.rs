//! Builds the description of a call from texts and schemas.

use super::{
    examples,
    lines::{self, Lines},
    operation::{DescribedCall, OperationKind},
    parameter::{self, at},
    problems,
    schema::{bound_integers, omit_instead_of_null},
};
use crate::{edge::headers, edge::problem::status_of};
use fairhold_types::{Code, dto, hold::HoldLine, pattern as id_pattern, problem};
use http::{Method, StatusCode};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Collects the schemas of answers and requests.
pub(super) struct Describer {
    generator: SchemaGenerator,
    requests: SchemaGenerator,
    /// For parameters, whose schemas are inline.
    parameters: SchemaGenerator,
    refined: Vec<(&'static str, Refine)>,
    /// An example of each described refusal.
    pub(super) refused: Map<String, Value>,
}

/// Describes a call.
pub(super) type DescribeCall = fn(&mut Describer) -> Operation<'_>;

/// Adds rules to a schema that its type cannot express.
pub(super) type Refine = fn(&mut Value);

impl Describer {
    pub(super) fn new() -> Describer {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let inline = settings.clone().with(|settings| settings.inline_subschemas = true);
        Describer {
            generator: settings.clone().for_serialize().into_generator(),
            parameters: inline.for_deserialize().into_generator(),
            requests: settings.for_deserialize().into_generator(),
            refined: Vec::new(),
            refused: Map::new(),
        }
    }

    /// All collected schemas.
    pub(super) fn schemas(mut self) -> Map<String, Value> {
        let mut schemas = self.generator.take_definitions(true);
        schemas.values_mut().for_each(omit_instead_of_null);
        let mut requests = self.requests.take_definitions(true);
        for (name, refine) in self.refined {
            let Some(schema) = requests.get_mut(name) else { panic!("no request has a {name}") };
            refine(schema);
        }
        for schemas in [&mut schemas, &mut requests] {
            schemas.values_mut().for_each(bound_integers);
        }
        for (name, schema) in requests {
            let other = schemas.insert(name.clone(), schema.clone());
            assert!(other.is_none_or(|other| other == schema), "an answer and a request have different schemas named {name}");
        }
        schemas
    }

    /// Adds rules to the request schema of that name.
    pub(super) fn refine(&mut self, name: &'static str, refine: Refine) {
        self.refined.push((name, refine));
    }

    pub(super) fn schema<T: JsonSchema>(&mut self) -> Value {
        self.generator.subschema_for::<T>().to_value()
    }

    /// The schema of a request's parameters.
    fn parameters<T: JsonSchema>(&mut self) -> Value {
        let mut schema = T::json_schema(&mut self.parameters).to_value();
        parameter::refine(&mut schema);
        schema
    }

    /// The name of the example of a refusal, and a reference to it.
    fn refusal(&mut self, status: StatusCode, code: Code) -> (String, Value) {
        let name = if status == status_of(code) { code.to_string() } else { format!("{code}_{}", status.as_u16()) };
        self.refused.entry(name.clone()).or_insert_with(|| json!({ "value": problems::example_json(status, code) }));
        (code.to_string(), json!({ "$ref": format!("#/components/examples/{name}") }))
    }

    /// Starts the description of a call.
    pub(super) fn call(&mut self, kind: OperationKind, path: &'static str, id: &str, tag: &str, summary: &str) -> Operation<'_> {
        let value = json!({ "operationId": id, "tags": [tag], "summary": summary });
        let (parameters, answers, codes) = (Vec::new(), Map::new(), Vec::new());
        Operation { describe: self, kind, path, value, parameters, answers, codes }
    }
}

/// The description of a call while it is built.
pub(super) struct Operation<'a> {
    describe: &'a mut Describer,
    kind: OperationKind,
    path: &'static str,
    value: Value,
    parameters: Vec<Value>,
    /// By their status.
    answers: Map<String, Value>,
    codes: Vec<(StatusCode, Code)>,
}

impl Operation<'_> {
    pub(super) fn about(mut self, text: &str) -> Self {
        self.value["description"] = text.into();
        self
    }

    pub(super) fn in_path(mut self, name: &str, about: &str, schema: Value) -> Self {
        self.parameters.push(at("path", name, about, schema));
        self
    }

    pub(super) fn header(mut self, name: &str, about: &str, schema: Value) -> Self {
        self.parameters.push(at("header", name, about, schema));
        self
    }

    /// The header `Fairhold-Timeout`.
    pub(super) fn timeout(mut self) -> Self {
        self.parameters.push(parameter::timeout());
        self
    }

    /// Parameters that are only in the query.
    pub(super) fn query<T: JsonSchema>(mut self) -> Self {
        let object = self.describe.parameters::<T>();
        self.parameters.extend(parameter::in_query(&object));
        self
    }

    /// Parameters of a POST, in the query or in a JSON body. `rules` are rules between fields of the body.
    pub(super) fn form<T: JsonSchema>(mut self, rules: Option<Value>, example: Value) -> Self {
        let object = self.describe.parameters::<T>();
        // A required parameter may be in either place. A description cannot express that, so only the body requires it.
        self.parameters.extend(parameter::in_query(&object).into_iter().map(|mut parameter| {
            if parameter.get("required").is_some() {
                parameter["required"] = false.into();
            }
            parameter
        }));
        self.value["requestBody"] = parameter::body(&object, rules, example);
        self.codes(&[Code::TooLarge])
    }

    /// A flag of the query that must be set.
    pub(super) fn required_flag(mut self, name: &str) -> Self {
        for parameter in self.parameters.iter_mut().filter(|parameter| parameter["name"] == name) {
            parameter["required"] = true.into();
            parameter["schema"] = json!({ "type": "boolean", "enum": [true] });
        }
        self
    }

    /// A JSON body that is more than a list of parameters.
    pub(super) fn request<T: JsonSchema>(mut self, example: Value) -> Self {
        let schema = self.describe.requests.subschema_for::<T>().to_value();
        let content = json!({ "application/json": { "schema": schema, "example": example } });
        self.value["requestBody"] = json!({ "required": true, "content": content });
        self
    }

    /// A body of bytes.
    pub(super) fn octets(mut self, about: &str) -> Self {
        let content = json!({ "application/octet-stream": { "schema": {}, "example": examples::VALUE } });
        self.value["requestBody"] = json!({ "description": about, "content": content });
        self
    }

    /// Only for administrators, where the server has a token for them.
    pub(super) fn admin(mut self) -> Self {
        self.value["security"] = json!([{ "admin": [] }, {}]);
        self.codes(&[Code::Unauthenticated, Code::Denied])
    }

    /// An answer with a JSON body.
    pub(super) fn json<T: JsonSchema>(self, about: &str, example: Value) -> Self {
        self.json_as::<T>(StatusCode::OK, about, example)
    }

    /// An answer with another status and a JSON body.
    pub(super) fn json_as<T: JsonSchema>(self, status: StatusCode, about: &str, example: Value) -> Self {
        let schema = self.describe.schema::<T>();
        self.content_as(status, about, "application/json", schema, example)
    }

    /// A page: an answer with a JSON body and a link to the next page.
    pub(super) fn page<T: JsonSchema>(self, about: &str, example: Value) -> Self {
        let link = "`rel=\"next\"`: the next page.";
        self.json::<T>(about, example).answer_header(StatusCode::OK, "Link", link, json!({ "type": "string" }))
    }

    /// Another form of the JSON body.
    pub(super) fn or_json<T: JsonSchema>(mut self) -> Self {
        let schema = self.describe.schema::<T>();
        let content = &mut self.answer(StatusCode::OK, "")["content"]["application/json"]["schema"];
        match content.get_mut("anyOf").and_then(Value::as_array_mut) {
            Some(forms) => forms.push(schema),
            None => *content = json!({ "anyOf": [content.take(), schema] }),
        }
        self
    }

    /// An answer with a body of another content type.
    pub(super) fn content(self, about: &str, sort: &str, schema: Value, example: Value) -> Self {
        self.content_as(StatusCode::OK, about, sort, schema, example)
    }

    fn content_as(mut self, status: StatusCode, about: &str, sort: &str, schema: Value, example: Value) -> Self {
        let content = &mut self.answer(status, about)["content"][sort];
        content["schema"] = schema;
        if !example.is_null() {
            content["example"] = example;
        }
        self
    }

    /// Several examples of an answer of that content type.
    pub(super) fn examples(mut self, sort: &str, examples: impl IntoIterator<Item = (impl AsRef<str>, Value)>) -> Self {
        for (name, example) in examples {
            self.answer(StatusCode::OK, "")["content"][sort]["examples"][name.as_ref()] = json!({ "value": example });
        }
        self
    }

    /// A stream of such lines, with an example of each.
    fn lines<T: JsonSchema>(self, about: &str, lines: Lines) -> Self {
        let (sort, line) = ("application/x-ndjson", self.describe.schema::<T>());
        self.content(about, sort, line, Value::Null).examples(sort, lines)
    }

    /// A stream of such lines, or of server-sent events.
    pub(super) fn stream<T: JsonSchema>(self, about: &str, [lines, events]: [Lines; 2]) -> Self {
        let (sort, event) = ("text/event-stream", json!({ "type": "string" }));
        self.lines::<T>(about, lines).content("", sort, event, Value::Null).examples(sort, events)
    }

    /// An answer without a body.
    pub(super) fn empty(mut self, status: StatusCode, about: &str) -> Self {
        self.answer(status, about);
        self
    }

    /// A request for a grant, and its answers: held, streamed, queued with `Prefer`, or refused. `rule` is a rule for
    /// its body, besides those that all these requests have.
    pub(super) fn acquire<T: JsonSchema>(self, rule: Option<Value>, request: Value, about: &str, held: Value) -> Self {
        let not_with_session = |name: &str| json!({ "not": { "required": [name, "session"] } });
        let rules: Value = [not_with_session("ttl"), not_with_session("hold")].into_iter().chain(rule).collect();
        let prefer = json!({ "type": "string", "example": "respond-async" });
        let waits = json!({
            "id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "lock": "deploy", "state": "queued", "mode": "exclusive", "owner": "ci-7",
            "expires_in": "30s", "expires_at": "2026-01-01T12:00:30.000Z", "number": 57, "session": 57, "permits": 1,
            "position": 2, "queued_at": "2026-01-01T12:00:00.000Z",
        });
        self.form::<T>(Some(rules), request)
            .header("Prefer", "`respond-async`: if the grant must still wait, answer `202` instead of leaving the queue.", prefer)
            .json::<dto::Grant>(about, held)
            .lines::<HoldLine>("", lines::held())
            .json_as::<dto::Grant>(StatusCode::ACCEPTED, "The grant is queued, as `Prefer: respond-async` requested.", waits)
            .answer_header(StatusCode::ACCEPTED, "Location", "The address of the grant.", json!({ "type": "string" }))
            .codes(&[
                Code::LockHeld,
                Code::WaitTimeout,
                Code::KindMismatch,
                Code::SessionNotFound,
                Code::GrantGone,
                Code::Forgotten,
                Code::QueueFull,
            ])
    }

    /// A header of that answer.
    pub(super) fn answer_header(mut self, status: StatusCode, name: &str, about: &str, schema: Value) -> Self {
        if let Some(answer) = self.answers.get_mut(status.as_str()) {
            answer["headers"][name] = json!({ "description": about, "schema": schema });
        }
        self
    }

    /// Refusals, each with its usual status.
    pub(super) fn codes(mut self, codes: &[Code]) -> Self {
        self.codes.extend(codes.iter().map(|code| (status_of(*code), *code)));
        self
    }

    /// A refusal with an unusual status.
    pub(super) fn code_as(mut self, status: StatusCode, code: Code) -> Self {
        self.codes.push((status, code));
        self
    }

    fn answer(&mut self, status: StatusCode, about: &str) -> &mut Value {
        self.answers.entry(status.as_str()).or_insert_with(|| {
            // The connection sends this answer before it has a request.
            if status == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE {
                return json!({ "description": about });
            }
            let headers: Map<String, Value> = [headers::CLUSTER, headers::REVISION, headers::LEADER, headers::REQUEST_ID]
                .into_iter()
                .map(|name| (name.to_string(), json!({ "$ref": format!("#/components/headers/{name}") })))
                .collect();
            json!({ "description": about, "headers": headers })
        })
    }

    /// Adds what all calls of this kind have in common.
    fn with_shared_parts(mut self) -> Self {
        // The server checks this before it reads the request.
        self = self.code_as(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, Code::TooLarge);
        if self.kind != OperationKind::Here {
            self = self.timeout();
            let about = "The id of the cluster that the request is for: any other cluster refuses the request.";
            let id = json!({ "type": "string", "pattern": id_pattern::CLUSTER_ID });
            self = self.header("Fairhold-Cluster", about, id);
            let route = "`redirect`: answer `307` with the leader's address instead of forwarding the request.";
            self = self.header("Fairhold-Route", route, json!({ "type": "string", "enum": ["redirect"] }));
            self = self.empty(StatusCode::TEMPORARY_REDIRECT, "Another server leads, and you sent `Fairhold-Route: redirect`.");
            let location = json!({ "type": "string" });
            self = self.answer_header(StatusCode::TEMPORARY_REDIRECT, "Location", "The same resource at the leader.", location);
            self = self.codes(&[
                Code::BadRequest,
                Code::WrongCluster,
                Code::NoQuorum,
                Code::Overloaded,
                Code::ShuttingDown,
                Code::RateLimited,
                Code::QuotaExceeded,
                Code::DeadlineExceeded,
                Code::Unauthenticated,
                Code::Denied,
                Code::AuditUnavailable,
            ]);
        }
        if matches!(self.kind, OperationKind::Keyed(_) | OperationKind::Change(_)) {
            self = self.codes(&[Code::DiskLow, Code::Internal, Code::StateFull, Code::StaleAccess]);
        }
        match self.kind {
            OperationKind::Read => {
                let about = "With `consistency=local`: wait until this server has applied this revision.";
                self = self.header("Fairhold-Min-Revision", about, json!({ "type": "string", "pattern": "^[0-9]{1,15}$" }));
            }
            OperationKind::Keyed(_) => {
                let about = "Makes the request safe to repeat: a ULID or a UUIDv7 that you generate. Without it, the server \
                             generates one.";
                let schema = json!({ "type": "string", "pattern": id_pattern::GRANT_ID });
                self = self.header("Idempotency-Key", about, schema);
                self = self.codes(&[Code::IdempotencyMismatch]);
            }
            OperationKind::Change(_) | OperationKind::Here => {}
        }
        self
    }

    pub(super) fn finish(mut self) -> DescribedCall {
        self = self.with_shared_parts();
        let problem = self.describe.schema::<problem::Problem>();
        let mut by_status: BTreeMap<StatusCode, Vec<Code>> = BTreeMap::new();
        for (status, code) in std::mem::take(&mut self.codes) {
            let codes = by_status.entry(status).or_default();
            if !codes.contains(&code) {
                codes.push(code);
            }
        }
        for (status, codes) in by_status {
            let named = codes.iter().map(|code| format!("`{code}`")).collect::<Vec<_>>().join(", ");
            let facts = json!({ "properties": { "status": { "const": status.as_u16() }, "code": { "enum": codes } } });
            let schema = json!({ "allOf": [problem, facts] });
            let examples: Map<String, Value> = codes.iter().map(|code| self.describe.refusal(status, *code)).collect();
            let content = json!({ "schema": schema, "examples": examples });
            self.answer(status, &named)["content"]["application/problem+json"] = content;
            if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
                let about = "When to retry, in seconds. Missing if a retry cannot help.";
                self = self.answer_header(status, "Retry-After", about, json!({ "type": "integer", "minimum": 0 }));
            } else if status == StatusCode::UNAUTHORIZED {
                let scheme = json!({ "type": "string", "const": "Bearer" });
                self = self.answer_header(status, "WWW-Authenticate", "How to authenticate.", scheme);
            }
        }
        let mut value = self.value;
        if !self.parameters.is_empty() {
            value["parameters"] = self.parameters.into();
        }
        value["responses"] = self.answers.into();
        let method = match self.kind {
            OperationKind::Change(method) | OperationKind::Keyed(method) => method,
            OperationKind::Read | OperationKind::Here => Method::GET,
        };
        DescribedCall { method, path: self.path, value }
    }
}
