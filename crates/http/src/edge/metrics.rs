//! The metrics of the API (requests by route, connections, bytes), and `/metrics`, which shows all metrics of a node.

use crate::{edge::body, edge::problem::Problem, edge::slow_requests::SlowRequests};
use axum::response::Response;
use fairhold_metrics::{
    ByLabel, Counter, Format, Gauge, Histogram, LATENCY_SECONDS, Registry, Scrape, WAIT_SECONDS, collect, text,
};
use fairhold_trust::fault::FaultReason;
use fairhold_types::Code;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use parking_lot::Mutex;
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// The route of a request that matches none.
const NO_ROUTE: &str = "none";
/// The methods that calls have.
pub(crate) static METHODS: [Method; 6] = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
/// Any other method.
const OTHER_METHOD: &str = "other";

/// The method, if calls have it: a caller may send any word of several KiB.
pub(crate) fn known_method(method: &Method) -> Option<&'static str> {
    METHODS.iter().find(|known| *known == method).map(Method::as_str)
}

/// The result of a TLS handshake that is complete.
const HANDSHAKE_DONE: &str = "ok";
/// The result of one that was not complete in time.
pub(crate) const HANDSHAKE_TIMEOUT: &str = "timeout";
/// The result of one that did not begin, because too many others were running.
pub(crate) const HANDSHAKE_TOO_MANY: &str = "too_many";
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The metrics of one node's API. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct HttpMetrics(Arc<HttpMetricsInner>);

#[derive(Debug, Default)]
struct HttpMetricsInner {
    /// The metrics of each route, by its template.
    routes: Mutex<BTreeMap<&'static str, Arc<RouteMetrics>>>,
    in_flight: Gauge,
    dropped: Counter,
    connections: Gauge,
    accepted: Counter,
    turned_away_all: Counter,
    turned_away_address: Counter,
    /// The results of TLS handshakes, by label.
    handshakes: Handshakes,
    received: Counter,
    sent: Counter,
    slow: SlowRequests,
}

/// A counter for each result of a TLS handshake.
#[derive(Debug)]
struct Handshakes(Vec<(&'static str, Counter)>);

impl Default for Handshakes {
    fn default() -> Handshakes {
        let reasons = FaultReason::ALL.iter().map(|reason| reason.as_str());
        let results = [HANDSHAKE_DONE, HANDSHAKE_TIMEOUT, HANDSHAKE_TOO_MANY].into_iter().chain(reasons);
        Handshakes(results.map(|result| (result, Counter::default())).collect())
    }
}

/// The requests of one route and their times.
#[derive(Debug)]
pub(crate) struct RouteMetrics {
    /// One row for each of `METHODS`, and a last row for all other methods.
    requests: [[Counter; CLASSES.len()]; METHODS.len() + 1],
    answered: Histogram,
    waited: Histogram,
}

impl Default for RouteMetrics {
    fn default() -> RouteMetrics {
        RouteMetrics {
            requests: Default::default(),
            answered: Histogram::of_seconds(LATENCY_SECONDS),
            waited: Histogram::of_seconds(WAIT_SECONDS),
        }
    }
}

impl RouteMetrics {
    fn is_used(&self) -> bool {
        self.requests.iter().flatten().any(|counter| counter.get() > 0)
    }
}

/// A request in progress. If it is dropped before its answer, the client has disconnected.
pub(crate) struct RequestInFlight<'m> {
    metrics: &'m HttpMetrics,
    answered: bool,
}

impl RequestInFlight<'_> {
    /// Counts the answer.
    pub(crate) fn answer(mut self, route: &RouteMetrics, method: &Method, status: StatusCode, waited: bool, took: Duration) {
        self.answered = true;
        let method = METHODS.iter().position(|known| known == method).unwrap_or(METHODS.len());
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        route.requests[method][class].inc();
        if waited { &route.waited } else { &route.answered }.observe(took);
    }
}

impl Drop for RequestInFlight<'_> {
    fn drop(&mut self) {
        self.metrics.0.in_flight.dec();
        if !self.answered {
            self.metrics.0.dropped.inc();
        }
    }
}

