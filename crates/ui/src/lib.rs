//! The dashboard: the files below `web`, compiled into the program. What is reviewed there is what is served: nothing
//! translates or minifies it.

/// A file.
#[derive(Debug)]
pub struct Asset {
    /// Its path below `web`.
    pub path: &'static str,
    /// Its content type.
    pub content_type: &'static str,
    /// Its bytes.
    pub plain: &'static [u8],
    /// Its bytes, compressed by gzip.
    pub gzip: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The path of the first page.
pub const INDEX: &str = "index.html";

/// The file at this path.
#[must_use]
pub fn asset(path: &str) -> Option<&'static Asset> {
    FILES.iter().find(|file| file.path == path)
}

/// Every file.
pub fn assets() -> impl Iterator<Item = &'static Asset> {
    FILES.iter()
}

#[cfg(test)]
mod tests;
