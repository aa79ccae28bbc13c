//! The messages on stderr during the wait for the lock.

use crate::remote::format::{rounded, terminal_safe};
use fairhold_client::{Client, Error, LastRefusal, QueuePlace};
use fairhold_types::{Code, duration};
use futures_util::future::select_ok;
use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};

/// How often the spinner moves.
const SPIN_EVERY: Duration = Duration::from_millis(120);
const SPINNER: [char; 4] = ['|', '/', '-', '\\'];
/// Clears the line.
const CLEAR: &str = "\r\x1b[K";
/// How long a request for the holder may take.
const HOLDER_TIMEOUT: Duration = Duration::from_secs(2);
/// How many times per timeout it checks that a node answers, and the longest interval between checks.
const CHECKS_PER_TIMEOUT: u32 = 4;
const CHECK_EVERY_MAX: Duration = Duration::from_secs(5);
/// It reports a missing first answer after this time.
const REPORT_AFTER: Duration = Duration::from_secs(1);
/// It reports that no node can serve after this time.
const NO_SERVICE_AFTER: Duration = Duration::from_secs(3);
/// How often it checks whether the request is refused.
const REFUSAL_CHECK_EVERY: Duration = Duration::from_secs(3);
/// How much of a server's reason is shown.
const DETAIL_CHARS_MAX: usize = 300;
/// The shortest time limit of a check.
const CHECK_TIMEOUT_MIN: Duration = Duration::from_millis(100);

/// Reports the place in the queue until it is dropped. Never returns.
pub(super) async fn report_place(client: &Client, name: &str, mut places: mpsc::Receiver<QueuePlace>, is_verbose: bool) {
    let Some(first) = places.recv().await else { return std::future::pending().await };
    let mut line = describe(client, name, &first).await;
    if !io::stderr().is_terminal() {
        write(&format!("fairhold: {line}\n"));
        loop {
            let Some(place) = places.recv().await else { return std::future::pending().await };
            if is_verbose {
                write(&format!("fairhold: {}\n", describe(client, name, &place).await));
            }
        }
    }
    let _cleared = ClearLine;
    let mut spins = interval(SPIN_EVERY);
    let started = Instant::now();
    let mut turn = 0;
    spins.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            Some(place) = places.recv() => line = describe(client, name, &place).await,
            _ = spins.tick() => {
                turn = (turn + 1) % SPINNER.len();
                let columns = rustix::termios::tcgetwinsize(io::stderr()).map_or(80, |size| size.ws_col.max(20));
                let text = format!("{} {line} ({} s)", SPINNER[turn], started.elapsed().as_secs());
                let text: String = text.chars().take(usize::from(columns) - 1).collect();
                write(&format!("{CLEAR}{text}"));
            }
        }
    }
}

struct ClearLine;

impl Drop for ClearLine {
    fn drop(&mut self) {
        write(CLEAR);
    }
}

fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    // Nobody may read stderr; the lock is what matters.
    stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()).ok();
}

async fn describe(client: &Client, name: &str, place: &QueuePlace) -> String {
    let looked = timeout(HOLDER_TIMEOUT, client.locks().local().get_page(name, 1, None)).await;
    let held = looked.ok().and_then(Result::ok).and_then(|lock| lock.value.holders.into_iter().next()).map(|holder| {
        let held_for = holder.held_for.map_or_else(String::new, |held| format!(" for {}", rounded(&held)));
        format!("held by {} (#{}){held_for}", terminal_safe(&holder.owner), holder.number)
    });
    let held = held.unwrap_or_else(|| "not held at the moment".to_owned());
    let estimate = place.estimate.filter(|estimate| !estimate.is_zero());
    let estimate = estimate.map_or_else(String::new, |estimate| format!(", usually {} from here", approximate(estimate)));
    format!("waiting for {}: {held}; your place is {}{estimate}", terminal_safe(name), place.position)
}

/// An estimate, rounded to its likely precision.
fn approximate(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 => "less than 1s".to_owned(),
        1..120 => format!("{seconds}s"),
        120..7_200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3_600),
    }
}

/// Reports once, after a second, that no node has answered yet. Never returns.
pub(super) async fn report_silence(client: &Client, within: Duration) {
    sleep(REPORT_AFTER).await;
    if client.cluster_id().is_none() {
        let why = client.contact().failure.map_or_else(String::new, |failure| format!(" ({})", terminal_safe(&failure)));
        let endpoints = client.endpoints().join(", ");
        write(&format!(
            "fairhold: no answer yet from {endpoints}{why}: is it running? Trying for {}\n",
            duration::rounded(within)
        ));
    }
    std::future::pending().await
}

/// Reports once that the nodes answer but cannot serve, such as without a majority. Otherwise a wait without a limit would
/// be silent. Never returns.
pub(super) async fn report_no_service(client: &Client, name: &str, is_queued: watch::Receiver<bool>) {
    // A change of the leader takes less.
    sleep(NO_SERVICE_AFTER).await;
    if client.cluster_id().is_some() && !*is_queued.borrow() {
        let can_serve = can_serve(client, name).await;
        if !can_serve && !*is_queued.borrow() {
            write("fairhold: a node answers, but cannot serve: waiting until it can (to see what is wrong: fairhold doctor)\n");
        }
    }
    std::future::pending().await
}