impl HttpMetrics {
    /// The metrics of the route with this template, or of the requests that match no route.
    pub(crate) fn route(&self, template: Option<&'static str>) -> Arc<RouteMetrics> {
        Arc::clone(self.0.routes.lock().entry(template.unwrap_or(NO_ROUTE)).or_default())
    }

    /// Counts the start of a request.
    pub(crate) fn begin(&self) -> RequestInFlight<'_> {
        self.0.in_flight.inc();
        RequestInFlight { metrics: self, answered: false }
    }

    pub(crate) fn connection_opened(&self) {
        self.0.accepted.inc();
        self.0.connections.inc();
    }

    pub(crate) fn connection_closed(&self) {
        self.0.connections.dec();
    }

    /// Counts a connection beyond the limit: the total one, or its address's.
    pub(crate) fn turn_away(&self, in_all: bool) {
        if in_all { &self.0.turned_away_all } else { &self.0.turned_away_address }.inc();
    }

    /// Counts a TLS handshake: complete, or failed for the reason with this label.
    pub(crate) fn handshake(&self, failure: Option<&'static str>) {
        let result = failure.unwrap_or(HANDSHAKE_DONE);
        let counter = self.0.handshakes.0.iter().find(|(label, _)| *label == result);
        if let Some((_, counter)) = counter {
            counter.inc();
        }
    }

    /// The number of requests with an answer of the class 5xx. It reads one counter for each method of each route.
    #[must_use]
    pub fn server_errors(&self) -> u64 {
        let routes = self.0.routes.lock();
        routes.values().flat_map(|route| &route.requests).map(|[.., errors]| errors.get()).sum()
    }

    /// Which requests are slow.
    pub(crate) fn slow_requests(&self) -> &SlowRequests {
        &self.0.slow
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.0.received.inc_by(bytes as u64);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.0.sent.inc_by(bytes as u64);
    }

    fn register(&self, registry: &mut Registry) {
        let inner = &self.0;
        registry.register("http_requests_in_flight", "Requests in progress", inner.in_flight.clone());
        let help = "Requests whose clients disconnected before the answer";
        registry.register("http_requests_dropped", help, inner.dropped.clone());
        registry.register("http_connections_open", "Open client connections", inner.connections.clone());
        registry.register("http_connections_accepted", "Client connections accepted", inner.accepted.clone());
        let reasons = [("all", inner.turned_away_all.clone()), ("address", inner.turned_away_address.clone())];
        let help = "Client connections refused because of a limit: in total, or for one address";
        registry.register("http_connections_turned_away", help, ByLabel::new("limit", reasons));
        let help = "TLS handshakes with clients, by result";
        registry.register("http_tls_handshakes", help, ByLabel::new("result", inner.handshakes.0.clone()));
        registry.register("http_received_bytes", "Bytes from clients", inner.received.clone());
        registry.register("http_sent_bytes", "Bytes to clients", inner.sent.clone());
        inner.slow.register(registry);
        let inner = Arc::clone(inner);
        collect(registry, move |scrape| inner.write_routes(scrape));
    }
}

impl HttpMetricsInner {
    fn write_routes(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let routes = self.routes.lock();
        let used = || routes.iter().filter(|(_, metrics)| metrics.is_used()).map(|(template, metrics)| (*template, metrics));
        let requests = used().flat_map(|(route, metrics)| {
            let methods = METHODS.iter().map(Method::as_str).chain([OTHER_METHOD]);
            methods.zip(&metrics.requests).flat_map(move |(method, classes)| {
                let counted = CLASSES.iter().zip(classes).filter(|(_, counter)| counter.get() > 0);
                counted.map(move |(class, counter)| ([("route", route), ("method", method), ("status", *class)], counter))
            })
        });
        scrape.family("http_requests", "Requests answered, by route, method and status class", requests)?;
        let answered = used().map(|(route, metrics)| ([("route", route)], &metrics.answered));
        let help = "Time to answer of requests without a wait parameter that are not streams, by route";
        scrape.family("http_request_seconds", help, answered)?;
        let waited = used().map(|(route, metrics)| ([("route", route)], &metrics.waited));
        let help = "Time to answer of requests with a wait parameter, and to the first line of streams, by route";
        scrape.family("http_waiting_request_seconds", help, waited)
    }
}

