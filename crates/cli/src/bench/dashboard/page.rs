//! The calls of each page of the dashboard, as the files of `crates/ui/web/app` make them.

use std::time::Duration;

/// The headers of the look that all pages share.
const LOOK_HEADERS: &str = "accept: application/json\r\n";
/// The headers of a page's own calls.
const PAGE_HEADERS: &str = "accept: application/json\r\nfairhold-timeout: 3s\r\n";
/// How long the page waits for the answer to a call of its own.
const PAGE_WITHIN: Duration = Duration::from_secs(5);

/// A call that a page makes again and again.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageCall {
    /// The path and the parameters.
    address: &'static str,
    /// Its headers, as complete lines.
    pub(super) headers: &'static str,
    /// The pause between an answer and the next call.
    pub(super) pause: Duration,
    /// How long the page waits for an answer.
    pub(super) within: Duration,
    /// The field of an answer that the next call passes as `after`.
    pub(super) position: Option<&'static str>,
}

impl PageCall {
    /// A call of a page's own.
    const fn new(address: &'static str, pause_seconds: u64) -> PageCall {
        let pause = Duration::from_secs(pause_seconds);
        PageCall { address, headers: PAGE_HEADERS, pause, within: PAGE_WITHIN, position: None }
    }

    /// The target of the request for what is after a position, or for all.
    pub(super) fn target(&self, after: Option<&str>) -> String {
        let Some(after) = after else { return self.address.to_owned() };
        let sign = if self.address.contains('?') { '&' } else { '?' };
        format!("{}{sign}after={after}", self.address)
    }

    /// The path without the parameters.
    pub(super) fn url_path(&self) -> &'static str {
        self.address.split_once('?').map_or(self.address, |(url_path, _)| url_path)
    }
}

const LOOK: PageCall =
    PageCall { headers: LOOK_HEADERS, within: Duration::from_millis(1_500), ..PageCall::new("/v1/overview", 1) };
const SERIES: PageCall = PageCall { position: Some("next"), ..PageCall::new("/v1/overview/series", 1) };
const LOCKS: PageCall = PageCall::new("/v1/locks?consistency=local&limit=100&sort=longest_wait", 2);
const WAITS: PageCall = PageCall::new("/v1/waits?limit=200", 2);
const SESSIONS: PageCall = PageCall::new("/v1/sessions?consistency=local&limit=50", 2);
const ELECTIONS: PageCall = PageCall::new("/v1/elections?consistency=local&limit=100", 2);
const EVENTS: PageCall = PageCall { position: Some("revision"), ..PageCall::new("/v1/events?consistency=local&limit=100", 1) };
const MEMBERS: PageCall = PageCall::new("/v1/cluster/members", 3);
const UPGRADE: PageCall = PageCall::new("/v1/cluster/upgrade", 10);
const CLUSTER: PageCall = PageCall::new("/v1/cluster", 3);

const OVERVIEW_PAGE: &[PageCall] = &[LOOK, SERIES];
const LOCKS_PAGE: &[PageCall] = &[LOOK, LOCKS];
const WAITS_PAGE: &[PageCall] = &[LOOK, WAITS];
const SESSIONS_PAGE: &[PageCall] = &[LOOK, SESSIONS];
const ELECTIONS_PAGE: &[PageCall] = &[LOOK, ELECTIONS];
const EVENTS_PAGE: &[PageCall] = &[LOOK, EVENTS];
const CLUSTER_PAGE: &[PageCall] = &[LOOK, MEMBERS, UPGRADE, CLUSTER];

/// A page of the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum DashboardPage {
    /// The totals over time, the longest waits and holds
    Overview,
    /// The locks, the longest wait first
    Locks,
    /// Who waits for whom
    Waits,
    /// The sessions
    Sessions,
    /// The elections
    Elections,
    /// The recent events
    Events,
    /// The members
    Cluster,
}

