//! Traces of requests to language models: when each request arrived, and its tokens.
//!
//! Three forms are read, each CSV with a header line, plain, gzip or zstd:
//!
//! - Azure's LLM inference traces (Azure/AzurePublicDataset, 2023 and 2024): `TIMESTAMP` as a date, `ContextTokens`,
//!   `GeneratedTokens`.
//! - BurstGPT (HPMLL/BurstGPT, 1.1 and later): `Timestamp` in seconds, `Request tokens`, `Response tokens`. A request
//!   that failed has no response tokens.
//! - dryrack's own: `at_s`, `input_tokens`, `output_tokens`.
//!
//! Other columns are ignored. Times are counted from the first row.

use std::io::{BufRead, BufReader};
use std::path::Path;

use dryrack_units::SimDuration;

use super::error::TraceError;
use super::text;

/// The requests of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestTrace {
    /// The time since the first row, and the tokens of the prompt and of the answer, both at least 1. In order of time.
    pub requests: Vec<(SimDuration, u32, u32)>,
    /// Rows without tokens of a prompt or of an answer, such as failed requests. They are left out.
    pub without_tokens: u64,
}

/// The names of the three columns, and whether times are dates.
const FORMS: [([&str; 3], bool); 3] = [
    (["TIMESTAMP", "ContextTokens", "GeneratedTokens"], true),
    (["Timestamp", "Request tokens", "Response tokens"], false),
    (["at_s", "input_tokens", "output_tokens"], false),
];
const VALID: &str = "`TIMESTAMP,ContextTokens,GeneratedTokens` (Azure), `Timestamp,…,Request tokens,Response tokens,…` \
                     (BurstGPT) or `at_s,input_tokens,output_tokens`";

/// Reads the requests of a trace.
///
/// # Errors
/// If the file cannot be read, its first line has none of the forms, a value is wrong, or times go back.
pub fn read_requests(path: &Path) -> Result<RequestTrace, TraceError> {
    let mut lines = BufReader::new(text::open(path)?).lines().enumerate();
    let unreadable =
        |line: usize, source| TraceError::Unreadable { file: path.to_path_buf(), line: line as u64 + 1, source };
    let header = match lines.next() {
        None => return Err(TraceError::Empty { file: path.to_path_buf(), expected: "a list of requests" }),
        Some((_, line)) => line.map_err(|source| unreadable(0, source))?,
    };
    let header = header.trim_start_matches('\u{feff}').trim().to_string();
    let names: Vec<&str> = header.split(',').map(str::trim).collect();
    let place = |name: &str| names.iter().position(|known| *known == name);
    let known = FORMS.iter().find_map(|(columns, dates)| {
        let [at, input, output] = columns.map(place);
        Some(([at?, input?, output?], *dates))
    });
    let Some((places, has_dates)) = known else {
        return Err(TraceError::UnknownFormat {
            file: path.to_path_buf(),
            valid: VALID.to_string(),
            like: String::new(),
        });
    };
    let (mut trace, mut first, mut last) = (RequestTrace::default(), None, 0);
    for (index, line) in lines {
        let line = line.map_err(|source| unreadable(index, source))?;
        if line.trim().is_empty() {
            continue;
        }
        let row = Row { path, line: index as u64 + 1, fields: split(&line) };
        let at = row.time(places[0], has_dates)?;
        let first = *first.get_or_insert(at);
        if at < last {
            return Err(row.wrong(places[0], "a time that is not before that of the line above"));
        }
        last = at;
        let (input, output) = (row.tokens(places[1])?, row.tokens(places[2])?);
        if input == 0 || output == 0 {
            trace.without_tokens += 1;
        } else {
            trace.requests.push((SimDuration::from_nanos(at - first), input, output));
        }
    }
    Ok(trace)
}

/// A field and the position of its first byte in the line, counted from 1.
type Field<'l> = (&'l str, u64);

fn split(line: &str) -> Vec<Field<'_>> {
    let mut at = 0;
    let field = |field| {
        let found = (field, at as u64 + 1);
        at += str::len(field) + 1;
        found
    };
    line.split(',').map(field).collect()
}

