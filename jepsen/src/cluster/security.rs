//! What the nodes and the clients of a run with TLS and access rights are started with.

use super::ChaosCluster;
use crate::{
    certificates::{CLUSTER, Certificates},
    http::Http,
    new_key,
};
use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// The files of a run with TLS and access rights.
#[derive(Debug)]
pub(crate) struct ClusterSecurity {
    pub(crate) certificates: Certificates,
    admin_token_file: PathBuf,
}

impl ClusterSecurity {
    /// Makes the files.
    pub(super) fn create(program: &Path, folder: &Path, hosts: Vec<String>) -> Result<ClusterSecurity, String> {
        let certificates = Certificates::create(program, folder, hosts)?;
        let admin_token_file = folder.join("admin.token");
        write_secret(&admin_token_file, &format!("{}{}", new_key(), new_key()))?;
        Ok(ClusterSecurity { certificates, admin_token_file })
    }

    /// A client that trusts the authority, as the administrator of last resort.
    pub(super) fn administrator(&self, http: &Http) -> Result<Http, String> {
        http.trust(&self.certificates.newest_authority()?)?;
        let token = fs::read_to_string(&self.admin_token_file);
        let token = token.map_err(|error| format!("{}: {error}", self.admin_token_file.display()))?;
        Ok(http.with_token(token.trim()))
    }
}

/// Writes a file that only its owner may read.
pub(super) fn write_secret(file: &Path, text: &str) -> Result<(), String> {
    let mut options = OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(0o600).open(file);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| format!("{}: {error}", file.display()))
}

impl ChaosCluster {
    /// The options of a node's process about TLS and administrators.
    pub(super) fn security_args(&self, id: usize) -> Vec<PathBuf> {
        let Some(ClusterSecurity { certificates, admin_token_file }) = &self.security else {
            // The program of the cluster version before wants either a key or this.
            let is_newer = self.nodes[id - 1].program == self.program;
            return is_newer.then(|| "--insecure".into()).into_iter().collect();
        };
        let mut args = Vec::new();
        for (option, name) in [("--cert", "node.crt"), ("--key", "node.key"), ("--peer-ca", "ca.crt")] {
            args.extend([option.into(), certificates.file(id, name)]);
        }
        args.extend(["--peer-tls", "required", "--cluster-name", CLUSTER, "--admin-token-file"].map(PathBuf::from));
        args.push(admin_token_file.clone());
        args
    }
}
