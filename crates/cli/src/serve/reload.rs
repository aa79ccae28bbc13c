//! SIGHUP: reads the configuration again. All or nothing: a configuration with an error changes nothing.
//!
//! Some settings change at once. A change of another one is named in the log, and has its effect at the next start.
//! Signals that arrive during a reload are one more reload, which reads the files after the last of them.

use super::{args::ServeArgs, audit, certificates::FollowedFiles, check, open_files};
use crate::{
    config::{LoadedConfig, ServeConfig, source::outside_the_file},
    telemetry::{
        self, LogFilter,
        exporter::{Exporter, TraceExport},
    },
};
use fairhold_http::{Audit, ConnectionLimits, Limits, SlowRequests};
use fairhold_metrics::{ByLabel, Counter, Registry};
use fairhold_trust::{
    jwt::JwtProviders,
    late::{LATE_AFTER, say_if_late},
};
use fairhold_types::text::without_userinfo;
use std::{collections::BTreeMap, env};
use tokio::{signal::unix::Signal, task::spawn_blocking};
use tracing_subscriber::EnvFilter;

/// Settings that change at once. Those of an audit log do too, if there was one at the start.
const LIVE: [&str; 4] = ["log", "connections-max", "connections-per-address-max", "slow-request"];
/// The table of the audit log.
const AUDIT: &str = "audit.";
/// The tables of providers of JWTs.
const JWT: &str = "jwt.";

/// The table of traces.
const TRACE: &str = "trace.";

/// The parts of a running node that a reload can change.
pub(super) struct LiveParts {
    pub(super) log: LogFilter,
    pub(super) connections: ConnectionLimits,
    pub(super) audit: Audit,
    pub(super) followed: FollowedFiles,
    pub(super) slow: SlowRequests,
    pub(super) traces: TraceExport,
}

/// How many reloads were accepted and refused, and how many took long. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct ReloadCounters {
    accepted: Counter,
    refused: Counter,
    late: Counter,
}

impl ReloadCounters {
    pub(super) fn register(&self, registry: &mut Registry) {
        let results = [("accepted", self.accepted.clone()), ("refused", self.refused.clone()), ("late", self.late.clone())];
        let help = "Times that SIGHUP made this node read its configuration again";
        registry.register("config_reloads", help, ByLabel::new("result", results));
    }
}

/// The values of a file by their names, with those of the tables, such as `audit.what`.
type Values = BTreeMap<String, toml::Value>;

/// Reads the configuration again.
pub(super) struct Reload {
    args: ServeArgs,
    /// What counts now: for settings that need a restart, the values of the start.
    running: Values,
    live: LiveParts,
    counters: ReloadCounters,
}

/// A configuration without an error, with everything that a change needs.
struct Accepted {
    config: ServeConfig,
    values: Values,
    changed: Changed,
    filter: EnvFilter,
    limits: Limits,
    /// If they have changed.
    providers: Option<JwtProviders>,
    /// If the table of traces has changed: its exporter, or none.
    exporter: Option<Option<Exporter>>,
}

/// The names of settings that have changed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changed {
    /// They change at once.
    at_once: Vec<String>,
    /// They need a restart.
    at_restart: Vec<String>,
}

impl Reload {
    pub(super) fn new(args: ServeArgs, values: &toml::Table, live: LiveParts) -> Reload {
        Reload { args, running: flat(values), live, counters: ReloadCounters::default() }
    }

    pub(super) fn counters(&self) -> ReloadCounters {
        self.counters.clone()
    }

    /// Reloads at each signal until this task is aborted.
    pub(super) async fn at_each(mut self, mut hangups: Signal) {
        while hangups.recv().await.is_some() {
            // It reads files, and tries certificates.
            let late = self.counters.late.clone();
            let reloading = spawn_blocking(move || {
                self.reload();
                self
            });
            let say = || {
                late.inc();
                tracing::warn!(
                    "SIGHUP: the reload is not done after {} s: a file that the configuration names does not answer. Until it \
                     does, the old configuration counts, and another SIGHUP has no effect",
                    LATE_AFTER.as_secs()
                );
            };
            match say_if_late(reloading, LATE_AFTER, say).await {
                Ok(this) => self = this,
                Err(error) => {
                    tracing::error!(%error, "SIGHUP has no effect any more");
                    return;
                }
            }
        }
    }

    fn reload(&mut self) {
        match self.check() {
            Ok(accepted) => self.accept(accepted),
            Err(findings) => {
                self.counters.refused.inc();
                for finding in &findings {
                    tracing::error!("SIGHUP: {}", without_userinfo(finding));
                }
                tracing::error!(findings = findings.len(), "SIGHUP: the configuration has errors, so nothing has changed");
            }
        }
    }

