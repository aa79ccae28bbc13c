//! Decodes text in a URL.

use percent_encoding::percent_decode;
use std::borrow::Cow;

/// The digits of a whole number, without a sign or spaces.
pub(crate) fn digits(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Decodes a name or value of a query: `+` is a space, `%` and two digits are a byte.
pub(super) fn decode_form(text: &str) -> Result<Cow<'_, str>, &'static str> {
    if text.contains('+') {
        let spaced = text.replace('+', " ");
        return percent_decoded(&spaced).map(|decoded| Cow::Owned(decoded.into_owned()));
    }
    percent_decoded(text)
}

/// Decodes `%` and two digits to a byte, and refuses what is broken: half an escape, and bytes that are not UTF-8.
pub(super) fn percent_decoded(text: &str) -> Result<Cow<'_, str>, &'static str> {
    if !text.contains('%') {
        return Ok(Cow::Borrowed(text));
    }
    let bytes = text.as_bytes();
    let broken = |(index, byte): (usize, &u8)| {
        *byte == b'%' && !bytes.get(index + 1..index + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if bytes.iter().enumerate().any(broken) {
        return Err("the URL is not valid: two hexadecimal digits must follow % (write % itself as %25)");
    }
    percent_decode(bytes).decode_utf8().map_err(|_| "the URL is not valid: its bytes are not UTF-8")
}
