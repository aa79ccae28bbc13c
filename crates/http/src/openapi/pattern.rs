//! Regular expressions for numbers and durations within bounds.

use std::time::Duration;

/// The units of a duration with one number, and their milliseconds.
const UNITS: [(&str, u128); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// A duration within these bounds: one number and one unit, or bare seconds, which may have a fraction. The parser accepts more:
/// several numbers, like `1m 30s`, and longer units.
pub(super) fn duration(min: Duration, max: Duration) -> String {
    let (min, max) = (min.as_millis(), max.as_millis());
    let mut forms = Vec::new();
    let whole = 1_000;
    if min / whole < max / whole {
        let (from, to) = (min.div_ceil(whole), max / whole - 1);
        forms.push(format!("{}\\.[0-9]+", number(from, to)));
    }
    for (unit, millis) in UNITS {
        let (from, to) = (min.div_ceil(millis), max / millis);
        if from <= to {
            // A bare number means seconds.
            let optional = if unit == "s" { "?" } else { "" };
            forms.push(format!("{}{unit}{optional}", number(from, to)));
        }
    }
    format!("^0*({})$", forms.join("|"))
}

/// A whole number within these bounds, without leading zeros.
fn number(min: u128, max: u128) -> String {
    let mut forms = Vec::new();
    let mut from = min;
    while from <= max {
        let to = end_of_block(from, max);
        forms.push(block(&from.to_string(), &to.to_string()));
        from = to + 1;
    }
    format!("({})", forms.join("|"))
}

/// The end of the longest block that starts at `from`: its numbers share their first digits, differ in one digit, and have any
/// digits after it.
fn end_of_block(from: u128, max: u128) -> u128 {
    let mut end = from;
    let mut power = 1;
    while from.is_multiple_of(power) && power <= from.max(1) {
        let digit = from / power % 10;
        // The last number that shares the digits of `from` before this one.
        let last = from + (9 - digit) * power + (power - 1);
        if last <= max {
            end = last;
        } else if from + power - 1 <= max {
            let steps = (max - from + 1) / power;
            end = end.max(from + steps * power - 1);
            break;
        } else {
            break;
        }
        power *= 10;
    }
    end
}

fn block(from: &str, to: &str) -> String {
    let digit = |(a, b): (char, char)| match (a, b) {
        (a, b) if a == b => a.to_string(),
        ('0', '9') => "[0-9]".to_owned(),
        (a, b) => format!("[{a}-{b}]"),
    };
    from.chars().zip(to.chars()).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Matches a string against the blocks that `number` produces: digits and classes of digits.
    fn fits(pattern: &str, text: &str) -> bool {
        let forms = pattern.trim_start_matches('(').trim_end_matches(')');
        forms.split('|').any(|form| {
            let (mut rest, mut digits) = (form, text.chars());
            while let Some(first) = rest.chars().next() {
                let Some(digit) = digits.next() else { return false };
                let (from, to, taken) = match first {
                    '[' => (rest.as_bytes()[1] as char, rest.as_bytes()[3] as char, 5),
                    literal => (literal, literal, 1),
                };
                if !(from..=to).contains(&digit) {
                    return false;
                }
                rest = &rest[taken..];
            }
            digits.next().is_none()
        })
    }

    #[test]
    fn a_pattern_matches_exactly_the_numbers_within_its_bounds() {
        for (min, max) in [(0, 0), (0, 600), (1, 3_600), (1_000, 3_600), (7, 9), (8, 1_234), (99, 101), (0, 10), (1, 999)] {
            let pattern = number(min, max);
            for candidate in 0..4_000_u128 {
                let within = (min..=max).contains(&candidate);
                assert_eq!(fits(&pattern, &candidate.to_string()), within, "{candidate} of {min} to {max}: {pattern}");
            }
        }
    }
}
