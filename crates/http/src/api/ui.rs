//! `/ui/`: the files of the dashboard. They are the same for everybody and contain nothing of this cluster: what the pages
//! show, they read by the calls of the API, with the rights of their reader.

use crate::edge::{
    accept::{accepts_gzip, has_version},
    body::NO_STORE,
    problem::Problem,
};
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use fairhold_node::Node;
use fairhold_types::Code;
use fairhold_ui::{Asset, HASH, INDEX, PLACEHOLDER, TAG, asset, content_type};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use openraft_rt::AsyncRuntime;
use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

/// Which dashboard a node serves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Dashboard {
    /// The one in the program.
    #[default]
    BuiltIn,
    /// The files in this folder, as they are at each request: for developers of the dashboard.
    Folder(PathBuf),
    /// None.
    Off,
}

/// The folder of the dashboard. Relative, so that it works behind a proxy that adds a prefix.
const FOLDER: HeaderValue = HeaderValue::from_static("ui/");
/// A path with the hash never changes what it means.
const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const ASK_AGAIN: HeaderValue = HeaderValue::from_static("no-cache");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const OPENER: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// `GET /ui`, and `GET /` of a browser.
pub(crate) async fn folder(dashboard: Dashboard) -> Result<Response, Problem> {
    if dashboard == Dashboard::Off { Err(no_dashboard()) } else { Ok(redirect()) }
}

/// Sends a browser to the dashboard.
fn redirect() -> Response {
    let headers = [(header::LOCATION, FOLDER), (header::VARY, HeaderValue::from_static("accept"))];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// `GET /ui/`: the first page. A browser asks for it each time, and gets `304` if it has it.
pub(crate) async fn index<RT: AsyncRuntime>(
    State(node): State<Node<RT>>,
    dashboard: Dashboard,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let urls = node.cluster().raft.members.into_iter().map(|member| member.member.url);
    let policy = HeaderValue::try_from(policy(urls))
        .map_err(|error| Problem::new(Code::Internal, format!("the policy of the dashboard: {error}")))?;
    let own = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (OPENER, HeaderValue::from_static("same-origin")),
    ];
    match dashboard {
        Dashboard::Off => Err(no_dashboard()),
        Dashboard::Folder(folder) => Ok((own, from_disk(&folder, INDEX)?).into_response()),
        Dashboard::BuiltIn => Ok((own, built_in_index(&headers)?).into_response()),
    }
}

fn built_in_index(headers: &HeaderMap) -> Result<Response, Problem> {
    let page = asset(INDEX).ok_or_else(|| Problem::new(Code::Internal, "the dashboard has no first page"))?;
    let tag = HeaderValue::from_static(TAG);
    let own = [(header::CACHE_CONTROL, ASK_AGAIN), (header::ETAG, tag.clone())];
    if has_version(headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, own).into_response());
    }
    Ok((own, encoded(page, headers)).into_response())
}

/// `GET /ui/HASH/…`: a file. Another hash is of another version of the program.
pub(crate) async fn file(uri: Uri, dashboard: Dashboard, headers: HeaderMap) -> Result<Response, Problem> {
    let path = uri.path().strip_prefix("/ui/").and_then(|path| path.split_once('/'));
    match (dashboard, path) {
        (Dashboard::Off, _) => Err(no_dashboard()),
        (Dashboard::Folder(folder), Some((_, path))) if path != INDEX => from_disk(&folder, path),
        (Dashboard::BuiltIn, Some((HASH, path))) => built_in(path, &headers),
        (Dashboard::BuiltIn | Dashboard::Folder(_), _) => Err(no_such_file()),
    }
}

fn built_in(path: &str, headers: &HeaderMap) -> Result<Response, Problem> {
    let file = asset(path).filter(|file| file.path != INDEX).ok_or_else(no_such_file)?;
    let own = [(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF), (header::CACHE_CONTROL, FOREVER)];
    Ok((own, encoded(file, headers)).into_response())
}

/// A file of the folder of `--ui-dir`. No browser keeps it, so each reload shows the last change.
fn from_disk(folder: &Path, path: &str) -> Result<Response, Problem> {
    let is_inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    let kind = content_type(path).filter(|_| is_inside).ok_or_else(no_such_file)?;
    let unreadable = |error: io::Error| Problem::new(Code::NotFound, format!("the folder of --ui-dir: {path}: {error}"));
    let mut bytes = read_inside(folder, path).map_err(unreadable)?;
    if path == INDEX {
        bytes = String::from_utf8_lossy(&bytes).replace(PLACEHOLDER, HASH).into_bytes();
    }
    let own = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF),
        (header::CACHE_CONTROL, NO_STORE),
    ];
    Ok((own, bytes).into_response())
}

/// Reads a file in a folder. A link could lead out of it, and the read of a pipe could take for ever.
fn read_inside(folder: &Path, path: &str) -> io::Result<Vec<u8>> {
    let file = folder.join(path).canonicalize()?;
    if file.starts_with(folder.canonicalize()?) && file.is_file() {
        fs::read(file)
    } else {
        Err(io::Error::new(io::ErrorKind::NotFound, "it is not a file in this folder"))
    }
}

fn no_such_file() -> Problem {
    Problem::new(Code::NotFound, "this version of the dashboard has no such file: load /ui/ again")
}

fn no_dashboard() -> Problem {
    Problem::new(Code::NotFound, "this node serves no dashboard: it runs with --ui=false; open that of another node")
}

fn encoded(file: &'static Asset, headers: &HeaderMap) -> Response {
    let kind = [
        (header::CONTENT_TYPE, HeaderValue::from_static(file.content_type)),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
    ];
    if accepts_gzip(headers) {
        (kind, [(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))], file.gzip).into_response()
    } else {
        (kind, file.plain).into_response()
    }
}

