//! Files with settings and secrets. Only regular ones are read: a FIFO or a device may never end, or never begin.

use rustix::fs::OFlags;
use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// Opens a regular file for reading.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Opening a FIFO would wait for its other end.
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Reads a regular file with a text.
pub(crate) fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::fs;

    #[test]
    fn only_a_regular_file_is_read_and_nothing_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link, fifo) = (folder.path().join("file"), folder.path().join("link"), folder.path().join("fifo"));
        fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!((read_to_string(&file).unwrap(), read_to_string(&link).unwrap()), ("text".to_owned(), "text".to_owned()));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for path in [&*fifo, folder.path(), Path::new("/dev/null")] {
            let error = read_to_string(path).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{}: {error}", path.display());
        }
        assert_eq!(read_to_string(&folder.path().join("absent")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
