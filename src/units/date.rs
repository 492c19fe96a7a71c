//! Dates in the form in which traces write them: `2017-10-09 07:01:55`.

use crate::SimTime;

/// Parses a date as the time since the start of 1970 in UTC. `None` if the text is not a date from 1970 to 2500.
pub fn parse(text: &str) -> Option<SimTime> {
    let [year, month, day, hour, minute, second] = match in_full(text.as_bytes()) {
        Some(parts) => parts,
        None => {
            let between = text.bytes().position(|byte| matches!(byte, b' ' | b'T'))?;
            let (date, time) = (&text.as_bytes()[..between], &text.as_bytes()[between + 1..]);
            let ([year, month, day], [hour, minute, second]) = (numbers(date, b'-')?, numbers(time, b':')?);
            [year, month, day, hour, minute, second]
        }
    };
    let is_date =
        (1970..2500).contains(&year) && (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let years = (year - 1970) * 365 + leap_years_before(year) - leap_years_before(1970);
    let months = DAYS_BEFORE[month as usize - 1] + u64::from(month > 2 && is_leap(year));
    let days = years + months + day - 1;
    Some(SimTime::from_secs(((days * 24 + hour) * 60 + minute) * 60 + second))
}

/// Formats an instant, counted from the start of 1970, as a date that [`parse`] can read. Drops fractions of a second.
pub fn text(at: SimTime) -> String {
    let seconds = at.as_nanos() / 1_000_000_000;
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut month) = (1970, 1);
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    while days >= days_of(year, month) {
        days -= days_of(year, month);
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02}:{second:02}", days + 1)
}

/// The number of days before each month in a year that is not a leap year.
const DAYS_BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// The six numbers of a date that has all of its digits. `None` for any other text. This is the fast path, because
/// nearly every date has all digits.
fn in_full(text: &[u8]) -> Option<[u64; 6]> {
    let text: &[u8; 19] = text.try_into().ok()?;
    let is_between =
        (text[4], text[7], text[13], text[16]) == (b'-', b'-', b':', b':') && matches!(text[10], b' ' | b'T');
    let digits = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18].map(|place| text[place].wrapping_sub(b'0'));
    if !is_between || digits.iter().any(|digit| *digit > 9) {
        return None;
    }
    let two = |place: usize| u64::from(digits[place]) * 10 + u64::from(digits[place + 1]);
    Some([two(0) * 100 + two(2), two(4), two(6), two(8), two(10), two(12)])
}

/// Parses three numbers separated by `between`. `None` if the numbers have anything but digits.
fn numbers(text: &[u8], between: u8) -> Option<[u64; 3]> {
    let (mut found, mut place, mut digits) = ([0; 3], 0, 0);
    for byte in text {
        match byte {
            b'0'..=b'9' if digits < 4 => {
                found[place] = found[place] * 10 + u64::from(byte - b'0');
                digits += 1;
            }
            _ if *byte == between && digits > 0 && place < 2 => (place, digits) = (place + 1, 0),
            _ => return None,
        }
    }
    (place == 2 && digits > 0).then_some(found)
}

fn leap_years_before(year: u64) -> u64 {
    let last = year - 1;
    last / 4 - last / 100 + last / 400
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected seconds come from `date -u -d TEXT +%s`.
    #[test]
    fn dates_are_counted_from_1970() {
        let rows = [
            ("1970-01-01 00:00:00", Some(0)),
            ("2017-10-01 00:00:45", Some(1_506_816_045)),
            ("2000-02-29 12:00:00", Some(951_825_600)),
            ("2100-03-01T00:00:00", Some(4_107_542_400)),
            ("2100-02-28 00:00:00", Some(4_107_456_000)),
            ("2016-12-31 23:59:59", Some(1_483_228_799)),
            ("2017-02-29 00:00:00", None),
            ("2017-13-01 00:00:00", None),
            ("2017-10-01", None),
            ("2017-10-01 24:00:00", None),
            ("2017-10-1x 00:00:00", None),
            ("2017-10-01-01 00:00:00", None),
            ("2017--01 00:00:00", None),
            ("02017-10-01 00:00:00", None),
            ("2017-10-01 00:00:", None),
            ("2017-10-01 00:00", None),
            ("2017-10-01_00:00:00", None),
            ("2017-10:01 00:00:00", None),
        ];
        for (text, seconds) in rows {
            assert_eq!(parse(text), seconds.map(SimTime::from_secs), "{text}");
            if let Some(seconds) = seconds {
                assert_eq!(super::text(SimTime::from_secs(seconds)), text.replace('T', " "));
            }
        }
    }
}
