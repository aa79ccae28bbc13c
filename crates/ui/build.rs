//! Makes the table of files below `web`: each as it is and compressed, and one hash over all of them.

use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

/// The first page names the others by this placeholder instead of the hash.
const PLACEHOLDER: &str = "{HASH}";
/// How much of the hash is in a path.
const HASH_BYTES: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let web = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("web");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed={}", web.display());
    let mut files = Vec::new();
    find(&web, &mut files)?;
    files.sort();
    let mut hasher = Sha256::new();
    for file in &files {
        hasher.update(name(&web, file).as_bytes());
        hasher.update([0]);
        hasher.update(fs::read(file)?);
    }
    let mut hash = String::new();
    for byte in hasher.finalize().iter().take(HASH_BYTES) {
        write!(hash, "{byte:02x}")?;
    }
    let mut table = format!("/// The hash of all files, which is in their paths.\npub const HASH: &str = \"{hash}\";\n");
    writeln!(
        table,
        "/// The tag of the first page: weak, because both encodings share it.\npub const TAG: &str = {:?};",
        tag(&hash)
    )?;
    writeln!(
        table,
        "/// What the source of the first page has in place of the hash.\npub const PLACEHOLDER: &str = {PLACEHOLDER:?};"
    )?;
    table.push_str("const FILES: &[Asset] = &[\n");
    for (index, file) in files.iter().enumerate() {
        let name = name(&web, file);
        let mut bytes = fs::read(file)?;
        if name == "index.html" {
            bytes = String::from_utf8(bytes)?.replace(PLACEHOLDER, &hash).into_bytes();
        }
        let plain = out.join(format!("{index}"));
        let gzip = out.join(format!("{index}.gz"));
        let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
        encoder.write_all(&bytes)?;
        fs::write(&gzip, encoder.finish()?)?;
        fs::write(&plain, bytes)?;
        let kind = content_type(&name)?;
        writeln!(table, "    Asset {{ path: {name:?}, content_type: {kind:?},")?;
        writeln!(table, "        plain: include_bytes!({plain:?}), gzip: include_bytes!({gzip:?}) }},")?;
    }
    table.push_str("];\n");
    fs::write(out.join("files.rs"), table)?;
    Ok(())
}

/// Finds every file, except pages for people who read the source.
fn find(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_none_or(|extension| extension != "md" && extension != "LICENSE") {
            files.push(path);
        }
    }
    Ok(())
}

fn tag(hash: &str) -> String {
    format!("W/\"{hash}\"")
}

fn name(web: &Path, file: &Path) -> String {
    file.strip_prefix(web).unwrap_or(file).to_string_lossy().replace('\\', "/")
}

fn content_type(name: &str) -> Result<&'static str, String> {
    match name.rsplit('.').next() {
        Some("html") => Ok("text/html; charset=utf-8"),
        Some("js") => Ok("text/javascript; charset=utf-8"),
        Some("css") => Ok("text/css; charset=utf-8"),
        Some("svg") => Ok("image/svg+xml"),
        Some(_) | None => Err(format!("web/{name}: no content type is known for it")),
    }
}