/// Whether the cluster answers a request that needs a majority.
async fn can_serve(client: &Client, name: &str) -> bool {
    match timeout(HOLDER_TIMEOUT, client.locks().get_page(name, 1, None)).await {
        Ok(Err(Error::Unavailable { .. })) | Err(_) => false,
        // It may also be refused for a right: the request for the lock says so.
        Ok(Ok(_) | Err(_)) => true,
    }
}

/// What to say after a wait in which the request was never in the queue, if that is because the cluster cannot serve.
pub(super) async fn never_queued(client: &Client, name: &str, error: &Error) -> Option<String> {
    let Error::WaitTimeout { holder: None, waited, .. } = error else { return None };
    (!can_serve(client, name).await).then(|| {
        let (name, waited) = (terminal_safe(name), duration::rounded(*waited));
        format!(
            "the lock {name} was not acquired within {waited}: a node answers, but cannot serve (to see what is wrong: fairhold \
             doctor)"
        )
    })
}

/// Reports why the cluster refuses the request for now. Never returns.
pub(super) async fn report_refusals(client: &Client, name: &str) {
    let mut checks = RefusalChecks::default();
    // The line of a terminal may show the place in the queue.
    let clear = if io::stderr().is_terminal() { CLEAR } else { "" };
    loop {
        sleep(REFUSAL_CHECK_EVERY).await;
        let contact = client.contact();
        if contact.failure.is_some() {
            // Nobody answers now, so the last refusal may be over.
            continue;
        }
        // `report_no_service` reports a cluster without a majority. A request whose credential is not valid says so itself.
        let is_told = |refusal: &LastRefusal| matches!(refusal.code, Some(Code::NoQuorum | Code::Unauthenticated));
        let refusal = contact.refusal.filter(|refusal| !is_told(refusal));
        let is_due = checks.is_due(refusal.as_ref().map(reason));
        if let Some(refusal) = refusal.filter(|_| is_due) {
            let code = refusal.code.map_or_else(String::new, |code| format!(" ({code})"));
            let detail: String = refusal.detail.chars().take(DETAIL_CHARS_MAX).collect();
            let (name, detail) = (terminal_safe(name), terminal_safe(&detail));
            let why = format!("the cluster refuses the request for now: {detail}{code}");
            write(&format!("{clear}fairhold: waiting for {name}: {why}; trying again\n"));
        }
    }
}

/// What stays the same while a cluster refuses a request for one reason. All codes that this version does not know count as
/// one: their texts may change each time.
fn reason(refusal: &LastRefusal) -> &str {
    refusal.code.map_or("", Code::as_str)
}

/// The checks so far for a refusal.
#[derive(Debug, Default)]
struct RefusalChecks {
    was_refused: bool,
    reported: Vec<String>,
}

impl RefusalChecks {
    /// Whether to report this reason now: each one once, until the cluster accepts something again. The first check that
    /// finds a refusal reports nothing: a node that stops refuses a request too, and the next one accepts it.
    fn is_due(&mut self, reason: Option<&str>) -> bool {
        let was_refused = std::mem::replace(&mut self.was_refused, reason.is_some());
        let Some(reason) = reason else {
            self.reported.clear();
            return false;
        };
        if !was_refused || self.reported.iter().any(|reported| reported == reason) {
            return false;
        }
        self.reported.push(reason.to_owned());
        true
    }
}

/// Waits until no node has answered for as long as the caller allows: no named node and no node known from them,
/// neither to the request for the lock nor to a plain read. Returns the last error.
pub(super) async fn no_answer(client: &Client, within: Duration) -> String {
    let every = (within / CHECKS_PER_TIMEOUT).min(CHECK_EVERY_MAX);
    let cluster = &client.cluster();
    loop {
        let started = Instant::now();
        let checks = client
            .endpoints()
            .into_iter()
            .map(|url| Box::pin(async move { if matches!(cluster.is_alive(&url).await, Ok(true)) { Ok(()) } else { Err(()) } }));
        let answered = timeout(every.max(CHECK_TIMEOUT_MIN), select_ok(checks)).await;
        let contact = client.contact();
        if !matches!(answered, Ok(Ok(_))) && contact.silent_for >= within {
            return contact.failure.map_or_else(String::new, |failure| format!(" ({})", terminal_safe(&failure)));
        }
        sleep(every.saturating_sub(started.elapsed())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_has_one_unit() {
        for (millis, text) in [(40, "less than 1s"), (1_900, "1s"), (119_000, "119s"), (120_000, "2 min"), (7_200_000, "2 h")] {
            assert_eq!(approximate(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn each_reason_of_a_lasting_refusal_is_reported_once() {
        let mut checks = RefusalChecks::default();
        let mut due = |reasons: &[Option<&str>]| reasons.iter().map(|reason| checks.is_due(*reason)).collect::<Vec<_>>();
        let (full, stops) = (Some("disk_low"), Some("shutting_down"));
        assert_eq!(due(&[None, stops, None, None]), [false; 4], "it does not last");
        assert_eq!(due(&[full, full, full]), [false, true, false]);
        assert_eq!(due(&[stops, full, stops]), [true, false, false], "another reason");
        assert_eq!(due(&[None, full, full]), [false, false, true], "it was accepted in between");
    }
}
