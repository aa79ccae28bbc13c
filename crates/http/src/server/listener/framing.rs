//! Follows where each request of a connection begins and ends, and spoils bytes that another server could read differently.
//!
//! If a proxy and this server disagree about the end of a request, an attacker can hide a second request in the first one
//! (request smuggling: RFC 9112, section 11.2). hyper accepts three forms that RFC 9112 permits and other servers read
//! differently: lines that end with a bare LF (section 2.2), a repeated `Content-Length` (section 6.3), and a
//! `Content-Length` next to a `Transfer-Encoding` (section 6.1). The parsed request shows none of them, so this looks at
//! the bytes before hyper does. It replaces the offending LF with NUL, which no head and no trailer may have: hyper refuses
//! the request with 400 and closes the connection, after it has answered the requests before it.

/// How many bytes of a header line are kept, to read its value. A length has at most 20 digits.
const LINE_BYTES_KEPT: usize = 64;
const CRLF_BYTES: u64 = 2;

/// The position in the requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Framing {
    part: Part,
    head: Head,
    line: Line,
}

/// The part of a request to which the next byte belongs.
#[derive(Debug, Default, Clone, Copy)]
enum Part {
    /// The request line, a header, or the empty line after them.
    #[default]
    Head,
    /// A body with a `Content-Length`, of which this many bytes are missing.
    Body { left: u64 },
    /// The line with the size of a chunk.
    ChunkSize,
    /// A chunk, of which this many bytes are missing, CRLF included.
    Chunk { left: u64 },
    /// The lines after the last chunk.
    Trailers,
}

/// What the lines of a head have said so far.
#[derive(Debug, Default)]
struct Head {
    has_request_line: bool,
    length: Option<u64>,
    is_chunked: bool,
}

/// The start of a line, its length and its last byte: the line may arrive in pieces.
#[derive(Debug)]
struct Line {
    start: [u8; LINE_BYTES_KEPT],
    length: usize,
    last: u8,
}

impl Default for Line {
    fn default() -> Line {
        Line { start: [0; LINE_BYTES_KEPT], length: 0, last: 0 }
    }
}

impl Framing {
    /// Follows the next bytes of the connection, in any pieces, and spoils those that are ambiguous.
    pub(super) fn follow(&mut self, bytes: &mut [u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if let Part::Body { left } | Part::Chunk { left } = &mut self.part {
                let skipped = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                *left -= skipped as u64;
                if *left == 0 {
                    self.part = if matches!(self.part, Part::Chunk { .. }) { Part::ChunkSize } else { Part::Head };
                }
                rest = &mut rest[skipped..];
                continue;
            }
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                self.line.extend(rest);
                return;
            };
            self.line.extend(&rest[..end]);
            if !self.end_line() {
                rest[end] = 0;
            }
            self.line.clear();
            rest = &mut rest[end + 1..];
        }
    }

    /// A line has ended. Returns whether all servers read it the same way.
    fn end_line(&mut self) -> bool {
        if self.line.last != b'\r' {
            // hyper itself refuses a bare LF after the size of a chunk, but would take NUL for a part of an extension.
            return matches!(self.part, Part::ChunkSize);
        }
        match self.part {
            Part::Head if self.line.is_empty() => {
                self.end_head();
                true
            }
            Part::Head => self.end_head_line(),
            Part::ChunkSize => self.end_chunk_size(),
            Part::Trailers => {
                if self.line.is_empty() {
                    self.part = Part::Head;
                }
                true
            }
            Part::Body { .. } | Part::Chunk { .. } => true,
        }
    }

    fn end_head(&mut self) {
        // Empty lines before a request line do not count (RFC 9112, section 2.2).
        if self.head.has_request_line {
            let head = std::mem::take(&mut self.head);
            self.part = match head.length {
                _ if head.is_chunked => Part::ChunkSize,
                Some(left) if left > 0 => Part::Body { left },
                Some(_) | None => Part::Head,
            };
        }
    }

    /// `head::check` and hyper refuse codings other than `chunked`.
    fn end_head_line(&mut self) -> bool {
        let Framing { head, line, .. } = self;
        if !head.has_request_line {
            head.has_request_line = true;
            return true;
        }
        let Some((name, value)) = line.header() else { return true };
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            head.is_chunked = true;
            return head.length.is_none();
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            let is_first = head.length.is_none() && !head.is_chunked;
            head.length = value.and_then(|value| number(value, 10));
            return is_first && head.length.is_some();
        }
        true
    }

    fn end_chunk_size(&mut self) -> bool {
        let digits = self.line.kept().split(|byte| matches!(byte, b';' | b' ' | b'\t' | b'\r')).next();
        // If the line is cut off within the digits, the number is unknown.
        let digits = digits.filter(|digits| digits.len() < LINE_BYTES_KEPT);
        let Some(size) = digits.and_then(|digits| number(digits, 16)) else { return false };
        self.part = if size == 0 { Part::Trailers } else { Part::Chunk { left: size.saturating_add(CRLF_BYTES) } };
        true
    }
}

impl Line {
    fn extend(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        let free = self.start.get_mut(self.length..).unwrap_or_default();
        let kept = free.len().min(bytes.len());
        free[..kept].copy_from_slice(&bytes[..kept]);
        self.length = self.length.saturating_add(bytes.len());
        self.last = *last;
    }

