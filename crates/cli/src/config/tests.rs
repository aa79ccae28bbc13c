//! Tests of how the configuration is resolved and checked.

use super::{
    error::ConfigError,
    start::{MemberSource, StartingNode},
    *,
};
use crate::exit;
use fairhold_http::AuditScope;
use fairhold_raft::{JoinSecret, JoinToken};
use fairhold_storage::{
    data_dir::DataDir,
    known_members::{KnownAddresses, KnownMembers},
    timing_file,
};
use fairhold_types::{ClusterId, JoinTokenNumber, NodeId};
use std::{
    fs,
    path::{self, Path},
};

const FILE: &str = "id = 1\ndata = \"from-file\"\nlisten = \"0.0.0.0:1\"\nlog = \"warn\"\n\
                    member = [\"1=http://a:7171,a:7271\", \"2=http://b:7171,b:7271\"]\n";

/// Resolves with a file of this content.
fn with_file(content: &str, args: ServeArgs) -> Result<ServeConfig, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fairhold.toml");
    fs::write(&path, content).unwrap();
    ServeConfig::resolve(ServeArgs { config: Some(path), ..args })
}

fn complaint(result: Result<ServeConfig, ConfigError>) -> String {
    result.unwrap_err().to_string()
}

fn flags() -> ServeArgs {
    ServeArgs {
        id: Some(1),
        data: Some("from-flag".into()),
        member: vec!["1=http://a:7171,a:7271".to_owned()],
        peer_key_file: Some("peer.key".into()),
        insecure: true,
        ..ServeArgs::default()
    }
}

/// The node that a configuration starts.
fn starting(config: &ServeConfig) -> &StartingNode {
    match &config.start {
        Start::Known(node) => node,
        Start::Join { .. } => panic!("it joins"),
    }
}

#[test]
fn only_insecure_allows_plain_text_where_other_machines_can_reach_it() {
    let with = |insecure, key: Option<&str>| {
        let config = ServeConfig::resolve(ServeArgs { insecure, peer_key_file: key.map(PathBuf::from), ..flags() });
        config.map(|config| (config.peers, config.exposures))
    };
    let text = complaint(ServeConfig::resolve(ServeArgs { insecure: false, ..flags() }));
    assert!(text.starts_with("other machines can reach --peer-listen a:7271, so ") && text.contains("--peer-cert"), "{text}");
    assert!(with(false, None).unwrap_err().to_string().contains("--peer-key-file"));
    let (key, open) = (with(true, Some("k")).unwrap(), with(true, None).unwrap());
    assert_eq!(key, (PeerTrust::Key("k".into()), vec![Exposure::PlainPeers, Exposure::PlainClients]));
    assert_eq!(open, (PeerTrust::Nothing, vec![Exposure::OpenPeers, Exposure::PlainPeers, Exposure::PlainClients]));
    let local = ServeArgs { member: vec!["1=http://127.0.0.1:1,localhost:2".to_owned()], insecure: false, ..flags() };
    assert_eq!(ServeConfig::resolve(local).unwrap().exposures, []);
}

#[test]
fn the_configuration_file_can_name_the_peer_key_and_say_insecure() {
    let none = || ServeArgs { peer_key_file: None, ..flags() };
    let secure = || ServeArgs { insecure: false, ..none() };
    assert_eq!(with_file("insecure = true\n", secure()).unwrap().peers, PeerTrust::Nothing);
    assert_eq!(with_file("peer-key-file = \"k\"\n", none()).unwrap().peers, PeerTrust::Key("k".into()));
    assert_eq!(with_file("peer-key-file = \"k\"\n", flags()).unwrap().peers, PeerTrust::Key("peer.key".into()));
}

#[test]
fn listen_addresses_default_to_those_of_the_nodes_member() {
    let config = ServeConfig::resolve(flags()).unwrap();
    assert_eq!((config.listen.as_str(), config.peer_listen.as_str()), ("a:7171", "a:7271"));
    assert_eq!(config.log, LOG_DEFAULT);
}

#[test]
fn flags_override_the_file_and_the_file_overrides_defaults() {
    let config =
        with_file(FILE, ServeArgs { id: Some(2), listen: Some("[::]:2".to_owned()), insecure: true, ..ServeArgs::default() })
            .unwrap();
    assert_eq!((config.start.id(), config.data, config.log.as_str()), (Some(2), "from-file".into(), "warn"));
    assert_eq!((config.listen.as_str(), config.peer_listen.as_str()), ("[::]:2", "b:7271"));
    let config = with_file(FILE, flags()).unwrap();
    assert_eq!((starting(&config).members.len(), config.listen.as_str()), (1, "0.0.0.0:1"));
}

