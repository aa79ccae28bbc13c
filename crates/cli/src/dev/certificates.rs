//! The certificates of `dev --secure`: an authority in the data directory, and certificates for the nodes and for a user.

use super::{DevError, DevPlan};
use crate::remote::TlsArgs;
use fairhold_trust::{
    ca_directory::{CaDirectory, CaError},
    issuer::{IssueError, IssuedPair},
};
use fairhold_types::NodeId;
use std::{
    ffi::OsString,
    path::{self, Path, PathBuf},
};

/// The cluster and the user that the certificates name.
const NAME: &str = "dev";
/// How long the authority is valid: ten years.
const AUTHORITY_DAYS: u32 = 3_650;
/// How long the other certificates are valid. Each start renews them.
const DAYS: u32 = 90;
/// The file of the user's certificate, without its ending.
const USER_FILE: &str = "client";

/// The certificates of a development cluster, in a folder of its data directory.
#[derive(Debug)]
pub(super) struct DevCertificates {
    folder: PathBuf,
}

impl DevCertificates {
    /// Makes the certificates that are missing in the data directory, and renews the others.
    pub(super) fn prepare(data: &Path, plan: &DevPlan) -> Result<DevCertificates, DevError> {
        let folder = path::absolute(data)?.join("certificates");
        DevCertificates::issue(&folder, plan)?;
        Ok(DevCertificates { folder })
    }

    fn issue(folder: &Path, plan: &DevPlan) -> Result<(), DevError> {
        let home = folder.join("ca");
        let ca = match CaDirectory::open(&home) {
            Err(CaError::NoAuthority { .. }) => CaDirectory::create(&home, &NAME.parse()?, AUTHORITY_DAYS)?,
            opened => opened?,
        };
        let user = NAME.parse()?;
        for node in plan.nodes() {
            let hosts = ["127.0.0.1".to_owned(), "localhost".to_owned()];
            let issue = || ca.authority().issue_node(&hosts, Some(node.id()), DAYS);
            renew_or_issue(&ca, folder, &node_file(node.id()), issue)?;
        }
        Ok(renew_or_issue(&ca, folder, USER_FILE, || ca.authority().issue_client(&user, DAYS))?)
    }

    /// The options of a node's process.
    pub(super) fn serve_args(&self, node: NodeId) -> Vec<OsString> {
        let (cert, key) = self.pair(&node_file(node));
        let ca = self.ca();
        let files = [("--cert", &cert), ("--key", &key), ("--client-ca", &ca), ("--peer-ca", &ca)];
        let files = files.into_iter().flat_map(|(option, file)| [option.into(), file.clone().into_os_string()]);
        files.chain(["--cluster-name".into(), NAME.into()]).collect()
    }

    /// What a client of the cluster passes.
    pub(super) fn client(&self) -> TlsArgs {
        let (cert, key) = self.pair(USER_FILE);
        TlsArgs { cacert: Some(self.ca()), cert: Some(cert), key: Some(key) }
    }

    /// The environment variables that tell commands how to connect.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        let (cert, key) = self.pair(USER_FILE);
        let files = [("FAIRHOLD_CACERT", self.ca()), ("FAIRHOLD_CERT", cert), ("FAIRHOLD_KEY", key)];
        files.into_iter().map(|(name, file)| (name, file.display().to_string())).collect()
    }

    fn ca(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    fn pair(&self, name: &str) -> (PathBuf, PathBuf) {
        (self.folder.join(format!("{name}.crt")), self.folder.join(format!("{name}.key")))
    }
}

fn node_file(node: NodeId) -> String {
    format!("node-{node}")
}

fn renew_or_issue(
    ca: &CaDirectory,
    folder: &Path,
    name: &str,
    issue: impl FnOnce() -> Result<IssuedPair, IssueError>,
) -> Result<(), CaError> {
    let file = folder.join(format!("{name}.crt"));
    if file.exists() {
        return ca.renew(&file, None, DAYS).map(drop);
    }
    let pair = issue().map_err(|error| CaError::Issue { path: file, error })?;
    ca.write_pair(folder, name, &pair).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{args::Args, args::Command, config::ServeConfig, serve::certificates::check};
    use clap::Parser as _;

    #[test]
    fn nodes_start_with_the_certificates_also_those_of_an_earlier_start() {
        let data = tempfile::tempdir().unwrap();
        for nodes in [1, 2] {
            let plan = DevPlan::new(nodes, 7171).unwrap().with_tls();
            let certificates = DevCertificates::prepare(data.path(), &plan).unwrap();
            for node in plan.nodes() {
                let mut line: Vec<OsString> = vec!["fairhold".into()];
                line.extend(plan.serve_args(node, data.path(), Path::new("/a key")));
                line.extend(certificates.serve_args(node.id()));
                let Command::Serve(args) = Args::try_parse_from(line).unwrap().command else { panic!("not serve") };
                let config = ServeConfig::resolve(*args).unwrap();
                assert!(config.client_tls.is_some() && config.peer_tls.as_ref().is_some_and(|tls| tls.is_required));
                assert!(config.own.url.starts_with("https://127.0.0.1:"), "{:?}", config.own);
                assert!(check(&config).is_empty());
            }
            crate::local_http::client_for(&[], std::time::Duration::from_secs(1), &certificates.client(), None).unwrap();
        }
    }
}