    /// Reads the configuration and every file that it names. It changes nothing.
    fn check(&self) -> Result<Accepted, Vec<String>> {
        let LoadedConfig { config, values } = ServeConfig::load(self.args.clone()).map_err(|error| error.findings())?;
        let findings = check::findings(&config);
        if !findings.is_empty() {
            return Err(findings);
        }
        let one = |error: String| vec![error];
        let values = flat(&values);
        let typed: Vec<String> = env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let changed = changed(&self.running, &values, self.has_audit(&config), |name| outside_the_file(name, &typed).is_some());
        let filter = telemetry::filter(&config.log).map_err(one)?;
        let limits = open_files::fit_connections(config.limits).map_err(|error| one(error.to_string()))?;
        let has_new_providers = changed.at_once.iter().any(|name| name.starts_with(JWT));
        let providers = has_new_providers.then(|| JwtProviders::load(config.jwt.clone())).transpose();
        let providers = providers.map_err(|error| one(error.to_string()))?;
        let has_new_exporter = changed.at_once.iter().any(|name| name.starts_with(TRACE));
        let exporter = has_new_exporter.then(|| config.trace.as_ref().map(Exporter::new).transpose()).transpose().map_err(one)?;
        if let Some(audit) = config.audit.as_ref().filter(|_| self.has_audit(&config)) {
            audit::try_file(audit).map_err(|error| one(error.to_string()))?;
        }
        Ok(Accepted { config, values, changed, filter, limits, providers, exporter })
    }

    /// Whether there is an audit log, and still is to be one.
    fn has_audit(&self, config: &ServeConfig) -> bool {
        self.live.audit.log().is_some() && config.audit.is_some()
    }

    /// Applies a configuration. Nothing of it can fail.
    fn accept(&mut self, accepted: Accepted) {
        let Accepted { config, values, changed, filter, limits, providers, exporter } = accepted;
        if let Err(error) = self.live.log.replace(filter) {
            tracing::error!(%error, "the log keeps its filter");
        }
        self.live.connections.set(limits.connections, limits.per_address);
        self.live.slow.set_limit(config.slow_request);
        if let Some(exporter) = exporter {
            self.live.traces.replace(exporter);
        }
        if let (Some(log), Some(audit)) = (self.live.audit.log(), &config.audit) {
            log.set_rule(audit.scope, audit.is_required);
            tracing::info!("SIGHUP: opening the audit log again");
            log.move_to(audit.file.clone());
        }
        if let Some(providers) = &providers {
            self.live.followed.replace_providers(providers);
        }
        if config.follows_files() {
            tracing::info!("SIGHUP: reading the certificates and keys again");
        }
        self.live.followed.read_again();
        for name in &changed.at_once {
            match values.get(name) {
                Some(value) => self.running.insert(name.clone(), value.clone()),
                None => self.running.remove(name),
            };
        }
        self.counters.accepted.inc();
        tracing::info!(changed = changed.at_once.join(", "), "SIGHUP: the configuration was read again");
        if !changed.at_restart.is_empty() {
            let names = changed.at_restart.join(", ");
            tracing::warn!("SIGHUP: a change of {names} needs a restart of this node: until then, the old value counts");
        }
    }
}

/// The names of the settings whose values differ, except for those that the file does not decide.
fn changed(running: &Values, new: &Values, has_audit: bool, is_overridden: impl Fn(&str) -> bool) -> Changed {
    let mut changed = Changed::default();
    let added = new.keys().filter(|name| !running.contains_key(*name));
    let mut names: Vec<&String> = running.keys().chain(added).filter(|name| running.get(*name) != new.get(*name)).collect();
    names.sort_unstable();
    for name in names {
        // Flags have the name of the key alone.
        let flag = name.rsplit_once('.').map_or(name.as_str(), |(_, key)| key);
        let is_in = |tables: &[&str]| tables.iter().any(|table| name.starts_with(table));
        let has_flag = !is_in(&[AUDIT, JWT, TRACE]);
        if has_flag && is_overridden(flag) {
            continue;
        }
        let is_live = LIVE.contains(&name.as_str()) || is_in(&[JWT, TRACE]) || (is_in(&[AUDIT]) && has_audit);
        if is_live { &mut changed.at_once } else { &mut changed.at_restart }.push(name.clone());
    }
    changed
}

/// The values by their names.
fn flat(table: &toml::Table) -> Values {
    let mut values = Values::new();
    for (name, value) in table {
        match value.as_table() {
            Some(inner) => values.extend(flat(inner).into_iter().map(|(key, value)| (format!("{name}.{key}"), value))),
            None => {
                values.insert(name.clone(), value.clone());
            }
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Values {
        flat(&text.parse().unwrap())
    }

    #[test]
    fn a_change_is_named_with_its_table_and_says_whether_it_needs_a_restart() {
        let running = values("log = \"info\"\nlisten = \"a:1\"\nid = 1\n[audit]\nwhat = \"all\"\n[jwt.ci]\nissuer = \"i\"\n");
        let tables = "[audit]\nwhat = \"writes\"\n[jwt.k8s]\nissuer = \"i\"\n[trace]\nsample = 0.5\n";
        let new = values(&format!("log = \"warn\"\nid = 1\ndata = \"d\"\nslow-request = \"2s\"\n{tables}"));
        let of = |has_audit, overridden: &'static str| changed(&running, &new, has_audit, move |name| name == overridden);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let all = of(true, "");
        assert_eq!(all.at_once, names(&["audit.what", "jwt.ci.issuer", "jwt.k8s.issuer", "log", "slow-request", "trace.sample"]));
        assert_eq!(all.at_restart, names(&["data", "listen"]));
        let without_audit = of(false, "data");
        assert_eq!(without_audit.at_once, names(&["jwt.ci.issuer", "jwt.k8s.issuer", "log", "slow-request", "trace.sample"]));
        assert_eq!(without_audit.at_restart, names(&["audit.what", "listen"]), "the flag counts, so the file changes nothing");
        assert_eq!(changed(&running, &running, true, |_| false), Changed::default());
    }
}
