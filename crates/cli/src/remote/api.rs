//! Calls of the HTTP API through the Rust client, with progress messages on stderr, and with failures that say what to do.

use super::{
    args::{ConnectArgs, DEFAULT_ENDPOINT},
    failure::Failure,
    reply::ApiReply,
    request::ApiRequest,
};
use crate::output;
use fairhold_client::{CallEvent, Client, Error, StatusCode};
use fairhold_types::duration;
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// How long one node may work on a call before the next endpoint gets it.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
/// A call without an answer reports its progress after this time.
const REPORT_AFTER: Duration = Duration::from_secs(1);
/// The cause of an error if the other side closes the connection instead of answering.
const CLOSED: &str = "connection closed before message completed";
const CLOSED_ADVICE: &str =
    "the connection was closed without an answer (if this is the port for nodes: clients need the other one, usually 7171)";
/// How this program identifies itself to the nodes, which show this to people.
const USER_AGENT: &str = concat!("fairhold/", env!("CARGO_PKG_VERSION"));

/// The cluster, for raw calls. Clones share connections and the id of the cluster.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    client: Client,
    endpoints: Vec<String>,
    timeout: Duration,
    /// Whether calls report their progress on stderr.
    is_verbose: bool,
}

/// The attempts of one call so far.
#[derive(Debug, Default)]
struct Attempts {
    /// The node that got the last one.
    endpoint: String,
    /// Why the last attempt failed.
    last: String,
    is_in_flight: bool,
    /// How many attempts in a row reached a server that is not a node of the cluster.
    foreign: usize,
    /// What a node of the cluster answered last, if one did. It cannot do what was asked.
    refusal: Option<String>,
}

impl Api {
    /// Sends nothing yet. Needs a runtime.
    pub(crate) fn new(connect: &ConnectArgs) -> Result<Api, Failure> {
        if connect.timeout.is_zero() {
            return Err(Failure::Usage("--timeout must be greater than 0".to_owned()));
        }
        let builder = connect.client_builder()?.user_agent(USER_AGENT).discover(false);
        let client = builder.build().map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Api { client, endpoints: connect.urls()?, timeout: connect.timeout, is_verbose: !connect.quiet })
    }

    /// The same cluster, through these nodes.
    pub(crate) fn at(&self, endpoints: Vec<String>) -> Api {
        Api { endpoints, ..self.clone() }
    }

    /// The same cluster for a live view: with this timeout if it is shorter, and without progress messages.
    pub(crate) fn for_screen(&self, timeout: Duration) -> Api {
        Api { timeout: timeout.min(self.timeout), is_verbose: false, ..self.clone() }
    }

    /// The timeout of a call, without its wait.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Tries the endpoints in turn until one gives a definite answer. A call without an answer reports that after a while.
    pub(crate) async fn call(&self, request: &ApiRequest) -> Result<ApiReply, Failure> {
        let attempts = Arc::default();
        let calling = self.send(request, &attempts);
        if !self.is_verbose {
            return calling.await;
        }
        let mut calling = std::pin::pin!(calling);
        loop {
            if let Ok(answered) = timeout(REPORT_AFTER, calling.as_mut()).await {
                return answered;
            }
            let progress = {
                let attempts = attempts.lock();
                // A node that holds back its answer, because the caller asked it to wait, is not silent.
                (attempts.failed().is_some() || !request.waits()).then(|| self.progress(&attempts))
            };
            if let Some(progress) = progress {
                output::note(&progress);
                return calling.await;
            }
        }
    }

    fn progress(&self, attempts: &Attempts) -> String {
        let within = duration::rounded(self.timeout);
        if let Some(refusal) = &attempts.refusal {
            return format!("a node answers, but cannot serve: {refusal}. Trying for {within}");
        }
        match attempts.failed() {
            None => format!("no answer yet from {}: is it running? Trying for {within}", self.endpoints.join(", ")),
            Some(last) => {
                let dev = if self.endpoints == [DEFAULT_ENDPOINT] { " (fairhold dev starts a cluster here.)" } else { "" };
                format!("no answer yet: {last}; is it running?{dev} Trying for {within}")
            }
        }
    }

    async fn send(&self, request: &ApiRequest, attempts: &Arc<Mutex<Attempts>>) -> Result<ApiReply, Failure> {
        let call = request.call(&self.client).timeout(self.timeout).attempt_timeout(ATTEMPT_TIMEOUT);
        let recorder = Arc::clone(attempts);
        let call = call.endpoints(self.endpoints.clone()).on_event(move |event| recorder.lock().record(event));
        match call.send().await {
            Ok(reply) => request.answered(reply, attempts.lock().endpoint.clone()),
            Err(Error::Invalid(why)) => Err(Failure::Usage(why)),
            Err(error @ (Error::Unavailable { .. } | Error::Busy { .. } | Error::OutcomeUnknown { .. })) => {
                let may_be_done = matches!(error, Error::OutcomeUnknown { .. });
                Err(Failure::Unavailable(self.no_answer(request, &attempts.lock(), may_be_done)))
            }
            Err(error) => Err(Failure::Ended(error.to_string())),
        }
    }

    fn no_answer(&self, request: &ApiRequest, attempts: &Attempts, may_be_done: bool) -> String {
        let last = &attempts.last;
        let advice = request.advice(may_be_done);
        if attempts.foreign >= self.endpoints.len() {
            return format!("{last} (is -e its address for clients?){advice}");
        }
        let within = duration::format(request.longest(self.timeout));
        let hint = if attempts.refusal.is_some() {
            "to see what is wrong: fairhold doctor"
        } else {
            "pass the nodes to ask with -e URL or FAIRHOLD_ENDPOINT"
        };
        format!("no answer within {within}: {last} ({hint}){advice}")
    }
}

impl Attempts {
    fn record(&mut self, event: CallEvent<'_>) {
        match event {
            CallEvent::Started { endpoint, .. } => {
                self.is_in_flight = true;
                endpoint.clone_into(&mut self.endpoint);
            }
            CallEvent::Failed { endpoint, why, foreign, .. } => {
                self.is_in_flight = false;
                self.foreign = if foreign { self.foreign + 1 } else { 0 };
                self.last = if foreign { why.to_owned() } else { format!("{endpoint}: {}", reason(endpoint, why)) };
                if !foreign && status(why).is_some() {
                    self.refusal = Some(self.last.clone());
                }
            }
            _ => {}
        }
    }

    /// Why the last attempt failed; none while another one is in flight.
    fn failed(&self) -> Option<&str> {
        (!self.is_in_flight && !self.last.is_empty()).then_some(self.last.as_str())
    }
}

/// The part of a reason that a person needs: the innermost cause of a network error, and the detail of an answer.
fn reason<'w>(endpoint: &str, why: &'w str) -> &'w str {
    if let Some(causes) = why.strip_prefix(endpoint).and_then(|rest| rest.strip_prefix(": ")) {
        let timed_out = "no answer in time";
        return match causes.rsplit(": ").next().unwrap_or(causes) {
            _ if causes.starts_with(timed_out) => timed_out,
            // The port for nodes answers HTTP in this way.
            CLOSED => CLOSED_ADVICE,
            innermost => innermost,
        };
    }
    let detail = status(why).and_then(|status| why.strip_prefix(&status.to_string())).map(str::trim);
    detail.filter(|detail| !detail.is_empty()).unwrap_or(why)
}

/// The status of the answer, if there was one.
fn status(why: &str) -> Option<StatusCode> {
    why.get(..3).and_then(|code| StatusCode::from_bytes(code.as_bytes()).ok())
}

#[cfg(test)]
#[path = "api_tests.rs"]
mod tests;
