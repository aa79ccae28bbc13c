//! The addresses at which a node listens, and whether each is protected.

use super::{
    client_tls::ClientTlsConfig, error::ConfigError, exposure::Exposure, peer_tls::PeerTlsConfig, peer_trust::PeerTrust,
};
use fairhold_http::Dashboard;
use std::{net::IpAddr, path::PathBuf};

/// The addresses of a node, and how each is protected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports<'a> {
    pub(super) listen: &'a str,
    pub(super) client_tls: Option<&'a ClientTlsConfig>,
    pub(super) peer_listen: &'a str,
    pub(super) peers: &'a PeerTrust,
    pub(super) peer_tls: Option<&'a PeerTlsConfig>,
}

impl Ports<'_> {
    /// What they leave unprotected. Without `--insecure`, they must protect everything.
    pub(super) fn exposures(&self, insecure: bool) -> Result<Vec<Exposure>, ConfigError> {
        let found: Vec<(Exposure, &'static str, &str)> = self.all().into_iter().filter(|(_, _, at)| !is_loopback(at)).collect();
        match found.first() {
            Some((exposure, option, address)) if !insecure => {
                Err(ConfigError::Exposed { option, address: (*address).to_owned(), exposure: *exposure })
            }
            Some(_) | None => Ok(found.into_iter().map(|(exposure, _, _)| exposure).collect()),
        }
    }

    /// The dashboard to serve. Only this machine may load the files of `--ui-dir`.
    pub(super) fn dashboard(&self, is_on: bool, folder: Option<PathBuf>) -> Result<Dashboard, ConfigError> {
        let Some(folder) = folder.filter(|_| is_on) else {
            return Ok(if is_on { Dashboard::BuiltIn } else { Dashboard::Off });
        };
        let plain = self.client_tls.and_then(|tls| tls.listen_plain.as_deref());
        match [Some(self.listen), plain].into_iter().flatten().find(|address| !is_loopback(address)) {
            Some(address) => Err(ConfigError::UiDirExposed { address: address.to_owned() }),
            None => Ok(Dashboard::Folder(folder)),
        }
    }

    /// What is unprotected, with the option and the address, the worst first.
    fn all(&self) -> Vec<(Exposure, &'static str, &str)> {
        let mut all = Vec::new();
        if *self.peers == PeerTrust::Nothing {
            all.push((Exposure::OpenPeers, "peer-listen", self.peer_listen));
        }
        if self.peer_tls.is_none() {
            all.push((Exposure::PlainPeers, "peer-listen", self.peer_listen));
        }
        match self.client_tls {
            None => all.push((Exposure::PlainClients, "listen", self.listen)),
            Some(tls) => {
                let plain = tls.listen_plain.as_deref();
                all.extend(plain.map(|address| (Exposure::PlainClientsToo, "listen-plain", address)));
            }
        }
        all
    }
}

/// Whether only this machine can reach an address. Names are not resolved; only `localhost` counts as loopback.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::peer_tls::PeerTlsInput;
    use fairhold_trust::files::CertificateFiles;

    fn client_tls(listen_plain: Option<&str>) -> ClientTlsConfig {
        let files = CertificateFiles { cert: "c".into(), key: "k".into(), ca: None };
        ClientTlsConfig { files, oldest: Default::default(), cluster: None, listen_plain: listen_plain.map(str::to_owned) }
    }

    fn peer_tls() -> PeerTlsConfig {
        let input = PeerTlsInput { ca: Some("a".into()), cluster: Some("prod".parse().unwrap()), ..PeerTlsInput::default() };
        input.resolve(Some(&client_tls(None).files)).unwrap().unwrap()
    }

    #[test]
    fn each_unprotected_port_is_an_error_that_names_both_ways_out() {
        let ports = Ports { listen: "a:1", client_tls: None, peer_listen: "a:2", peers: &PeerTrust::Nothing, peer_tls: None };
        let key = PeerTrust::Key("k".into());
        let (tls, tls_too) = (client_tls(None), client_tls(Some("0.0.0.0:3")));
        let (tls_local, peer_tls) = (client_tls(Some("127.0.0.1:3")), peer_tls());
        for (ports, exposures, named) in [
            (ports, "open_peers plain_peers plain_clients", "--peer-listen a:2"),
            (Ports { peers: &key, ..ports }, "plain_peers plain_clients", "--peer-cert"),
            (Ports { peers: &key, peer_tls: Some(&peer_tls), ..ports }, "plain_clients", "--cert, --key"),
            (Ports { peers: &key, client_tls: Some(&tls), ..ports }, "plain_peers", "--peer-cert"),
            (Ports { peer_listen: "[::1]:2", ..ports }, "plain_clients", "--listen a:1"),
            (Ports { peer_listen: "[::1]:2", client_tls: Some(&tls_too), ..ports }, "plain_clients", "--listen-plain 0.0.0.0:3"),
            (Ports { listen: "localhost:1", ..ports }, "open_peers plain_peers", "--peer-key-file"),
        ] {
            let error = ports.exposures(false).unwrap_err();
            assert!(error.to_string().contains(named) && error.to_string().contains("--insecure"), "{error}");
            assert_eq!(error.exit_code(), 2);
            let allowed: Vec<&str> = ports.exposures(true).unwrap().into_iter().map(Exposure::as_str).collect();
            assert_eq!(allowed.join(" "), exposures);
        }
        let peers = &PeerTrust::Certificates;
        for protected in [
            Ports { client_tls: Some(&tls_local), peer_tls: Some(&peer_tls), peers, ..ports },
            Ports { listen: "127.0.0.1:1", peer_listen: "127.1.2.3:2", ..ports },
        ] {
            assert_eq!(protected.exposures(false).unwrap(), []);
            assert_eq!(protected.exposures(true).unwrap(), []);
        }
    }

    #[test]
    fn the_files_of_a_ui_dir_are_served_to_this_machine_alone() {
        let peers = &PeerTrust::Certificates;
        let (tls_local, tls_too) = (client_tls(Some("127.0.0.1:3")), client_tls(Some("0.0.0.0:3")));
        let local = Ports { listen: "127.0.0.1:1", client_tls: Some(&tls_local), peer_listen: "a:2", peers, peer_tls: None };
        let folder = || Some(PathBuf::from("web"));
        assert_eq!(local.dashboard(true, folder()).unwrap(), Dashboard::Folder("web".into()));
        for exposed in [Ports { listen: "0.0.0.0:1", ..local }, Ports { client_tls: Some(&tls_too), ..local }] {
            let error = exposed.dashboard(true, folder()).unwrap_err();
            assert!(error.to_string().contains("is not a loopback address") && error.exit_code() == 2, "{error}");
            assert_eq!(exposed.dashboard(true, None).unwrap(), Dashboard::BuiltIn);
            assert_eq!(exposed.dashboard(false, folder()).unwrap(), Dashboard::Off);
        }
    }

    #[test]
    fn only_addresses_of_this_machine_are_loopback() {
        for address in ["127.0.0.1:1", "127.1.2.3:1", "[::1]:1", "localhost:1", "LOCALHOST:1", "[::ffff:127.0.0.1]:1"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in ["a:1", "0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[fe80::1]:1", "127.0.0.1.example.org:1"] {
            assert!(!is_loopback(address), "{address}");
        }
    }
}