/// What the page may load and call: this server, and the other members, to find one that answers if this server does not.
fn policy(members: impl Iterator<Item = String>) -> String {
    let is_plain = |url: &String| url.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":/.-_[]".contains(&byte));
    let members: Vec<String> = members.filter(is_plain).map(|url| format!(" {}", url.trim_end_matches('/'))).collect();
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'{}; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        members.concat()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;
    use futures_util::FutureExt;

    fn get(path: &str, headers: &[(HeaderName, &'static str)]) -> Result<Response, u16> {
        get_from(Dashboard::BuiltIn, path, headers)
    }

    fn get_from(dashboard: Dashboard, path: &str, headers: &[(HeaderName, &'static str)]) -> Result<Response, u16> {
        let uri: Uri = path.parse().unwrap();
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
        let answer = file(uri, dashboard, headers).now_or_never().unwrap();
        answer.map_err(|problem| fairhold_types::problem::Problem::from(problem).status)
    }

    fn text(answer: Response) -> String {
        let bytes = to_bytes(answer.into_body(), usize::MAX).now_or_never().unwrap().unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn a_file_is_served_by_the_hash_and_kept_for_ever() {
        let path = format!("/ui/{HASH}/app/main.js");
        let plain = get(&path, &[]).unwrap();
        assert_eq!(plain.headers()[header::CACHE_CONTROL], FOREVER);
        assert_eq!(plain.headers()[header::CONTENT_TYPE], "text/javascript; charset=utf-8");
        assert_eq!(plain.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert!(!plain.headers().contains_key(header::CONTENT_ENCODING));
        let gzip = get(&path, &[(header::ACCEPT_ENCODING, "gzip, br")]).unwrap();
        assert_eq!(gzip.headers()[header::CONTENT_ENCODING], "gzip");
        assert_eq!(gzip.headers()[header::VARY], "accept-encoding");
    }

    #[test]
    fn another_hash_and_any_other_path_are_not_found() {
        for path in [
            "/ui/0123456789abcdef/app/main.js".to_owned(),
            format!("/ui/{HASH}"),
            format!("/ui/{HASH}/"),
            format!("/ui/{HASH}/index.html"),
            format!("/ui/{HASH}app/main.js"),
            format!("/ui/{HASH}/app/../app/main.js"),
            format!("/ui/{HASH}/%2e%2e/src/lib.rs"),
            "/ui/app/main.js".to_owned(),
        ] {
            assert_eq!(get(&path, &[]).map(|_| ()), Err(404), "{path}");
        }
    }

    #[test]
    fn the_policy_names_the_members_and_nothing_that_a_member_could_add() {
        let urls = ["http://n1:7171/", "https://[::1]:7171", "http://n3:7171; script-src *", "http://n4 *"];
        let policy = policy(urls.into_iter().map(str::to_owned));
        assert!(policy.contains("connect-src 'self' http://n1:7171 https://[::1]:7171; base-uri"), "{policy}");
        assert_eq!(policy.matches("script-src").count(), 1, "{policy}");
    }

    #[test]
    fn a_browser_is_sent_to_the_folder() {
        let answer = redirect();
        assert_eq!((answer.status(), &answer.headers()[header::LOCATION]), (StatusCode::SEE_OTHER, &FOLDER));
    }

    #[test]
    fn a_developer_gets_the_files_of_the_folder_as_they_are_now() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("app")).unwrap();
        fs::write(folder.path().join(INDEX), "<script src=\"./{HASH}/app/main.js\">").unwrap();
        fs::write(folder.path().join("secret.txt"), "x").unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("secret.js"), "x").unwrap();
        fs::create_dir(folder.path().join("app/folder.js")).unwrap();
        for (target, link) in [("secret.js", "app/link.js"), ("", "link")] {
            std::os::unix::fs::symlink(elsewhere.path().join(target), folder.path().join(link)).unwrap();
        }
        let dashboard = || Dashboard::Folder(folder.path().to_owned());
        for content in ["first", "second"] {
            fs::write(folder.path().join("app/main.js"), content).unwrap();
            // The hash of the compiled files says nothing about these.
            for hash in [HASH, "0123456789abcdef"] {
                let answer = get_from(dashboard(), &format!("/ui/{hash}/app/main.js"), &[]).unwrap();
                assert_eq!(answer.headers()[header::CACHE_CONTROL], NO_STORE);
                assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/javascript; charset=utf-8");
                assert_eq!(text(answer), content);
            }
        }
        let index = from_disk(folder.path(), INDEX).unwrap();
        assert_eq!(text(index), format!("<script src=\"./{HASH}/app/main.js\">"));
        let outside = ["../app/main.js", "/etc/a.js", "app/../app/main.js", "app/link.js", "link/secret.js"];
        for path in ["index.html", "secret.txt", "app", "app/gone.js", "app/folder.js"].into_iter().chain(outside) {
            assert_eq!(get_from(dashboard(), &format!("/ui/{HASH}/{path}"), &[]).map(|_| ()), Err(404), "{path}");
        }
    }

    #[test]
    fn a_node_without_the_dashboard_has_none_of_its_files() {
        assert_eq!(get_from(Dashboard::Off, &format!("/ui/{HASH}/app/main.js"), &[]).map(|_| ()), Err(404));
        let status = |dashboard| folder(dashboard).now_or_never().unwrap().map(|answer| answer.status()).ok();
        assert_eq!([status(Dashboard::Off), status(Dashboard::BuiltIn)], [None, Some(StatusCode::SEE_OTHER)]);
    }
}
