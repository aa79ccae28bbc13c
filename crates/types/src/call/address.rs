//! The two addresses of a node, as a call names them. A parsed address is well formed, so no code checks it again.

use crate::limits::MEMBER_ADDRESS_BYTES_MAX;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use std::{
    net::{Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// Why a text is not an address of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseAddressError {
    /// The URL has another scheme, or none.
    #[error("expected http://HOST:PORT or https://HOST:PORT")]
    Scheme,
    /// The URL has a path, a query or a user.
    #[error("expected http://HOST:PORT or https://HOST:PORT, and nothing more")]
    UrlTail,
    /// Not a host and a port.
    #[error("expected HOST:PORT, with a port from 1 to 65535, and an IPv6 address in brackets")]
    Malformed,
    /// The address that means "every address of this machine".
    #[error("expected an address that the other machines can reach, not one that means every address of a machine")]
    Unspecified,
    /// The text is too long.
    #[error("expected an address of at most {MEMBER_ADDRESS_BYTES_MAX} bytes")]
    TooLong,
}

/// The address of a node for clients: `http://HOST:PORT`, or `https://HOST:PORT` with TLS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct NodeUrl(String);

impl NodeUrl {
    /// The URL, without a slash at its end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The URL, owned.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl FromStr for NodeUrl {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<NodeUrl, ParseAddressError> {
        check_length(text)?;
        let (scheme, address) = split_url(text).ok_or(ParseAddressError::Scheme)?;
        let address = address.strip_suffix('/').unwrap_or(address);
        if address.contains(['/', '?', '#', '@']) {
            return Err(ParseAddressError::UrlTail);
        }
        check(address)?;
        Ok(NodeUrl(format!("{scheme}{address}")))
    }
}

/// The address of a node for the other nodes: `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PeerAddress(String);

impl PeerAddress {
    /// The address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address, owned.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl FromStr for PeerAddress {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<PeerAddress, ParseAddressError> {
        check_length(text)?;
        check(text)?;
        Ok(PeerAddress(text.to_owned()))
    }
}

/// Splits the URL of a node behind its scheme. `None` if it has another scheme, or none.
#[must_use]
pub fn split_url(url: &str) -> Option<(&str, &str)> {
    ["http://", "https://"].into_iter().find(|scheme| url.starts_with(scheme)).map(|scheme| url.split_at(scheme.len()))
}

impl<'de> Deserialize<'de> for NodeUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for PeerAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

fn check_length(text: &str) -> Result<(), ParseAddressError> {
    if text.len() > MEMBER_ADDRESS_BYTES_MAX { Err(ParseAddressError::TooLong) } else { Ok(()) }
}

/// Checks `HOST:PORT`. It does not resolve the host.
fn check(text: &str) -> Result<(), ParseAddressError> {
    let (host, port) = text.rsplit_once(':').ok_or(ParseAddressError::Malformed)?;
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0') && port.parse::<u16>().is_ok();
    if !is_port {
        return Err(ParseAddressError::Malformed);
    }
    let is_unspecified = if let Some(bracketed) = host.strip_prefix('[') {
        let address = bracketed.strip_suffix(']').and_then(|address| address.parse::<Ipv6Addr>().ok());
        address.ok_or(ParseAddressError::Malformed)?.is_unspecified()
    } else {
        let is_name = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        if !is_name {
            return Err(ParseAddressError::Malformed);
        }
        host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_unspecified())
    };
    if is_unspecified { Err(ParseAddressError::Unspecified) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_host_and_a_port_and_nothing_more() {
        for (text, url) in [
            ("http://n2:7171", "http://n2:7171"),
            ("http://fairhold-1.example:7171/", "http://fairhold-1.example:7171"),
            ("http://[2001:db8::2]:7171", "http://[2001:db8::2]:7171"),
            ("https://n2:7171/", "https://n2:7171"),
        ] {
            assert_eq!(text.parse::<NodeUrl>().unwrap().as_str(), url);
        }
        for (text, error) in [
            ("n2:7171", ParseAddressError::Scheme),
            ("ftp://n2:7171", ParseAddressError::Scheme),
            ("http://n2:7171/v1", ParseAddressError::UrlTail),
            ("http://n2:7171?a", ParseAddressError::UrlTail),
            ("http://u@n2:7171", ParseAddressError::UrlTail),
            ("http://n2", ParseAddressError::Malformed),
            ("http://0.0.0.0:7171", ParseAddressError::Unspecified),
            ("http://[::]:7171", ParseAddressError::Unspecified),
        ] {
            assert_eq!(text.parse::<NodeUrl>(), Err(error), "{text}");
        }
    }

    #[test]
    fn an_address_for_peers_has_a_host_and_a_port() {
        for text in ["n2:7271", "10.0.0.7:1", "[::1]:65535"] {
            assert_eq!(text.parse::<PeerAddress>().unwrap().as_str(), text);
        }
        for text in ["", "n2", ":7271", "n2:0", "n2:07", "n2:+7", "n2:65536", "::1:7", "[::1]", "[x]:7", "a b:7", "n2:7,n3:7"] {
            assert_eq!(text.parse::<PeerAddress>(), Err(ParseAddressError::Malformed), "{text}");
        }
        let long = format!("{}:7271", "a".repeat(MEMBER_ADDRESS_BYTES_MAX));
        assert_eq!(long.parse::<PeerAddress>(), Err(ParseAddressError::TooLong));
    }
}
