//! What `dev --secure` adds: certificates, an administrators' token, a user with all rights, and rights that are enforced.

use super::{DevError, DevPlan, certificates::DevCertificates, data::write_secret};
use crate::{
    access::Bind,
    remote::{Api, ApiRequest, ConnectArgs, Failure, TlsArgs, read_token},
};
use fairhold_access::BearerToken;
use fairhold_client::Method;
use fairhold_types::{Code, NodeId};
use serde_json::json;
use std::{
    ffi::OsString,
    io,
    path::{self, Path, PathBuf},
    time::Duration,
};

/// The user that commands are after the exports.
const USER: &str = "dev";
/// The file with its token.
const USER_TOKEN_FILE: &str = "dev.token";
/// The file with the administrators' token.
const ADMIN_TOKEN_FILE: &str = "admin.token";
/// How long the calls at the start may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The certificates and tokens of a secure development cluster.
#[derive(Debug)]
pub(super) struct DevSecurity {
    certificates: DevCertificates,
    admin_token_file: PathBuf,
    user_token_file: PathBuf,
}

impl DevSecurity {
    /// Makes what is missing in the data directory, and renews the certificates.
    pub(super) fn prepare(data: &Path, plan: &DevPlan, admin_token_file: Option<&Path>) -> Result<DevSecurity, DevError> {
        let data = path::absolute(data)?;
        let made = |name: &str, secret: fn() -> String| {
            let file = data.join(name);
            let written = if file.exists() { Ok(()) } else { write_secret(&file, &secret()) };
            written.map(|()| file.clone()).map_err(|error| DevError::Data { path: file.display().to_string(), error })
        };
        let admin_token_file = match admin_token_file {
            Some(file) => path::absolute(file)?,
            None => made(ADMIN_TOKEN_FILE, super::data::random_hex)?,
        };
        Ok(DevSecurity {
            certificates: DevCertificates::prepare(&data, plan)?,
            admin_token_file,
            user_token_file: made(USER_TOKEN_FILE, || BearerToken::from_random(rand::random()).expose())?,
        })
    }

    /// The options of a node's process.
    pub(super) fn serve_args(&self, node: NodeId) -> Vec<OsString> {
        let mut args = self.certificates.serve_args(node);
        args.extend(["--admin-token-file".into(), self.admin_token_file.clone().into_os_string()]);
        args
    }

    /// What a client of the cluster passes for TLS.
    pub(super) fn client_tls(&self) -> TlsArgs {
        self.certificates.client()
    }

    /// The token of the user.
    pub(super) fn user_token(&self) -> Result<String, DevError> {
        read_token(&self.user_token_file).map_err(|failure| DevError::Client(failure.to_string()))
    }

    /// The environment variables that tell commands how to connect, and as which user.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = self.certificates.variables();
        variables.push(("FAIRHOLD_AUTH_TOKEN_FILE", self.user_token_file.display().to_string()));
        variables
    }

    /// Makes the user an administrator, and begins to enforce rights. A repetition changes nothing.
    pub(super) async fn enforce_rights(&self, plan: &DevPlan) -> Result<(), DevError> {
        let done = async {
            let api = Api::new(&ConnectArgs {
                endpoint: plan.urls().into_iter().map(|(_, url)| url).collect(),
                cluster_id: None,
                timeout: TIMEOUT,
                auth_token_file: Some(self.admin_token_file.clone()),
                tls: self.client_tls(),
                quiet: true,
                verbose: false,
            })?;
            let token = BearerToken::parse(&read_token(&self.user_token_file)?)
                .map_err(|_| io::Error::other(format!("{} has no token of a user", self.user_token_file.display())))?;
            let body = json!({ "user": USER, "hash": token.hash().to_hex() });
            match api.call(&ApiRequest::change(Method::POST, "/v1/access/tokens").json(&body)).await {
                Ok(_) => {}
                Err(failure) if failure.has_code(Code::AlreadyIssued) => {}
                Err(failure) => return Err(failure),
            }
            api.call(&Bind { role: "admin", subject: &format!("user:{USER}") }.request(Method::PUT)).await?;
            api.call(&ApiRequest::change(Method::POST, "/v1/access/enable")).await?;
            Ok::<(), Failure>(())
        };
        done.await.map_err(|failure| DevError::Rights(failure.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt as _};

    #[test]
    fn tokens_are_made_once_and_only_their_owner_can_read_them() {
        let data = tempfile::tempdir().unwrap();
        let plan = DevPlan::new(1, 7171).unwrap().with_tls();
        let prepare = || DevSecurity::prepare(data.path(), &plan, None).unwrap();
        let read = |security: &DevSecurity| {
            let admin = fs::read_to_string(&security.admin_token_file).unwrap();
            (admin, security.user_token().unwrap())
        };
        let first = prepare();
        for file in [&first.admin_token_file, &first.user_token_file] {
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
        }
        assert_eq!(read(&prepare()), read(&first), "kept over restarts");
        BearerToken::parse(&first.user_token().unwrap()).unwrap();

        let named = data.path().join("named");
        let security = DevSecurity::prepare(data.path(), &plan, Some(&named)).unwrap();
        assert_eq!(security.admin_token_file, named);
    }
}