struct Row<'l> {
    path: &'l Path,
    line: u64,
    fields: Vec<Field<'l>>,
}

impl Row<'_> {
    fn text(&self, place: usize) -> &str {
        self.fields.get(place).map_or("", |(text, _)| text.trim())
    }

    fn wrong(&self, place: usize, expected: &str) -> TraceError {
        let found = match self.text(place) {
            "" => "nothing".to_string(),
            text => format!("`{}`", text.chars().take(40).collect::<String>()),
        };
        let column = self.fields.get(place).or(self.fields.last()).map_or(1, |(_, column)| *column);
        TraceError::Malformed {
            file: self.path.to_path_buf(),
            line: self.line,
            column,
            expected: expected.to_string(),
            found,
        }
    }

    /// The time of the row in nanoseconds.
    fn time(&self, place: usize, is_date: bool) -> Result<u64, TraceError> {
        let text = self.text(place);
        if !is_date {
            return decimal_nanos(text).ok_or_else(|| self.wrong(place, "a time in seconds"));
        }
        let plain = text.strip_suffix("+00:00").unwrap_or(text);
        let (whole, part) = plain.split_once('.').unwrap_or((plain, "0"));
        let date = dryrack_units::date::parse(whole).zip(decimal_nanos(&format!("0.{part}")));
        let nanos = date.and_then(|(at, part)| at.as_nanos().checked_add(part));
        nanos.ok_or_else(|| self.wrong(place, "a date such as 2023-11-16 18:15:46.68"))
    }

    fn tokens(&self, place: usize) -> Result<u32, TraceError> {
        let text = self.text(place);
        // Some releases of BurstGPT write whole numbers as 12.0.
        let text = text.strip_suffix(".0").unwrap_or(text);
        text.parse().map_err(|_| self.wrong(place, "a number of tokens"))
    }
}

/// A decimal number of seconds in nanoseconds; digits after the ninth are dropped.
fn decimal_nanos(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(part) {
        return None;
    }
    let part = format!("{:0<9}", &part[..part.len().min(9)]);
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RequestTrace, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("requests.csv");
        std::fs::write(&path, text).expect("it is written");
        read_requests(&path).map_err(|fault| fault.to_string().replace(&format!("{}:", path.display()), ""))
    }

    #[test]
    fn the_three_forms_are_read() {
        let millis = |ms: u64| SimDuration::from_nanos(ms * 1_000_000);
        let wanted = vec![(millis(0), 374, 44), (millis(4_500), 396, 109)];
        let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n\
                     2023-11-16 18:15:51.1805900,396,109\n";
        assert_eq!(read(azure).expect("it is right").requests, wanted);
        let burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                     5,ChatGPT,374,44,418,Conversation log\n6,GPT-4,10,0,10,API log\n9.5,ChatGPT,396,109,505,API log\n";
        let found = read(burst).expect("it is right");
        assert_eq!((found.requests, found.without_tokens), (wanted.clone(), 1));
        assert_eq!(
            read("at_s,input_tokens,output_tokens\n0,374,44\n4.5,396,109\n").expect("it is right").requests,
            wanted
        );
    }

    #[test]
    fn faults_have_their_place() {
        let own = "at_s,input_tokens,output_tokens\n";
        let rows = [
            ("a,b\n", "its first line is of none of the formats"),
            (&format!("{own}0,1,1\n-1,1,1\n"), "3:1: expected a time in seconds, found `-1`"),
            (
                &format!("{own}5,1,1\n4,1,1\n"),
                "3:1: expected a time that is not before that of the line above, found `4`",
            ),
            (&format!("{own}5,12,x\n"), "2:6: expected a number of tokens, found `x`"),
            (&format!("{own}5,12\n"), "2:3: expected a number of tokens, found nothing"),
        ];
        for (text, message) in rows {
            let found = read(text).expect_err("it is wrong");
            assert!(found.contains(message), "{text}: {found}");
        }
    }
}
