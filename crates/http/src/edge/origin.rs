//! Which web pages may call: a browser inside the network also runs other sites' pages, and sends their requests.
//!
//! With every call except a plain read, a browser names the page's site in `Origin`. Over TLS and to its own machine, it also
//! sends `Sec-Fetch-Site`. Programs send neither. So a program may call anything, and a page must be this server's own. See
//! `docs/internals/decisions/0032-web-pages-and-names.md`.

use crate::{edge::headers, edge::problem::Problem};
use fairhold_types::Code;
use http::{HeaderMap, HeaderName, Method, Uri, header};
use std::{net::Ipv6Addr, sync::Arc};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// The option that allows another host name.
const OPTION: &str = "--allowed-host";

/// The names by which clients reach this server. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Hosts(Arc<Names>);

#[derive(Debug, Default)]
struct Names {
    /// The members' hosts, without their ports.
    members: Vec<String>,
    /// Hosts that the operator allowed. If there are any, every request must name one of the known hosts.
    allowed: Vec<String>,
}

impl Hosts {
    /// The members' hosts, from their URLs, and the hosts that the operator allowed.
    #[must_use]
    pub fn new(members: impl IntoIterator<Item = String>, allowed: impl IntoIterator<Item = String>) -> Hosts {
        let bare = |host: String| host_of(&host).to_ascii_lowercase();
        let (members, allowed) = (members.into_iter().map(bare).collect(), allowed.into_iter().map(bare).collect());
        Hosts(Arc::new(Names { members, allowed }))
    }

    /// Accepts requests of programs and of this server's own pages. It runs before the body is read.
    pub(crate) fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let origin = headers.get(header::ORIGIN);
        let site = headers.get(SEC_FETCH_SITE);
        if origin.is_none() && site.is_none() && self.0.allowed.is_empty() {
            return Ok(());
        }
        let host = match uri.authority() {
            Some(authority) => Some(authority.as_str()),
            None => headers::text(headers, header::HOST)?,
        };
        if !self.0.allowed.is_empty() && !host.is_some_and(|host| self.is_own(host)) {
            return Err(foreign_host(host));
        }
        let is_read = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if let Some(site) = site
            && !matches!(site.as_bytes(), b"same-origin" | b"none")
            && !(is_read && is_open_to_all(uri, headers))
        {
            return Err(foreign_page("a page of another site"));
        }
        match origin {
            Some(origin) if !is_read => self.check_origin(origin.to_str().unwrap_or_default(), host),
            Some(_) | None => Ok(()),
        }
    }

    /// The page's own host must be the host that it calls, and that must be ours: with DNS rebinding both are the attacker's
    /// name.
    fn check_origin(&self, origin: &str, host: Option<&str>) -> Result<(), Problem> {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        match authority {
            Some(authority) if self.is_allowed(authority) => Ok(()),
            Some(authority) if !host.is_some_and(|host| host.eq_ignore_ascii_case(authority)) => {
                Err(foreign_page(&format!("the page {}", shown(origin))))
            }
            Some(authority) if !self.is_own(authority) => Err(foreign_host(Some(authority))),
            Some(_) => Ok(()),
            None => Err(foreign_page("a page without an origin")),
        }
    }

    /// An address, this machine, a member, or a name that the operator added.
    fn is_own(&self, authority: &str) -> bool {
        let host = host_of(authority);
        let is_address = host.parse::<std::net::Ipv4Addr>().is_ok() || host.parse::<Ipv6Addr>().is_ok();
        is_address
            || host.eq_ignore_ascii_case("localhost")
            || self.0.members.iter().any(|member| host.eq_ignore_ascii_case(member))
            || self.is_allowed(authority)
    }

    fn is_allowed(&self, authority: &str) -> bool {
        self.0.allowed.iter().any(|allowed| host_of(authority).eq_ignore_ascii_case(allowed))
    }
}

/// The requests that a page of another site may make: a link that a person follows, and `/livez`.
fn is_open_to_all(uri: &Uri, headers: &HeaderMap) -> bool {
    uri.path() == "/livez" || headers.get(SEC_FETCH_MODE).is_some_and(|mode| mode.as_bytes() == b"navigate")
}

/// The host of `HOST` or `HOST:PORT`, and an IPv6 address without its brackets. Any other text stays as it is, and matches no
/// known host.
fn host_of(authority: &str) -> &str {
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']').unwrap_or((authority, "")),
        None => authority.split_at(authority.rfind(':').unwrap_or(authority.len())),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if port.is_empty() || port.strip_prefix(':').is_some_and(is_port) { host } else { authority }
}

/// A name from outside, short enough for a message.
fn shown(name: &str) -> String {
    name.chars().filter(char::is_ascii_graphic).take(100).collect()
}

fn foreign_page(who: &str) -> Problem {
    Problem::new(
        Code::Denied,
        format!("{who} may not call this server; if its host is a name of this cluster, start the servers with {OPTION} NAME"),
    )
}

