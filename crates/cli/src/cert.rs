//! `fairhold cert`: a certificate authority for clusters that have none, and what a certificate says. No command here
//! uses the network, and none replaces a key.

mod show;

use crate::{exit, output};
use clap::{Subcommand, value_parser};
use fairhold_trust::{
    ca_directory::{CA_CERT, CA_KEY, CaDirectory, CaError},
    certificate::{Certificate, ParseCertificateError},
    files::{FileError, read_certificates},
    issuer::{AUTHORITY_DAYS, CLIENT_DAYS, DAYS_MAX, IssueError, IssuedPair, NODE_DAYS},
    name::{CertificateRole, ClusterName, UserName},
};
use fairhold_types::{NodeId, time::WallMillis};
use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Debug, clap::Args)]
pub(crate) struct CertArgs {
    #[command(subcommand)]
    command: CertCommand,
}

#[derive(Debug, Subcommand)]
enum CertCommand {
    /// Make a certificate authority for a cluster
    ///
    /// Its key, ca.key, can make a certificate for any node and any user. Keep the directory on a machine that runs no
    /// node, and back it up. Nodes and clients need ca.crt alone.
    #[command(after_help = "Example:
  fairhold cert ca --name prod --out ca")]
    Ca {
        /// Name of the cluster: lower-case letters, digits, dots and hyphens
        #[arg(long, value_name = "NAME")]
        name: ClusterName,
        /// Write ca.crt and ca.key to this directory, which must have neither
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// How long the authority is valid, in days
        #[arg(long, default_value_t = AUTHORITY_DAYS, value_parser = days())]
        days: u32,
    },
    /// Issue the certificate of a node, for its clients and for the other nodes
    ///
    /// Writes node-ID.crt and node-ID.key (or node.crt and node.key without --id), and ca.crt beside them.
    #[command(after_help = "Examples:
  The certificate of node 1, which the others dial as n1 or 10.0.0.1:
  fairhold cert node --ca ca --id 1 --host n1,10.0.0.1 --out node-1
  A certificate that every node can use:
  fairhold cert node --ca ca --host n1,n2,n3")]
    Node {
        /// Directory of the authority, which `fairhold cert ca` made
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        /// Names and addresses at which other nodes and clients reach the node, separated by commas
        #[arg(long, value_name = "HOST", required = true, value_delimiter = ',')]
        host: Vec<String>,
        /// Number of the node [default: none; any node of the cluster can use it]
        #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
        id: Option<NodeId>,
        /// How long the certificate is valid, in days
        #[arg(long, default_value_t = NODE_DAYS, value_parser = days())]
        days: u32,
        /// Write the files to this directory
        #[arg(long, value_name = "DIR", default_value = ".")]
        out: PathBuf,
    },
    /// Issue the certificate of a user's programs
    ///
    /// Writes client-USER.crt and client-USER.key, and ca.crt beside them.
    #[command(after_help = "Example:
  fairhold cert client --ca ca --user ci --out ci")]
    Client {
        /// Directory of the authority, which `fairhold cert ca` made
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        /// Name of the user: letters, digits and . _ @ -
        #[arg(long, value_name = "NAME")]
        user: UserName,
        /// How long the certificate is valid, in days
        #[arg(long, default_value_t = CLIENT_DAYS, value_parser = days())]
        days: u32,
        /// Write the files to this directory
        #[arg(long, value_name = "DIR", default_value = ".")]
        out: PathBuf,
    },
    /// Show what the certificates in a file say
    #[command(after_help = "Example:
  fairhold cert show node-1/node-1.crt --json")]
    Show {
        /// File with one or more certificates, as PEM
        file: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Renew a certificate: the same names and the same key, and a new time
    ///
    /// The key does not need to be there: copy the certificate to the authority, renew it, and copy it back. A running
    /// node uses the new file within 2 s. The authority renews its own ca.crt in the same way.
    #[command(after_help = "Example:
  fairhold cert renew --ca ca node-1/node-1.crt")]
    Renew {
        /// Directory of the authority that issued the certificate
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        /// Certificate to renew; it is replaced in one step
        file: PathBuf,
        /// How long it is valid, in days [default: 825 for a node, 90 for a user, 3650 for the authority]
        #[arg(long, value_parser = days())]
        days: Option<u32>,
        /// Write the new certificate to this file instead
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// Why a command about certificates failed.
#[derive(Debug, thiserror::Error)]
enum CertError {
    #[error(transparent)]
    Ca(#[from] CaError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: {error}", path.display())]
    Issue {
        /// The directory of the authority.
        path: PathBuf,
        error: IssueError,
    },
    #[error("{}: {error}", path.display())]
    NotACertificate { path: PathBuf, error: ParseCertificateError },
    #[error("the output cannot be written: {0}")]
    Output(#[from] io::Error),
}

impl CertError {
    fn exit_code(&self) -> u8 {
        match self {
            CertError::Issue { error: IssueError::Host(_) | IssueError::NoHost | IssueError::Days, .. } => exit::USAGE,
            CertError::Ca(_)
            | CertError::File(_)
            | CertError::Issue { .. }
            | CertError::NotACertificate { .. }
            | CertError::Output(_) => exit::FAILURE,
        }
    }
}

/// Runs the command.
pub(crate) fn main(args: &CertArgs) -> ExitCode {
    let done = run(&args.command).and_then(|text| Ok(output::unless_closed(output::write_stdout(&text))?));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::with_error(error.exit_code(), &error),
    }
}

/// Does what the command says, and returns what it prints.
fn run(command: &CertCommand) -> Result<String, CertError> {
    Ok(match command {
        CertCommand::Ca { name, out, days } => {
            CaDirectory::create(out, name, *days)?;
            let (key, cert, out) = (out.join(CA_KEY), out.join(CA_CERT), out.display());
            format!(
                "{} is the certificate authority of the cluster {name}: every node and client needs it\n\
                 {} is its key: it can make a certificate for any node and any user, so keep it off the nodes\n\
                 Next: fairhold cert node --ca {out} --id 1 --host HOST\n",
                cert.display(),
                key.display()
            )
        }
        CertCommand::Node { ca, host, id, days, out } => {
            let authority = open(ca)?;
            let pair = authority.authority().issue_node(host, *id, *days).map_err(issue_error(ca))?;
            write(&authority, out, &id.map_or_else(|| "node".to_owned(), |id| format!("node-{id}")), &pair)?
        }
        CertCommand::Client { ca, user, days, out } => {
            let authority = open(ca)?;
            let pair = authority.authority().issue_client(user, *days).map_err(issue_error(ca))?;
            write(&authority, out, &format!("client-{user}"), &pair)?
        }
        CertCommand::Show { file, json } => show::text(file, &certificates(file)?, *json, now()),
        CertCommand::Renew { ca, file, days, out } => renew(ca, file, *days, out.as_deref())?,
    })
}

fn issue_error(ca: &Path) -> impl Fn(IssueError) -> CertError + '_ {
    |error| CertError::Issue { path: ca.to_owned(), error }
}

/// Opens the directory of an authority. Warns if its key is not secret: another user could make a certificate too.
fn open(ca: &Path) -> Result<CaDirectory, CertError> {
    let authority = CaDirectory::open(ca)?;
    if let Some(key) = authority.open_key() {
        let key = key.display();
        output::note(&format!("other users of this machine can read or write {key}: run `chmod 600 {key}`"));
    }
    Ok(authority)
}

/// Writes a pair, and says what it is.
fn write(authority: &CaDirectory, out: &Path, name: &str, pair: &IssuedPair) -> Result<String, CertError> {
    let (cert, key) = authority.write_pair(out, name, pair)?;
    let issued = first(&cert)?;
    let ca = out.join(CA_CERT);
    note_authority_end(&issued, &first(&ca)?);
    Ok(format!(
        "{} is the certificate of {}, valid until {}\n{} is its key\n{} is the certificate of the authority\n",
        cert.display(),
        issued.holder(),
        issued.not_after.to_rfc3339(),
        key.display(),
        ca.display()
    ))
}

fn renew(ca: &Path, file: &Path, days: Option<u32>, out: Option<&Path>) -> Result<String, CertError> {
    let authority = open(ca)?;
    let days = match days {
        Some(days) => days,
        None => usual_days(&first(file)?),
    };
    authority.renew(file, out, days)?;
    let written = out.unwrap_or(file);
    let renewed = first(written)?;
    note_authority_end(&renewed, &first(&ca.join(CA_CERT))?);
    Ok(format!(
        "{} is the certificate of {}, valid until {}\n",
        written.display(),
        renewed.holder(),
        renewed.not_after.to_rfc3339()
    ))
}

/// How long such a certificate is usually valid.
fn usual_days(certificate: &Certificate) -> u32 {
    let is_user = |role: CertificateRole| matches!(role, CertificateRole::User(_));
    if certificate.is_authority {
        AUTHORITY_DAYS
    } else if certificate.fairhold_names().any(|name| is_user(name.role)) {
        CLIENT_DAYS
    } else {
        NODE_DAYS
    }
}

/// Some programs, such as openssl, accept no certificate of an authority that has expired.
fn note_authority_end(certificate: &Certificate, authority: &Certificate) {
    if authority.not_after < certificate.not_after {
        let end = authority.not_after.to_rfc3339();
        output::note(&format!(
            "the authority expires at {end}, before this certificate: renew its ca.crt with `fairhold cert renew --ca DIR \
             DIR/ca.crt`, and copy it to every node and client"
        ));
    }
}

/// The first certificate of a file: the ones that follow lead to its authority.
fn first(path: &Path) -> Result<Certificate, CertError> {
    Ok(certificates(path)?.swap_remove(0))
}

/// The certificates of a file. There is at least one.
fn certificates(path: &Path) -> Result<Vec<Certificate>, CertError> {
    let parsed: Result<Vec<_>, _> = read_certificates(path)?.iter().map(Certificate::parse).collect();
    parsed.map_err(|error| CertError::NotACertificate { path: path.to_owned(), error })
}

fn now() -> WallMillis {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    WallMillis(fairhold_types::duration::millis(now))
}

/// A number of days.
fn days() -> clap::builder::RangedI64ValueParser<u32> {
    value_parser!(u32).range(1..=i64::from(DAYS_MAX))
}

#[cfg(test)]
mod tests;
