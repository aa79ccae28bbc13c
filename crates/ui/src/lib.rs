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

/// The content type of files whose names end like this path; `None` if no file of the dashboard does.
#[must_use]
pub fn content_type(path: &str) -> Option<&'static str> {
    let (_, extension) = path.rsplit_once('.')?;
    FILES
        .iter()
        .find(|file| file.path.rsplit_once('.').is_some_and(|(_, known)| known == extension))
        .map(|file| file.content_type)
}

/// Every file.
pub fn assets() -> impl Iterator<Item = &'static Asset> {
    FILES.iter()
}

#[cfg(test)]
mod tests;