fn foreign_host(host: Option<&str>) -> Problem {
    let detail = match host {
        Some(host) => format!(
            "the request names the host {}, which is not a known name of this server; if it is one, start the servers with \
             {OPTION} NAME",
            shown(host_of(host))
        ),
        None => "the request names no host: send a Host header with a name of this server".to_owned(),
    };
    Problem::new(Code::Denied, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(hosts: &Hosts, method: &str, uri: &str, given: &[(&'static str, &str)]) -> Result<(), String> {
        let headers = given.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect();
        let checked = hosts.check(&method.parse().unwrap(), &uri.parse().unwrap(), &headers);
        checked.map_err(|problem| {
            let problem = fairhold_types::problem::Problem::from(problem);
            assert_eq!((problem.status, problem.code), (403, Code::Denied));
            problem.detail.into_owned()
        })
    }

    fn plain() -> Hosts {
        Hosts::new(["n1.example:7171".to_owned()], [])
    }

    fn named() -> Hosts {
        Hosts::new(["n1.example:7171".to_owned()], ["locks.example".to_owned()])
    }

    #[test]
    fn a_program_may_use_any_host_name() {
        for host in ["fairhold.default.svc:7171", "n1.example:7171", "10.0.0.1", "x"] {
            for method in ["GET", "POST", "DELETE", "PATCH"] {
                assert_eq!(check(&plain(), method, "/v1/locks/a", &[("host", host)]), Ok(()), "{method} {host}");
            }
        }
    }

    #[test]
    fn a_web_page_may_call_only_its_own_server() {
        for (host, origin, passes) in [
            ("n1.example:7171", "http://n1.example:7171", true),
            ("N1.example:7171", "http://n1.EXAMPLE:7171", true),
            ("127.0.0.1:7171", "http://127.0.0.1:7171", true),
            ("[::1]:7171", "http://[::1]:7171", true),
            ("localhost:7171", "http://localhost:7171", true),
            ("127.0.0.1:7171", "http://127.0.0.1:8080", false),
            ("127.0.0.1:7171", "https://evil.example", false),
            ("127.0.0.1:7171", "null", false),
            ("127.0.0.1:7171", "", false),
            // An attacker's name that points here.
            ("rebound.example:7171", "http://rebound.example:7171", false),
            ("n1.example.evil:7171", "http://n1.example.evil:7171", false),
            // A name that begins like an address.
            ("127.0.0.1:7171.evil.example", "http://127.0.0.1:7171.evil.example", false),
            ("[::1].evil.example:7171", "http://[::1].evil.example:7171", false),
            ("[::1]evil.example", "http://[::1]evil.example", false),
        ] {
            for method in ["POST", "PUT", "DELETE", "PATCH", "MADE-UP"] {
                let checked = check(&plain(), method, "/v1/locks/a", &[("host", host), ("origin", origin)]);
                assert_eq!(checked.is_ok(), passes, "{method} of {origin} to {host}: {checked:?}");
                assert!(checked.is_ok() || checked.unwrap_err().contains("--allowed-host NAME"), "it says what to do");
            }
            let read = check(&plain(), "GET", "/v1/locks/a", &[("host", host), ("origin", origin)]);
            assert_eq!(read, Ok(()), "without CORS headers, the browser hides the answer from the page");
        }
    }

    #[test]
    fn an_allowed_host_is_this_server_in_every_check() {
        for (host, origin, passes) in [
            ("locks.example", Some("https://locks.example"), true),
            // A proxy in front that writes another host.
            ("n1.example:7171", Some("https://locks.example"), true),
            ("n1.example:7171", None, true),
            ("10.0.0.1:7171", None, true),
            ("other.example", None, false),
            ("other.example", Some("https://locks.example"), false),
            ("n1.example:7171", Some("https://other.example"), false),
        ] {
            for method in ["POST", "GET"] {
                let given: Vec<_> = [("host", host)].into_iter().chain(origin.map(|origin| ("origin", origin))).collect();
                let passes = passes || (method == "GET" && host == "n1.example:7171");
                assert_eq!(check(&named(), method, "/v1/locks/a", &given).is_ok(), passes, "{method} of {origin:?} to {host}");
            }
        }
        assert!(
            check(&named(), "GET", "http://other.example/livez", &[("host", "locks.example")]).is_err(),
            "the host of the request target takes precedence"
        );
        assert!(check(&named(), "GET", "/livez", &[]).is_err());
    }

    #[test]
    fn a_refusal_names_the_host_once_and_says_what_to_do() {
        let refused = |given: &[(&'static str, &str)]| check(&named(), "POST", "/v1/locks/a", given).unwrap_err();
        let other = refused(&[("host", "other.example:7171")]);
        assert!(other.starts_with("the request names the host other.example, which is not"), "{other}");
        assert!(other.ends_with("start the servers with --allowed-host NAME"), "{other}");
        let none = refused(&[]);
        assert!(none.starts_with("the request names no host: send a Host header"), "{none}");
    }

    #[test]
    fn sec_fetch_site_of_another_site_is_refused() {
        let from = |site: &str, method: &str, uri: &str, mode: &str| {
            let given = [("host", "127.0.0.1:7171"), ("sec-fetch-site", site), ("sec-fetch-mode", mode)];
            check(&plain(), method, uri, &given).is_ok()
        };
        for site in ["cross-site", "same-site", "anything"] {
            assert!(!from(site, "POST", "/v1/locks/a", "no-cors") && !from(site, "POST", "/v1/locks/a", "navigate"), "{site}");
            assert!(!from(site, "GET", "/v1/watch", "no-cors"), "{site}");
            assert!(from(site, "GET", "/v1/cluster", "navigate") && from(site, "GET", "/livez", "no-cors"), "{site}");
        }
        for site in ["same-origin", "none"] {
            assert!(from(site, "POST", "/v1/locks/a", "cors") && from(site, "GET", "/v1/watch", "cors"), "{site}");
        }
    }
}
