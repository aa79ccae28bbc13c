//! The table `[trace]`: where the spans of requests go.

use super::error::ConfigError;
use fairhold_trace::SampleRate;
use reqwest::Url;
use serde::Deserialize;

/// Where the spans go, and of which requests there are some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceConfig {
    /// The base URL of a collector that takes OTLP over HTTP, without a slash at its end.
    pub(crate) endpoint: String,
    /// The part of the requests that are traced.
    pub(crate) sample: SampleRate,
    /// Whether attributes may have names of locks and callers.
    pub(crate) shows_names: bool,
}

/// The table in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct TraceTable {
    endpoint: Option<String>,
    sample: Option<f64>,
    names: bool,
}

impl TraceTable {
    /// The configuration, if the table names a collector.
    pub(super) fn resolve(self) -> Result<TraceConfig, ConfigError> {
        let endpoint = self.endpoint.ok_or(ConfigError::TraceWithoutEndpoint)?;
        let Some(url) = base_url(&endpoint) else { return Err(ConfigError::TraceEndpoint { origin: origin(&endpoint) }) };
        let sample = match self.sample {
            None => SampleRate::DEFAULT,
            Some(part) => SampleRate::new(part).ok_or(ConfigError::TraceSample { part: part.to_string() })?,
        };
        // As it was read: the text may have white space around it, or capital letters.
        Ok(TraceConfig { endpoint: url.as_str().trim_end_matches('/').to_owned(), sample, shows_names: self.names })
    }
}

/// An HTTP URL to which a path can be added. A password would be a secret in a file that others may read.
fn base_url(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(|url| {
        let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
        let is_base = url.query().is_none() && url.fragment().is_none();
        is_http && is_base && url.username().is_empty() && url.password().is_none()
    })
}

/// The scheme, host and port of a URL, without what may be a secret. With an `@` behind the host, they may be the user and a
/// part of the password.
fn origin(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let behind = [Some(url.path()), url.query(), url.fragment()];
    if behind.into_iter().flatten().any(|part| part.contains('@')) {
        return None;
    }
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    Some(format!("{}://{}{port}", url.scheme(), url.host_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str) -> Result<TraceConfig, String> {
        let table: TraceTable = toml::from_str(text).unwrap();
        table.resolve().map_err(|error| error.to_string())
    }

    #[test]
    fn a_collector_is_an_http_url_without_a_secret() {
        let config = resolve("endpoint = \"http://collector:4318/\"\n").unwrap();
        let expected =
            TraceConfig { endpoint: "http://collector:4318".to_owned(), sample: SampleRate::DEFAULT, shows_names: false };
        assert_eq!(config, expected);
        let all = resolve("endpoint = \"https://c/otlp\"\nsample = 1\nnames = true\n").unwrap();
        assert_eq!((all.sample, all.shows_names), (SampleRate::new(1.0).unwrap(), true));
        assert_eq!(resolve("endpoint = \" HTTPS://Collector:4318/ \"\n").unwrap().endpoint, "https://collector:4318");
        for wrong in ["", "collector:4318", "grpc://c:4317", "http://", "http://a:b@c", "http://c?x=1", "http://c#x"] {
            assert!(resolve(&format!("endpoint = \"{wrong}\"\n")).unwrap_err().contains("trace.endpoint"), "{wrong}");
        }
        assert!(resolve("endpoint = \"grpc://c:4317/x\"\n").unwrap_err().contains("file names grpc://c:4317: write the URL"));
        for secret in ["//u:s3cret@c:4318", "//s3cret@c", "//c/?key=s3cret", "//c#s3cret", "//u:s3c/ret@c", "//u:1#s3cret@c"] {
            let error = resolve(&format!("endpoint = \"http:{secret}\"\n")).unwrap_err();
            assert!(!error.contains("s3c") && !error.contains("http://u"), "{error}");
        }
        assert!(resolve("sample = 0.5\n").unwrap_err().contains("needs the key `endpoint`"));
        for wrong in ["-0.1", "1.1", "nan", "inf"] {
            let text = format!("endpoint = \"http://c:1\"\nsample = {wrong}\n");
            assert!(resolve(&text).unwrap_err().contains("trace.sample"), "{wrong}");
        }
    }
}
