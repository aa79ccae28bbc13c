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
        let Some(url) = base_url(&endpoint) else { return Err(ConfigError::TraceEndpoint { endpoint }) };
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
        assert!(resolve("sample = 0.5\n").unwrap_err().contains("needs the key `endpoint`"));
        for wrong in ["-0.1", "1.1", "nan", "inf"] {
            let text = format!("endpoint = \"http://c:1\"\nsample = {wrong}\n");
            assert!(resolve(&text).unwrap_err().contains("trace.sample"), "{wrong}");
        }
    }
}