#[test]
fn required_tls_authenticates_nodes_without_a_key_and_optional_tls_does_not() {
    let at = |mode: &str| {
        let text =
            format!("peer-cert = \"c\"\npeer-key = \"k\"\npeer-ca = \"a\"\ncluster-name = \"prod\"\npeer-tls = \"{mode}\"\n");
        let listen = Some("127.0.0.1:1".to_owned());
        with_file(&text, ServeArgs { peer_key_file: None, listen, insecure: false, ..flags() })
    };
    let required = at("required").unwrap();
    assert_eq!((required.peers, required.peer_tls.unwrap().is_required), (PeerTrust::Certificates, true));
    for mode in ["optional", "off"] {
        assert!(matches!(at(mode), Err(ConfigError::Exposed { exposure: Exposure::OpenPeers, .. })), "{mode}");
    }
    assert!(complaint(at("sometimes")).contains("unknown variant `sometimes`"));
}

#[test]
fn an_unknown_key_in_the_file_is_refused_with_a_suggestion() {
    for (key, suggestion) in [
        ("idd", "did you mean `id`?"),
        ("peer_listen", "did you mean `peer-listen`?"),
        ("Members", "did you mean `member`?"),
        ("lgo", "did you mean `log`?"),
        ("peer", "did you mean `peer-listen`?"),
        (
            "replication",
            "the valid keys are id, data, member, join-file, advertise, timing, listen, listen-plain, cert, key, client-ca, \
             tls-min, peer-listen, listen-status, allowed-host, ui, peer-key-file, peer-cert, peer-key, peer-ca, peer-tls, \
             cluster-name, insecure, connections-max, connections-per-address-max, event-ring-bytes, state-bytes-max, log, \
             slow-request, admin-token-file, audit, backup, trace, upgrade, jwt",
        ),
    ] {
        let text = complaint(with_file(&format!("{key} = 1\n"), flags()));
        assert!(text.contains(&format!("has the unknown key `{key}`")) && text.contains(suggestion), "{text}");
    }
}

#[test]
fn scheduled_backups_have_a_table_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_owned();
    let named = |rest: &str| format!("[backup]\ndir = {:?}\n{rest}\n", dir.display().to_string());
    let resolved = |text: &str| with_file(text, flags()).map(|config| config.backup);
    let default = BackupConfig { dir: dir.clone(), every: Duration::from_secs(3_600), keep: 48 };
    assert_eq!(resolved(&named("")).unwrap(), Some(default));
    let other = BackupConfig { dir: dir.clone(), every: Duration::from_secs(60), keep: 1 };
    assert_eq!(resolved(&named("every = \"1m\"\nkeep = 1")).unwrap(), Some(other));
    assert_eq!(ServeConfig::resolve(flags()).unwrap().backup, None);
    for (text, reason) in [
        ("[backup]\n".to_owned(), "the table [backup] in the configuration file needs the key `dir`"),
        ("[backup]\ndir = \"\"\n".to_owned(), "needs the key `dir`"),
        (named("keep = 0"), "backup.keep in the configuration file is 0: the minimum is 1"),
        (named("every = \"59s\""), "backup.every in the configuration file: 59s: write a time from 60s to 720h"),
        (named("every = \"721h\""), "write a time from 60s to 720h"),
        (named("every = \"often\""), "`often` is not a duration"),
        (named("every = \"59s\"\nkeep = 0"), "59s: write a time from 60s to 720h\nfairhold: backup.keep"),
        ("[backup]\nkeep = 0\n".to_owned(), "needs the key `dir`: the folder of the backups\nfairhold: backup.keep"),
        ("[backup]\ndir = \"from-flag/backups\"\n".to_owned(), "from-flag/backups is in the data directory"),
        (format!("[backup]\ndir = {:?}\n", path::absolute("from-flag").unwrap()), "is in the data directory"),
        (named("folder = \"x\""), "the unknown key `backup.folder`"),
        ("keep = 3\n".to_owned(), "it belongs to the table [backup]"),
    ] {
        let error = with_file(&text, flags()).unwrap_err();
        assert!(error.to_string().contains(reason), "{text}: {error}");
        assert_eq!(error.exit_code(), 2, "{text}");
    }
}