impl DashboardPage {
    /// Its name in the report.
    pub(super) fn name(self) -> &'static str {
        match self {
            DashboardPage::Overview => "overview",
            DashboardPage::Locks => "locks",
            DashboardPage::Waits => "waits",
            DashboardPage::Sessions => "sessions",
            DashboardPage::Elections => "elections",
            DashboardPage::Events => "events",
            DashboardPage::Cluster => "cluster",
        }
    }

    /// The calls that it makes while it is open, without filters.
    pub(super) fn calls(self) -> &'static [PageCall] {
        match self {
            DashboardPage::Overview => OVERVIEW_PAGE,
            DashboardPage::Locks => LOCKS_PAGE,
            DashboardPage::Waits => WAITS_PAGE,
            DashboardPage::Sessions => SESSIONS_PAGE,
            DashboardPage::Elections => ELECTIONS_PAGE,
            DashboardPage::Events => EVENTS_PAGE,
            DashboardPage::Cluster => CLUSTER_PAGE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A file of the page.
    fn source(file: &str) -> String {
        fs::read_to_string(format!("../ui/web/app/{file}")).unwrap()
    }

    #[test]
    fn a_position_joins_the_other_parameters() {
        assert_eq!(SERIES.target(None), "/v1/overview/series");
        assert_eq!(SERIES.target(Some("1s-0f-5")), "/v1/overview/series?after=1s-0f-5");
        assert_eq!(EVENTS.target(Some("42")), "/v1/events?consistency=local&limit=100&after=42");
        assert_eq!((EVENTS.url_path(), SERIES.url_path()), ("/v1/events", "/v1/overview/series"));
    }

    #[test]
    fn the_look_is_that_of_the_page() {
        let state = source("state.js");
        let look = r#"call("v1/overview", { token: sent, timeout: 1500 })"#;
        for line in ["const EVERY = 1000;", look, "setTimeout(next, failures === 1 ? EVERY / 2 : Math.max(EVERY, "] {
            assert!(state.contains(line), "state.js has no {line}");
        }
        assert_eq!((LOOK.pause, LOOK.within), (Duration::from_secs(1), Duration::from_millis(1_500)));
    }

    #[test]
    fn the_calls_of_each_page_are_those_of_its_file() {
        let parts = source("parts.js") + &source("api.js");
        for line in [r#"const WITHIN = "3s";"#, "const TIMEOUT = 5000;", r#"accept = "application/json""#] {
            assert!(parts.contains(line), "parts.js and api.js have no {line}");
        }
        let lines: &[(&str, &[&str])] = &[
            ("overview", &[r#"usePoll("v1/overview/series", 1000, askSeries)"#, "{ after: kept.value.next }"]),
            (
                "locks",
                &[
                    r#""v1/locks""#,
                    r#"consistency: "local", limit: ROWS"#,
                    r#"? sort : "longest_wait""#,
                    "const ROWS = 100;",
                    "usePoll(path, 2000)",
                ],
            ),
            ("waits", &[r#""v1/waits", { ...given, limit: ROWS }"#, "const ROWS = 200;", "usePoll(path, 2000)"]),
            (
                "sessions",
                &[r#""v1/sessions", { consistency: "local", limit: LISTED"#, "const LISTED = 50;", "usePoll(path, 2000)"],
            ),
            (
                "elections",
                &[r#""v1/elections", { consistency: "local", limit: ROWS"#, "const ROWS = 100;", "usePoll(path, 2000)"],
            ),
            (
                "events",
                &[r#""v1/events", { consistency: "local", limit: ROWS"#, "const ROWS = 100;", "usePoll(path, 1000,", "&after="],
            ),
            (
                "cluster",
                &[
                    r#"usePoll("v1/cluster/members", EVERY)"#,
                    r#"usePoll("v1/cluster/upgrade", SELDOM)"#,
                    r#"usePoll("v1/cluster", EVERY)"#,
                    "const EVERY = 3000;",
                    "const SELDOM = 10000;",
                ],
            ),
        ];
        for (page, lines) in lines {
            let file = source(&format!("pages/{page}.js"));
            for line in *lines {
                assert!(file.contains(line), "pages/{page}.js has no {line}: correct its calls here");
            }
        }
    }
}