    fn clear(&mut self) {
        (self.length, self.last) = (0, 0);
    }

    /// The line has nothing but its CR.
    fn is_empty(&self) -> bool {
        self.length == 1
    }

    fn kept(&self) -> &[u8] {
        &self.start[..self.length.min(LINE_BYTES_KEPT)]
    }

    /// The name of a header, and its value unless that is too long. `None` if the line has no name.
    fn header(&self) -> Option<(&[u8], Option<&[u8]>)> {
        let kept = self.kept();
        let colon = kept.iter().position(|byte| *byte == b':')?;
        let value = (self.length <= LINE_BYTES_KEPT).then(|| kept[colon + 1..].trim_ascii());
        Some((&kept[..colon], value))
    }
}

/// A number that consists of digits alone: the parser of the standard library also accepts a sign.
fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let are_digits = digits.iter().all(|digit| char::from(*digit).is_digit(radix));
    let text = std::str::from_utf8(digits).ok().filter(|_| are_digits)?;
    u64::from_str_radix(text, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The positions of the bytes that are spoiled if they arrive in pieces of this size, and whether a request may begin next.
    fn spoiled(text: &str, piece: usize) -> (Vec<usize>, bool) {
        let mut bytes = text.as_bytes().to_vec();
        let mut framing = Framing::default();
        bytes.chunks_mut(piece).for_each(|piece| framing.follow(piece));
        let changed = text.bytes().zip(&bytes).enumerate().filter(|(_, (before, after))| before != *after);
        let at_start = matches!(framing.part, Part::Head) && !framing.head.has_request_line && framing.line.length == 0;
        (changed.map(|(position, _)| position).collect(), at_start)
    }

    fn assert_whole(text: &str) {
        for piece in 1..=text.len() {
            assert_eq!(spoiled(text, piece), (Vec::new(), true), "{text:?} in pieces of {piece}");
        }
    }

    /// Only the line end after `until` is spoiled.
    fn assert_spoiled(text: &str, until: &str) {
        let position = text.find(until).unwrap() + until.len();
        for piece in 1..=text.len() {
            assert_eq!(spoiled(text, piece).0, [position], "{text:?} in pieces of {piece}");
        }
    }

    const LINE: &str = "POST / HTTP/1.1\r\nHost: x\r\n";

    #[test]
    fn the_end_of_each_valid_request_is_found() {
        let chunked = format!("{LINE}Transfer-Encoding: chunked\r\n\r\n");
        for request in [
            format!("{LINE}\r\n"),
            format!("\r\n\r\n{LINE}\r\n"),
            format!("{LINE}Content-Length: 0\r\n\r\n"),
            format!("{LINE}content-length:\t 7 \r\n\r\nab\ncd\r\n"),
            format!("{LINE}X-Content-Length: 7\r\nno colon\r\nLong: {}\r\n\r\n", "a".repeat(200)),
            format!("{chunked}0\r\n\r\n"),
            format!("{chunked}3\r\na\nb\r\nA;ext=\"1\"\r\n0123456789\r\n00\r\nA: b\r\n\r\n"),
            format!("{chunked}1 ; {}\r\nx\r\n0\r\n\r\n", "a".repeat(200)),
        ] {
            assert_whole(&request);
            assert_whole(&request.repeat(3));
        }
    }

    #[test]
    fn a_bare_line_feed_is_spoiled_in_heads_and_trailers() {
        assert_spoiled("GET / HTTP/1.1\nHost: x\r\n\r\n", "1.1");
        assert_spoiled("GET / HTTP/1.1\r\nHost: x\n\r\n", "x");
        assert_spoiled("GET / HTTP/1.1\r\nHost: x\r\n\n", "x\r\n");
        assert_spoiled(&format!("{LINE}Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\r\n"), "A: b");
        assert_spoiled(&format!("{LINE}Content-Length: 1\r\n\r\n\n{LINE}A: b\nC: d\r\n\r\n"), "A: b");
        // hyper refuses this one itself.
        assert_eq!(spoiled(&format!("{LINE}Transfer-Encoding: chunked\r\n\r\n1;a\nx"), 7).0, Vec::<usize>::new());
    }

    #[test]
    fn a_second_length_is_spoiled() {
        assert_spoiled(&format!("{LINE}Content-Length: 5\r\ncontent-length: 5\r\n\r\n"), "content-length: 5\r");
        assert_spoiled(&format!("{LINE}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"), "chunked\r");
        assert_spoiled(&format!("{LINE}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"), "Length: 5\r");
    }

    #[test]
    fn a_length_that_is_no_number_is_spoiled() {
        for length in ["", "+5", "-5", "0x5", "5, 5", "5 5", "5a", "18446744073709551616", &"0".repeat(60)] {
            assert_spoiled(&format!("{LINE}Content-Length: {length}\r\n\r\n"), &format!("Length: {length}\r"));
        }
        let zeros = "0".repeat(100);
        for size in ["", "+1", "x", "-0", "10000000000000000", &zeros] {
            let start = format!("{LINE}Transfer-Encoding: chunked\r\n\r\n{size}\r");
            assert_eq!(spoiled(&format!("{start}\n"), 3).0, [start.len()], "{size}");
        }
    }
}