#[test]
fn the_audit_log_has_a_table_of_its_own() {
    let resolved = |text: &str| with_file(&format!("[audit]\n{text}\n"), flags()).map(|config| config.audit.unwrap());
    let default = resolved("file = \"audit.log\"").unwrap();
    assert_eq!(default, AuditConfig { file: "audit.log".into(), scope: AuditScope::Denied, is_required: false });
    let all = resolved("file = \"audit.log\"\nwhat = \"all\"\nrequired = true").unwrap();
    assert_eq!((all.scope, all.is_required), (AuditScope::All, true));
    assert_eq!(ServeConfig::resolve(flags()).unwrap().audit, None);
    assert!(with_file("[audit]\nfile = \"a\"\n", flags()).unwrap().reloads_at_hangup());
    let folder = tempfile::tempdir().unwrap();
    let directory = format!("file = {:?}", folder.path().display().to_string());
    for (text, complaint) in [
        (directory.as_str(), "is a directory: name a file in it"),
        ("what = \"all\"", "needs the key `file`"),
        ("file = \"\"", "needs the key `file`"),
        ("file = \"a\"\nwhat = \"reads\"", "audit.what in the configuration file: `reads` is not known"),
        ("file = \"a\"\nwath = \"all\"", "`audit.wath`: did you mean `what`?"),
        ("file = \"a\"\nrequired = \"yes\"", "expected a boolean"),
    ] {
        let error = resolved(text).unwrap_err();
        assert!(error.to_string().contains(complaint), "{error}");
        assert_eq!(error.exit_code(), crate::exit::USAGE);
    }
    let outside = complaint(with_file("required = true\n", flags()));
    assert!(outside.contains("it belongs to the table [audit]"), "{outside}");
}

#[test]
fn a_file_with_a_token_that_is_named_by_mistake_is_not_shown() {
    for (file, line) in [("fht_secret\n", 1), ("id = 1\n\nfht_secret", 3)] {
        let text = complaint(with_file(file, flags()));
        assert!(text.contains(&format!("is not valid: line {line}: ")) && !text.contains("secret"), "{text}");
    }
}

#[test]
fn an_unknown_key_of_a_provider_is_refused_with_a_suggestion() {
    for (text, key, suggestion) in [
        ("[jwt.k8s]\nissuers = \"i\"", "jwt.k8s.issuers", "did you mean `issuer`?"),
        ("[jwt.k8s]\nurl = \"i\"", "jwt.k8s.url", "the valid keys are issuer, audience, jwks, user-claim, attributes"),
        ("[jtw.k8s]\nissuer = \"i\"", "jtw", "did you mean `jwt`?"),
    ] {
        let text = complaint(with_file(text, flags()));
        assert!(text.contains(&format!("has the unknown key `{key}`")) && text.contains(suggestion), "{text}");
    }
    let no_table = complaint(with_file("jwt = 7", flags()));
    assert!(no_table.contains("is not valid"), "{no_table}");
}

