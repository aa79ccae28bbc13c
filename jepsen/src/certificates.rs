//! The certificates of a run with TLS, made by `fairhold cert`: an authority, and a certificate for each machine.
//!
//! Each generation of certificates is valid for another number of days, so a node's metrics tell which one it uses.

use crate::shell;
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The name of the cluster in the certificates.
pub(crate) const CLUSTER: &str = "chaos";
/// How many days the first certificates are valid.
const DAYS: u32 = 800;
const DAY: Duration = Duration::from_secs(86_400);
/// How much the end of a certificate may differ from the expected one: less than generations differ.
const TOLERANCE: Duration = Duration::from_secs(6 * 3_600);

/// The files of all machines, and the authorities.
#[derive(Debug)]
pub(crate) struct Certificates {
    program: PathBuf,
    folder: PathBuf,
    /// The address of each machine.
    hosts: Vec<String>,
    /// The number of the newest authority.
    authority: u32,
    /// The number of the newest generation of certificates.
    generation: u32,
}

impl Certificates {
    /// Makes an authority, and the files of each machine.
    pub(crate) fn create(program: &Path, folder: &Path, hosts: Vec<String>) -> Result<Certificates, String> {
        let folder = folder.join("certificates");
        match fs::remove_dir_all(&folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{}: {error}", folder.display())),
        }
        let mut made = Certificates { program: program.to_owned(), folder, hosts, authority: 0, generation: 0 };
        made.add_authority()?;
        let trusted = made.newest_authority()?;
        for machine in made.machines() {
            made.trust_at(machine, &trusted)?;
            made.issue(machine)?;
        }
        Ok(made)
    }

    /// All machines.
    pub(crate) fn machines(&self) -> std::ops::RangeInclusive<usize> {
        1..=self.hosts.len()
    }

    /// A file of a machine: `node.crt`, `node.key` or `ca.crt`.
    pub(crate) fn file(&self, machine: usize, name: &str) -> PathBuf {
        self.folder.join(format!("node-{machine}")).join(name)
    }

    /// From now on another authority issues the certificates.
    pub(crate) fn add_authority(&mut self) -> Result<(), String> {
        self.authority += 1;
        self.cert(&["ca", "--name", CLUSTER, "--out", &self.authority_folder(self.authority)])
    }

    /// The certificate of the newest authority, as PEM.
    pub(crate) fn newest_authority(&self) -> Result<String, String> {
        self.authority_pem(self.authority)
    }

    /// Those of the newest authority and of the one before.
    pub(crate) fn newest_two_authorities(&self) -> Result<String, String> {
        Ok(format!("{}{}", self.authority_pem(self.authority - 1)?, self.newest_authority()?))
    }

    /// Replaces the authorities that the node of a machine trusts.
    pub(crate) fn trust_at(&self, machine: usize, authorities: &str) -> Result<(), String> {
        let file = self.file(machine, "ca.crt");
        let folder = file.parent().unwrap_or(&self.folder);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&file, authorities));
        written.map_err(|error| format!("{}: {error}", file.display()))
    }

    /// The certificates that are issued from now on differ from all earlier ones.
    pub(crate) fn next_generation(&mut self) {
        self.generation += 1;
    }

    /// Issues a certificate for a machine, and puts it and its key in place of those before, while its node may run.
    pub(crate) fn issue(&self, machine: usize) -> Result<(), String> {
        let out = self.folder.join(format!("issued-{}-{}-{machine}", self.authority, self.generation));
        let (host, days) = (&self.hosts[machine - 1], self.days().to_string());
        let authority = self.authority_folder(self.authority);
        self.cert(&["node", "--ca", &authority, "--host", host, "--days", &days, "--out", &out.display().to_string()])?;
        for name in ["node.key", "node.crt"] {
            let file = self.file(machine, name);
            // Into the same file, as `scp` does: the node may read a half of it, or a pair that does not fit.
            fs::copy(out.join(name), &file).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        Ok(())
    }

    /// Whether a certificate that ends then, in seconds since 1970, is of the newest generation.
    pub(crate) fn is_newest(&self, not_after: f64) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let expected = now + DAY * self.days();
        (expected.as_secs_f64() - not_after).abs() < TOLERANCE.as_secs_f64()
    }

    fn days(&self) -> u32 {
        DAYS - self.generation % (DAYS / 2)
    }

    fn authority_folder(&self, number: u32) -> String {
        self.folder.join(format!("authority-{number}")).display().to_string()
    }

    fn authority_pem(&self, number: u32) -> Result<String, String> {
        let file = Path::new(&self.authority_folder(number)).join("ca.crt");
        fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn cert(&self, arguments: &[&str]) -> Result<(), String> {
        let program = self.program.display().to_string();
        let arguments: Vec<&str> = std::iter::once("cert").chain(arguments.iter().copied()).collect();
        shell::run(&program, &arguments).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_tells_its_generation() {
        let (program, folder) = (PathBuf::new(), PathBuf::new());
        let mut certificates = Certificates { program, folder, hosts: vec!["10.0.0.1".to_owned()], authority: 1, generation: 0 };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let first = (now + DAY * DAYS).as_secs_f64();
        assert!(certificates.is_newest(first) && certificates.is_newest(first - 60.0));
        certificates.next_generation();
        assert!(!certificates.is_newest(first) && certificates.is_newest(first - DAY.as_secs_f64()));
    }
}
