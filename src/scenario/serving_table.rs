//! Tables of measured steps: converts a CSV file to the durations of the steps of a replica.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::usage::Places;
use dryrack_workload::{GridFault, ServiceRequest, StepGrid, StepModel, StepTable, Uncovered};
use dryrack_yaml::{Fields, Node, Report, Span, Tree, text};

const FIELDS: [&str; 4] = ["file", "gpu", "tp", "model"];
/// The columns that a table must have. Others are ignored, except those that choose rows.
const NUMBERS: [&str; 4] = ["batch_size", "input_tokens", "ttft_ms", "tpot_ms"];
const CHOICES: [&str; 3] = ["gpu", "tp", "model"];
/// The longest time in a table: a day.
const MOST_PICOS: u64 = 86_400_000_000_000_000;

/// A table, and what it is of.
pub(super) struct Table {
    pub steps: Arc<StepTable>,
    /// The type of GPU of the rows and the number of GPUs of a replica, if the table has these columns.
    pub gpu: Option<String>,
    pub tp: Option<String>,
    pub span: Span,
}

/// Reads `table: steps.csv`, or `table: {file: steps.csv, gpu: h200, tp: 8, model: llama-3.3-70b}`.
pub(super) fn table(tree: &Tree, places: &Places<'_>, report: &mut Report) -> Option<Table> {
    let (file, wanted) = match &tree.node {
        Node::Map(_) => {
            let fields = Fields::read(tree, "a table of steps", &FIELDS, report)?;
            let wanted = CHOICES.map(|choice| fields.text(choice, "a value of this column", report));
            (fields.require("file", "steps.csv", report)?, wanted)
        }
        _ => (tree, [None; 3]),
    };
    let typed = text(file, "the path of a CSV file", report)?;
    let content = match std::fs::read_to_string(places.folder.join(typed)) {
        Ok(content) => content,
        Err(fault) => {
            let help = "check the path, which is relative to the folder of the scenario";
            report.error_with_help(file.span, format!("cannot read `{typed}`: {fault}"), help);
            return None;
        }
    };
    match read(&content, wanted) {
        Ok((steps, [gpu, tp])) => Some(Table { steps: Arc::new(steps), gpu, tp, span: file.span }),
        Err((fault, help)) => {
            report.error_with_help(file.span, format!("`{typed}`: {fault}"), help);
            None
        }
    }
}

/// What is wrong, and what to do.
type Fault = (String, String);

fn read(content: &str, wanted: [Option<&str>; 3]) -> Result<(StepTable, [Option<String>; 2]), Fault> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(false).from_reader(content.as_bytes());
    let header = reader.headers().map_err(|fault| (fault.to_string(), "write CSV with a header line".into()))?.clone();
    let place = |name: &str| header.iter().position(|known| known.trim_start_matches('\u{feff}') == name);
    let mut numbers = [0; 4];
    for (found, name) in numbers.iter_mut().zip(NUMBERS) {
        let help = "the columns are gpu, tp, model (each optional), batch_size, input_tokens, ttft_ms and tpot_ms";
        *found = place(name).ok_or_else(|| (format!("no column `{name}`"), help.to_string()))?;
    }
    let choices = CHOICES.map(place);
    for ((choice, name), wanted) in choices.iter().zip(CHOICES).zip(wanted) {
        if choice.is_none() && wanted.is_some() {
            return Err((format!("no column `{name}`"), format!("leave `{name}` out, or add the column")));
        }
    }
    let (mut prefill, mut decode, mut configurations) = (Vec::new(), Vec::new(), BTreeSet::new());
    for row in reader.records() {
        let row = row.map_err(|fault| (fault.to_string(), "give every row as many fields as the header".into()))?;
        let line = row.position().map_or(0, csv::Position::line);
        let of = choices.map(|place| place.and_then(|place| row.get(place)).unwrap_or_default().to_string());
        if of.iter().zip(wanted).any(|(found, wanted)| wanted.is_some_and(|wanted| wanted != found)) {
            continue;
        }
        configurations.insert(of);
        let field = |column: usize| row.get(numbers[column]).unwrap_or_default();
        let wrong = |column: usize, expected: &str| {
            let message = format!("line {line}: `{}` in column {} is not {expected}", field(column), NUMBERS[column]);
            (message, "correct the row".to_string())
        };
        let whole = |column: usize| match field(column).parse::<u64>() {
            Ok(number) if (1..=1 << 32).contains(&number) => Ok(number),
            Ok(_) | Err(_) => Err(wrong(column, "a whole number above 0")),
        };
        let time = |column: usize| match field(column) {
            "" => Ok(None),
            typed => picos(typed).map(Some).ok_or_else(|| wrong(column, "a time in milliseconds above 0")),
        };
        let (sequences, tokens) = (whole(0)?, whole(1)?);
        prefill.extend(time(2)?.map(|time| (sequences, tokens, time)));
        decode.extend(time(3)?.map(|time| (sequences, tokens, time)));
    }
    let shown = |of: &[String; 3]| {
        let parts = CHOICES.iter().zip(of).filter(|(_, value)| !value.is_empty());
        parts.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
    };
    if configurations.len() > 1 {
        let names: Vec<String> = configurations.iter().take(6).map(shown).collect();
        let message = format!("rows of {} configurations: {}", configurations.len(), names.join("; "));
        return Err((message, "choose one with `table: {file: …, gpu: …, tp: …, model: …}`".to_string()));
    }
    let Some([gpu, tp, _]) = configurations.pop_first() else {
        return Err(("no row of the wanted gpu, tp and model".into(), "check these values against the file".into()));
    };
    let grid = |points, column: &str| StepGrid::new(points).map_err(|fault| grid_fault(fault, column));
    let table = StepTable::new(grid(prefill, "ttft_ms")?, grid(decode, "tpot_ms")?);
    Ok((table, [gpu, tp].map(|value| Some(value).filter(|value| !value.is_empty()))))
}