#[test]
fn the_name_of_the_cluster_is_that_of_the_users_of_clients_too() {
    let tls = |cluster: Option<&str>| ServeArgs {
        cert: Some("a.crt".into()),
        key: Some("a.key".into()),
        cluster_name: cluster.map(str::to_owned),
        ..flags()
    };
    let of_clients = |config: ServeConfig| config.client_tls.unwrap().cluster.map(|name| name.to_string());
    let cluster = |given| ServeConfig::resolve(tls(given)).map(of_clients);
    assert_eq!(cluster(None).unwrap(), None, "that of the certificate counts");
    assert_eq!(cluster(Some("prod")).unwrap().as_deref(), Some("prod"));
    let error = cluster(Some("Prod")).unwrap_err();
    assert!(error.to_string().contains("--cluster-name Prod: a cluster name has"), "{error}");
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn a_time_until_an_upgrade_is_finalized_is_at_least_a_minute() {
    let given = |secs| ServeArgs { finalize_after: Some(Duration::from_secs(secs)), ..flags() };
    let in_file = |text: &str, args| with_file(&format!("[upgrade]\n{text}\n"), args).map(|config| config.finalize_after);
    let day = Some(Duration::from_secs(24 * 3_600));
    assert_eq!(ServeConfig::resolve(flags()).unwrap().finalize_after, None);
    assert_eq!(in_file("finalize-after = \"24h\"", flags()).unwrap(), day);
    assert_eq!(in_file("finalize-after = \"24h\"", given(60)).unwrap(), Some(Duration::from_secs(60)));
    assert!(complaint(ServeConfig::resolve(given(59))).contains("--finalize-after 59s: the minimum is 60s"));
    let wrong = |text: &str| in_file(text, flags()).unwrap_err().to_string();
    assert!(wrong("finalize-after = \"1s\"").contains("the minimum is 60s"));
    assert!(wrong("finalize-after = \"soon\"").contains("`soon` is not a duration"));
    let misspelt = wrong("finalise-after = \"24h\"");
    assert!(misspelt.contains("`upgrade.finalise-after`: did you mean `finalize-after`?"), "{misspelt}");
    let outside = complaint(with_file("finalize-after = \"24h\"\n", flags()));
    assert!(outside.contains("it belongs to the table [upgrade]"), "{outside}");
    assert!(complaint(with_file("upgrade = 7\n", flags())).contains("line 1"));
}

#[test]
fn an_error_in_the_file_names_its_line() {
    let text = complaint(with_file("id = \"one\"\n", flags()));
    assert!(text.contains("line 1") && text.contains("integer") || text.contains("u64"), "{text}");
    assert!(complaint(with_file("id = = 1\n", flags())).contains("line 1"));
    assert!(complaint(with_file("id = 0\n", ServeArgs { id: None, ..flags() })).contains("start at 1"));
    let absent = ServeArgs { config: Some("/nowhere/fairhold.toml".into()), ..flags() };
    assert!(complaint(ServeConfig::resolve(absent)).contains("/nowhere/fairhold.toml cannot be read"));
}

#[test]
fn a_missing_value_is_named_with_its_flag_and_variable() {
    let text = complaint(ServeConfig::resolve(ServeArgs { id: None, ..flags() }));
    assert!(text.contains("--id N") && text.contains("FAIRHOLD_ID"), "{text}");
    let text = complaint(ServeConfig::resolve(ServeArgs { data: None, ..flags() }));
    assert!(text.contains("--data DIR") && text.contains("FAIRHOLD_DATA"), "{text}");
    assert!(complaint(ServeConfig::resolve(ServeArgs { member: vec![], ..flags() })).contains("no members"));
}

#[test]
fn a_bad_address_or_filter_is_refused_before_anything_starts() {
    let text = complaint(ServeConfig::resolve(ServeArgs { listen: Some("7171".to_owned()), ..flags() }));
    assert!(text.starts_with("--listen: `7171` is not a HOST:PORT"), "{text}");
    let text = complaint(ServeConfig::resolve(ServeArgs { peer_listen: Some("a:x".to_owned()), ..flags() }));
    assert!(text.starts_with("--peer-listen: `a:x` is not a HOST:PORT"), "{text}");
    let text = complaint(ServeConfig::resolve(ServeArgs { log: Some("fairhold=loud".to_owned()), ..flags() }));
    assert!(text.starts_with("--log fairhold=loud: "), "{text}");
}

#[test]
fn an_allowed_host_has_no_scheme_port_or_path() {
    let hosts = |hosts: &[&str]| {
        let allowed_host = hosts.iter().map(|host| (*host).to_owned()).collect();
        ServeConfig::resolve(ServeArgs { allowed_host, ..flags() })
    };
    assert_eq!(hosts(&["locks.example.com", "10.0.0.1"]).unwrap().allowed_hosts, ["locks.example.com", "10.0.0.1"]);
    for wrong in ["", "http://a", "a:80", "a/", "*", "a b"] {
        assert!(complaint(hosts(&[wrong])).contains("only the host"), "{wrong}");
    }
    assert_eq!(with_file("allowed-host = [\"a\"]\n", flags()).unwrap().allowed_hosts, ["a"]);
    let status = |text: &str| ServeConfig::resolve(ServeArgs { listen_status: Some(text.to_owned()), ..flags() });
    assert_eq!(status("[::]:7371").unwrap().listen_status.as_deref(), Some("[::]:7371"));
    assert!(complaint(status("7371")).starts_with("--listen-status: `7371` is not a HOST:PORT"));
}

#[test]
fn the_dashboard_is_on_unless_the_flag_or_the_file_says_otherwise() {
    let dashboard = |text: &str, ui| with_file(text, ServeArgs { ui, ..flags() }).unwrap().dashboard;
    assert_eq!(dashboard("", None), Dashboard::BuiltIn);
    assert_eq!([dashboard("ui = false\n", None), dashboard("", Some(false))], [Dashboard::Off, Dashboard::Off]);
    assert_eq!(dashboard("ui = false\n", Some(true)), Dashboard::BuiltIn);
}

#[test]
fn by_default_one_address_may_have_an_eighth_of_all_connections() {
    let limits = |all, per_address| {
        let args = ServeArgs { connections_max: all, connections_per_address_max: per_address, ..flags() };
        let config = ServeConfig::load_within(MemoryPlan::of_a_large_node(), args).map(|loaded| loaded.config);
        config.map(|config| (config.limits.connections, config.limits.per_address))
    };
    assert_eq!(limits(None, None).unwrap(), (10_000, 1_250));
    assert_eq!(limits(Some(17), None).unwrap(), (17, 3));
    assert_eq!(limits(Some(7), Some(7)).unwrap(), (7, 7));
    for wrong in [limits(Some(7), Some(8)), limits(None, Some(10_001)), limits(Some(0), None)] {
        assert!(complaint(wrong.map(|_| unreachable!())).contains("at least 1"));
    }
    let config = with_file("connections-max = 30\nconnections-per-address-max = 20\n", flags()).unwrap();
    assert_eq!((config.limits.connections, config.limits.per_address), (30, 20));
}

#[test]
fn the_defaults_of_a_node_with_little_memory_are_lower() {
    let small = ServeConfig::load_within(MemoryPlan::of(1 << 30), flags()).unwrap().config;
    assert_eq!((small.limits.connections, small.limits.per_address), (4_096, 512));
    assert_eq!((small.limits.body_bytes, small.limits.answer_bytes), (64 << 20, 64 << 20));
    assert_eq!((small.event_ring_bytes, small.proposal_bytes, small.state_bytes_max), (32 << 20, 32 << 20, 128 << 20));
}

#[test]
fn an_event_ring_has_a_minimum_size() {
    let ring = |bytes| ServeConfig::resolve(ServeArgs { event_ring_bytes: bytes, ..flags() });
    assert_eq!(ring(Some(EVENT_RING_BYTES_MIN)).unwrap().event_ring_bytes, EVENT_RING_BYTES_MIN);
    assert!(complaint(ring(Some(EVENT_RING_BYTES_MIN - 1))).contains("the minimum is 65536"));
    let in_file = with_file("event-ring-bytes = 70000\n", flags()).unwrap();
    assert_eq!(in_file.event_ring_bytes, 70_000);
}

#[test]
fn the_state_budget_has_a_minimum() {
    let state = |bytes| ServeConfig::resolve(ServeArgs { state_bytes_max: bytes, ..flags() });
    assert_eq!(state(Some(STATE_BYTES_MIN)).unwrap().state_bytes_max, STATE_BYTES_MIN);
    assert!(complaint(state(Some(STATE_BYTES_MIN - 1))).contains("the minimum is 1048576"));
    assert_eq!(with_file("state-bytes-max = 2000000\n", flags()).unwrap().state_bytes_max, 2_000_000);
}

/// A directory of node 4, which joined with these addresses.
fn joined_directory(path: &Path) {
    let addresses = |host: &str| KnownAddresses { url: format!("http://{host}:7171"), peer: format!("{host}:7271") };
    let members = KnownMembers { joined: true, members: [(1, addresses("a")), (4, addresses("d"))].into() };
    DataDir::open_to_join(path).unwrap().set_joined(4, ClusterId(9), &members).unwrap();
}

/// Only a data directory, and what protects the peer port.
fn directory_only(path: &Path) -> ServeArgs {
    ServeArgs { data: Some(path.into()), peer_key_file: Some("peer.key".into()), insecure: true, ..ServeArgs::default() }
}

fn joining(path: &Path) -> ServeArgs {
    let advertise = Some("http://d:7171,d:7271".to_owned());
    ServeArgs { join_file: Some("join.token".into()), advertise, ..directory_only(path) }
}

fn member(host: &str) -> ServeMember {
    ServeMember { url: format!("http://{host}:7171"), peer: format!("{host}:7271") }
}

#[test]
fn a_node_joins_with_a_token_and_its_addresses() {
    let home = tempfile::tempdir().unwrap();
    let resolve = ServeConfig::resolve;
    let config = resolve(joining(home.path())).unwrap();
    assert_eq!(config.start, Start::Join { token_file: "join.token".into() });
    assert_eq!((config.listen.as_str(), config.peer_listen.as_str(), config.own), ("d:7171", "d:7271", member("d")));

    let text = complaint(resolve(ServeArgs { advertise: None, ..joining(home.path()) }));
    assert!(text.contains("--advertise http://HOST:7171,HOST:7271") && text.contains("FAIRHOLD_ADVERTISE"), "{text}");
    let text = complaint(resolve(ServeArgs { advertise: Some("http://d:7171".to_owned()), ..joining(home.path()) }));
    assert!(text.starts_with("--advertise http://d:7171: "), "{text}");
    let text = complaint(resolve(ServeArgs { id: Some(4), ..joining(home.path()) }));
    assert!(text.contains("leave out --id 4"), "{text}");
    let text = complaint(resolve(ServeArgs { join_file: None, ..joining(home.path()) }));
    assert!(text.starts_with("--join-file is missing: ") && text.contains("fairhold cluster replace N --out FILE"), "{text}");
    let text = complaint(resolve(ServeArgs { member: vec!["1=http://a:7171,a:7271".to_owned()], ..joining(home.path()) }));
    assert!(text.contains("either --member or --join-file"), "{text}");

    // A start with --member has made a directory, but no cluster has accepted it.
    let refused = tempfile::tempdir().unwrap();
    drop(DataDir::open(refused.path(), 2).unwrap());
    let text = complaint(resolve(joining(refused.path())));
    assert!(text.contains("made by node 2") && text.contains("delete the directory first"), "{text}");

    // An interrupted join continues.
    drop(DataDir::open_to_join(home.path()).unwrap());
    assert_eq!(resolve(joining(home.path())).unwrap().start, config.start);
    let text = complaint(resolve(directory_only(home.path())));
    assert!(text.contains("has not joined its cluster yet") && text.contains("--join-file"), "{text}");
    let file = "join-file = \"t\"\nadvertise = \"http://e:7171,e:7271\"\n";
    let config = with_file(file, directory_only(home.path())).unwrap();
    assert_eq!((config.start, config.own), (Start::Join { token_file: "t".into() }, member("e")));
}

#[test]
fn a_token_in_the_place_of_its_file_is_not_repeated() {
    let home = tempfile::tempdir().unwrap();
    let text = complaint(ServeConfig::resolve(ServeArgs { join_file: Some("fhj1.Af5N".into()), ..joining(home.path()) }));
    assert_eq!(text, "--join-file: pass the name of a file that has the join token, not the token itself");
    let text = complaint(ServeConfig::resolve(ServeArgs { admin_token_file: Some("fht_Af5N".into()), ..flags() }));
    assert_eq!(text, "--admin-token-file: pass the name of a file that has the administrators' token, not the token itself");
    joined_directory(home.path());
    let text = complaint(ServeConfig::resolve(ServeArgs { join_file: Some("fhj1.Af5N".into()), ..directory_only(home.path()) }));
    assert!(text.starts_with("--join-file: ") && !text.contains("Af5N"), "{text}");
}

#[test]
fn a_data_directory_is_enough_to_start_again() {
    let home = tempfile::tempdir().unwrap();
    joined_directory(home.path());
    let config = ServeConfig::resolve(directory_only(home.path())).unwrap();
    let node = StartingNode {
        id: 4,
        members: [(1, member("a")), (4, member("d"))].into(),
        source: MemberSource::DataDirectory,
        joined: true,
    };
    assert_eq!((starting(&config), &config.own, &config.notes[..]), (&node, &member("d"), &[][..]));
    assert_eq!((config.listen.as_str(), config.peer_listen.as_str()), ("d:7171", "d:7271"));
    assert_eq!(config.from_directory, ["id", "advertise"]);

    let config = ServeConfig::resolve(joining(home.path())).unwrap();
    assert_eq!(starting(&config), &node);
    assert_eq!(config.notes, [StartNote::TokenNotNeeded { file: "join.token".into(), id: 4, cluster: ClusterId(9) }]);
    let text = complaint(ServeConfig::resolve(ServeArgs { id: Some(5), ..directory_only(home.path()) }));
    assert!(text.contains("belongs to node 4, but this is node 5"), "{text}");
    let advertise = Some("http://e:7171,e:7271".to_owned());
    let config = ServeConfig::resolve(ServeArgs { advertise, ..directory_only(home.path()) }).unwrap();
    assert_eq!((config.listen.as_str(), &starting(&config).members[&4]), ("e:7171", &member("e")));
    assert_eq!(config.notes, [StartNote::AddressesChanged { id: 4, from: member("d"), to: member("e") }]);
}

#[test]
fn a_directory_of_another_cluster_than_the_join_token_does_not_start() {
    let home = tempfile::tempdir().unwrap();
    let (data, file) = (home.path().join("data"), home.path().join("join.token"));
    joined_directory(&data);
    let start = || ServeConfig::resolve(ServeArgs { join_file: Some(file.clone()), ..directory_only(&data) });
    let token = |cluster| JoinToken {
        cluster: ClusterId(cluster),
        number: JoinTokenNumber(1),
        addresses: vec!["a:7271".to_owned()],
        secret: JoinSecret::random(),
    };
    fs::write(&file, format!("{}\n", token(7))).unwrap();
    let error = start().unwrap_err();
    assert_eq!(error.exit_code(), exit::CANNOT_TAKE_PART);
    let text = error.to_string();
    for part in ["node 4", &ClusterId(9).to_string(), &ClusterId(7).to_string(), "delete the directory", "leave out --join-file"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("fhj1."), "{text}");

    // A supervisor passes the file for ever. The token may be used up, gone or damaged meanwhile.
    fs::write(&file, token(9).to_string()).unwrap();
    assert_eq!(starting(&start().unwrap()).id, 4);
    fs::write(&file, "fhj1.damaged\n").unwrap();
    assert_eq!(starting(&start().unwrap()).id, 4);
    fs::remove_file(&file).unwrap();
    assert_eq!(starting(&start().unwrap()).id, 4);
}

#[test]
fn a_list_of_members_replaces_what_the_data_directory_knows() {
    let home = tempfile::tempdir().unwrap();
    joined_directory(home.path());
    let list = |entries: &[&str]| entries.iter().map(|entry| (*entry).to_owned()).collect();
    let with = |id: Option<NodeId>, entries: &[&str]| {
        ServeConfig::resolve(ServeArgs { id, member: list(entries), ..directory_only(home.path()) })
    };
    let entries = ["1=http://x:7171,x:7271", "4=http://y:7171,y:7271"];
    for id in [None, Some(4)] {
        let config = with(id, &entries).unwrap();
        let node = starting(&config);
        assert_eq!((node.id, node.source, node.joined, &config.own), (4, MemberSource::List, true, &member("y")));
        assert_eq!(node.members, [(1, member("x")), (4, member("y"))].into());
        assert_eq!(node.known_members().members[&1], KnownAddresses::from(member("x")));
    }
    assert!(complaint(with(None, &entries[..1])).contains("node 4 is not among the members [1]"));
    let advertise = Some("http://d:7171,d:7271".to_owned());
    let args = ServeArgs { member: list(&entries), advertise, ..directory_only(home.path()) };
    assert!(complaint(ServeConfig::resolve(args)).contains("leave out --advertise"));
}

#[test]
fn a_directory_without_known_members_needs_the_list() {
    let home = tempfile::tempdir().unwrap();
    drop(DataDir::open(home.path(), 1).unwrap());
    assert!(complaint(ServeConfig::resolve(directory_only(home.path()))).contains("pass --member 1=http://HOST:7171,HOST:7271"));
    let config = ServeConfig::resolve(ServeArgs { id: None, data: Some(home.path().into()), ..flags() }).unwrap();
    assert_eq!((starting(&config).id, starting(&config).joined), (1, false));
}

#[test]
fn the_timing_profile_of_the_cluster_counts_before_the_flag() {
    let home = tempfile::tempdir().unwrap();
    joined_directory(home.path());
    let timing = |timing| ServeConfig::resolve(ServeArgs { timing, ..directory_only(home.path()) }).unwrap();
    assert_eq!(timing(None).timing, Timing::Lan);
    assert_eq!(timing(Some(Timing::Wan)).timing, Timing::Wan, "the cluster's profile is not known yet");
    timing_file::write(home.path(), Timing::Global).unwrap();
    let config = timing(Some(Timing::Wan));
    assert_eq!((config.timing, config.from_directory.contains(&"timing")), (Timing::Global, true));
    assert_eq!(config.notes, [StartNote::TimingIgnored { given: Timing::Wan, recorded: Timing::Global }]);
    assert!(timing(Some(Timing::Global)).notes.is_empty());
    assert_eq!(with_file("timing = \"metro\"\n", flags()).unwrap().timing, Timing::Metro);
    assert!(complaint(with_file("timing = \"fast\"\n", flags())).contains("timing"));
}

#[test]
fn a_damaged_data_directory_is_not_a_usage_error() {
    let home = tempfile::tempdir().unwrap();
    joined_directory(home.path());
    fs::write(home.path().join("MEMBERS"), "damaged").unwrap();
    let error = ServeConfig::resolve(directory_only(home.path())).unwrap_err();
    assert!(error.to_string().contains("MEMBERS is damaged") && error.exit_code() == 1, "{error}");
    let error = ServeConfig::resolve(ServeArgs { data: None, ..flags() }).unwrap_err();
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn a_certificate_needs_its_key_and_the_options_of_tls_need_a_certificate() {
    let with_pair = || ServeArgs { cert: Some("a.crt".into()), key: Some("a.key".into()), ..flags() };
    let tls = |args| ServeConfig::resolve(args).unwrap().client_tls;
    assert_eq!(tls(flags()), None);
    let resolved = tls(with_pair()).unwrap();
    assert_eq!((resolved.files.cert, resolved.files.key, resolved.files.ca), ("a.crt".into(), "a.key".into(), None));
    assert_eq!((resolved.oldest, resolved.listen_plain), (TlsVersion::V1_3, None));

    assert!(complaint(ServeConfig::resolve(ServeArgs { key: None, ..with_pair() })).contains("without --key"));
    assert!(complaint(ServeConfig::resolve(ServeArgs { cert: None, ..with_pair() })).contains("without --cert"));
    for (args, name) in [
        (ServeArgs { client_ca: Some("ca.crt".into()), ..flags() }, "--client-ca"),
        (ServeArgs { tls_min: Some(TlsVersion::V1_2), ..flags() }, "--tls-min"),
        (ServeArgs { listen_plain: Some("127.0.0.1:7170".to_owned()), ..flags() }, "--listen-plain"),
    ] {
        let text = complaint(ServeConfig::resolve(args));
        assert!(text.contains(&format!("{name} needs --cert and --key")), "{text}");
    }
    let plain = ServeArgs { listen_plain: Some("7170".to_owned()), ..with_pair() };
    assert!(complaint(ServeConfig::resolve(plain)).starts_with("--listen-plain: `7170` is not a HOST:PORT"));
}

#[test]
fn the_configuration_file_can_name_the_certificate() {
    let file =
        "cert = \"a.crt\"\nkey = \"a.key\"\nclient-ca = \"ca.crt\"\ntls-min = \"1.2\"\nlisten-plain = \"127.0.0.1:7170\"\n";
    let tls = with_file(file, flags()).unwrap().client_tls.unwrap();
    assert_eq!((tls.files.ca, tls.oldest), (Some("ca.crt".into()), TlsVersion::V1_2));
    assert_eq!(tls.listen_plain.as_deref(), Some("127.0.0.1:7170"));
    let newest = ServeArgs { tls_min: Some(TlsVersion::V1_3), ..flags() };
    assert_eq!(with_file(file, newest).unwrap().client_tls.unwrap().oldest, TlsVersion::V1_3);
    let text = complaint(with_file(&file.replace("1.2", "1.1"), flags()));
    assert!(text.contains("`1.1`: expected 1.2 or 1.3"), "{text}");
}

#[test]
fn all_findings_are_told_at_once_and_none_twice() {
    let args = ServeArgs { id: None, peer_key_file: None, listen: Some("7171".to_owned()), ..ServeArgs::default() };
    let text = "lgo = \"info\"\ntls-min = \"1.1\"\nallowed-host = [\"a/b\"]\nstate-bytes-max = 5\nconnections-max = 0\n\
                [upgrade]\nfinalize-after = \"soon\"\n[audit]\nfile = \"a\"\nwhat = \"reads\"\n";
    let error = with_file(text, args).unwrap_err();
    assert_eq!(error.exit_code(), crate::exit::USAGE);
    let shown = error.to_string();
    let findings = error.findings();
    for said in
        ["`lgo`", "tls-min", "a/b", "--state-bytes-max 5", "connections-max is 0", "`soon`", "`reads`", "--listen: `7171`"]
    {
        assert_eq!(findings.iter().filter(|finding| finding.contains(said)).count(), 1, "{said}: {findings:#?}");
    }
    assert_eq!(findings.len(), 8, "that data is missing may follow from the misspelt key: {findings:#?}");
    assert_eq!(shown, findings.join("\nfairhold: "), "each is a line of standard error");
}

#[test]
fn a_file_makes_sighup_a_reload() {
    assert!(with_file("", flags()).unwrap().reloads_at_hangup());
    assert!(!ServeConfig::resolve(flags()).unwrap().reloads_at_hangup());
}