/// All metrics of a node, as `GET /metrics` serves them. Clones share them.
#[derive(Debug, Clone)]
pub struct Exposition {
    registry: Arc<Registry>,
    pub(crate) http: HttpMetrics,
}

/// Only the metrics of the API.
impl Default for Exposition {
    fn default() -> Self {
        Exposition::new(fairhold_metrics::registry())
    }
}

impl Exposition {
    /// Takes the metrics that the other parts of the node have registered, and adds the API's own.
    #[must_use]
    pub fn new(registry: Registry) -> Exposition {
        Exposition::with_slow_requests(registry, SlowRequests::default())
    }

    /// The same, with a log of slow requests.
    #[must_use]
    pub fn with_slow_requests(mut registry: Registry, slow: SlowRequests) -> Exposition {
        let http = HttpMetrics(Arc::new(HttpMetricsInner { slow, ..HttpMetricsInner::default() }));
        http.register(&mut registry);
        Exposition { registry: Arc::new(registry), http }
    }

    /// The metrics of the API.
    #[must_use]
    pub fn http(&self) -> HttpMetrics {
        self.http.clone()
    }

    /// The page, in tests.
    #[cfg(test)]
    pub(crate) fn page(&self) -> String {
        text(&self.registry, Format::Plain).unwrap_or_default()
    }

    /// `GET /metrics`
    pub(crate) fn answer(&self, headers: &HeaderMap) -> Result<Response, Problem> {
        let format = Format::accepted(headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()));
        let text = text(&self.registry, format)
            .map_err(|error| Problem::new(Code::Internal, format!("the metrics could not be written: {error}")))?;
        Ok(body::answer(HeaderValue::from_static(format.content_type()), text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_metrics::registry;

    #[test]
    fn a_method_that_no_call_has_is_not_kept() {
        let made_up = Method::from_bytes("X".repeat(15_000).as_bytes()).unwrap();
        assert_eq!([known_method(&Method::PATCH), known_method(&made_up)], [Some("PATCH"), None]);
    }

    #[test]
    fn a_request_is_counted_by_its_route_and_never_by_its_path() {
        let exposition = Exposition::new(registry());
        let answer = |template, method: Method, status, waited| {
            let status = StatusCode::from_u16(status).unwrap();
            let route = exposition.http.route(template);
            exposition.http.begin().answer(&route, &method, status, waited, Duration::from_millis(2));
        };
        answer(Some("/v1/locks/{name}"), Method::POST, 200, false);
        answer(Some("/v1/locks/{name}"), Method::POST, 201, false);
        answer(Some("/v1/locks/{name}"), Method::POST, 409, true);
        answer(None, Method::OPTIONS, 404, false);
        assert_eq!(exposition.http.server_errors(), 0);
        answer(Some("/readyz"), Method::GET, 503, false);
        assert_eq!(exposition.http.server_errors(), 1);
        drop(exposition.http.begin());
        let page = exposition.page();
        for line in [
            "fairhold_http_requests_total{route=\"/v1/locks/{name}\",method=\"POST\",status=\"2xx\"} 2",
            "fairhold_http_requests_total{route=\"/v1/locks/{name}\",method=\"POST\",status=\"4xx\"} 1",
            "fairhold_http_requests_total{route=\"none\",method=\"other\",status=\"4xx\"} 1",
            "fairhold_http_request_seconds_count{route=\"/v1/locks/{name}\"} 2",
            "fairhold_http_waiting_request_seconds_count{route=\"/v1/locks/{name}\"} 1",
            "fairhold_http_requests_in_flight 0",
            "fairhold_http_requests_dropped_total 1",
        ] {
            assert!(page.lines().any(|served| served == line), "{line} is not in\n{page}");
        }
    }
}