fn grid_fault(fault: GridFault, column: &str) -> Fault {
    match fault {
        GridFault::Empty => (format!("no value of {column}"), format!("add rows with {column}")),
        GridFault::Twice { sequences, tokens } => (
            format!("two values of {column} for batch_size {sequences} and input_tokens {tokens}"),
            "keep one of them".to_string(),
        ),
        GridFault::Missing { sequences, tokens } => (
            format!("no value of {column} for batch_size {sequences} and input_tokens {tokens}"),
            "give each batch_size a value for each input_tokens; nothing outside the table is guessed".to_string(),
        ),
        GridFault::NoSingle { least } => (
            format!("the values of {column} begin at batch_size {least}"),
            "add rows for batch_size 1; nothing outside the table is guessed".to_string(),
        ),
    }
}

/// A decimal number of milliseconds above 0, in picoseconds. Digits after the ninth are dropped.
fn picos(typed: &str) -> Option<u64> {
    let (whole, part) = typed.split_once('.').unwrap_or((typed, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(part) {
        return None;
    }
    let part = format!("{:0<9}", &part[..part.len().min(9)]);
    let picos = whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part.parse().ok()?)?;
    (1..=MOST_PICOS).contains(&picos).then_some(picos)
}

/// Reports what the table does not cover: requests, and the limit of sequences.
pub(super) fn check_coverage(table: &Table, requests: &[ServiceRequest], max_sequences: u32, report: &mut Report) {
    let most = table.steps.most_sequences();
    if u64::from(max_sequences) > most {
        let message =
            format!("`max_sequences` is {max_sequences}, but the tpot_ms of the table end at batch_size {most}");
        let help = format!("write `max_sequences: {most}` or less, or add rows; nothing outside the table is guessed");
        report.error_with_help(table.span, message, help);
    }
    let covers = |request: &ServiceRequest| table.steps.covers(request.input.into(), request.output.into());
    let mut outside = requests.iter().filter_map(|request| Some((request, covers(request).err()?)));
    if let Some((request, fault)) = outside.next() {
        let count = 1 + outside.count();
        let lack = match fault {
            Uncovered::PromptTooShort { least } => format!("the ttft_ms begin at input_tokens {least}"),
            Uncovered::PromptTooLong { most } => format!("the ttft_ms end at input_tokens {most}"),
            Uncovered::ContextTooShort { least } => format!("the tpot_ms begin at input_tokens {least}"),
            Uncovered::ContextTooLong { most } => format!("the tpot_ms end at input_tokens {most}"),
        };
        let message = format!(
            "{count} of {} requests are outside the table, such as one of {} and {} tokens: {lack}",
            requests.len(),
            request.input,
            request.output
        );
        let help = "add rows to the table, or limit the tokens of requests; nothing outside the table is guessed";
        report.error_with_help(table.span, message, help);
    }
}

/// Why the steps of a table need `prefill_first`.
pub(super) const NOT_CHUNKED: &str = "a table has whole prompts and whole decode steps, not chunks of prompts";

pub(super) fn steps(table: &Table) -> StepModel {
    StepModel::Table(Arc::clone(&table.steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "gpu,tp,model,batch_size,input_tokens,ttft_ms,tpot_ms\n";

    fn fault(rows: &str, wanted: [Option<&str>; 3]) -> String {
        read(&format!("{HEADER}{rows}"), wanted).map(|_| ()).expect_err("a fault").0
    }

    #[test]
    fn faults_of_a_table_are_named() {
        let none = [None; 3];
        assert_eq!(fault("h200,8,m,1,100,5,\n", none), "no value of tpot_ms");
        assert_eq!(
            fault("h200,8,m,1,100,5,x\n", none),
            "line 2: `x` in column tpot_ms is not a time in milliseconds above 0"
        );
        assert_eq!(
            fault("h200,8,m,0,100,5,5\n", none),
            "line 2: `0` in column batch_size is not a whole number above 0"
        );
        assert_eq!(
            fault("h200,8,m,1,100,5,5\na100,8,m,1,100,5,5\n", none),
            "rows of 2 configurations: gpu a100, tp 8, model m; gpu h200, tp 8, model m"
        );
        assert_eq!(fault("h200,8,m,1,100,5,5\n", [Some("h100"), None, None]), "no row of the wanted gpu, tp and model");
        assert_eq!(
            fault("h200,8,m,1,100,5,5\nh200,8,m,1,200,5,5\nh200,8,m,2,100,5,5\n", none),
            "no value of ttft_ms for batch_size 2 and input_tokens 200"
        );
        let found = read(&format!("{HEADER}h200,8,m,1,100,5,5\na100,8,m,1,100,5,5\n"), [Some("a100"), None, None]);
        assert_eq!(found.expect("one configuration").1[0].as_deref(), Some("a100"));
    }
}
