//! Job arrays: `array: 1-10%3`, in the notation of Slurm's `--array`.

use std::sync::Arc;

use dryrack_yaml::{Fields, Report, text};

/// The numbers of an array's tasks, and the number of tasks that may run at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobArray {
    /// In ascending order, each once.
    pub numbers: Arc<[u32]>,
    pub most: Option<u32>,
}

/// The largest number of a task. Slurm's own limit is lower, and a site can change it.
const MAX_NUMBER: u32 = 4_000_000;

const HELP: &str =
    "write `1-10`, `1-10%3` to run three at a time, `1-9:2` for every second number, or a list such as `1,4,7-9`";

/// Reads `array:`. `most` is the largest number of tasks that the scenario may have.
pub(super) fn read(fields: &Fields<'_>, most: usize, report: &mut Report) -> Option<JobArray> {
    let tree = fields.get("array")?;
    for key in ["count", "every", "arrivals"] {
        fields.exclusive(&["array", key], "`array` already sets the number of jobs", report);
    }
    let typed = text(tree, "the tasks of an array such as 1-10%3", report)?;
    match parse(typed, most) {
        Ok(array) => Some(array),
        Err(message) => {
            report.error_with_help(tree.span, message, HELP);
            None
        }
    }
}

fn parse(typed: &str, most: usize) -> Result<JobArray, String> {
    let (tasks, limit) = match typed.split_once('%') {
        Some((tasks, limit)) => (tasks, Some(limit)),
        None => (typed, None),
    };
    let limit = limit.map(number).transpose()?;
    if limit == Some(0) {
        return Err(format!("`{typed}` allows no task to run"));
    }
    let mut numbers: Vec<u32> = Vec::new();
    for part in tasks.split(',') {
        let (range, step) = match part.split_once(':') {
            Some((range, step)) => (range, number(step)?),
            None => (part, 1),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None if part.contains(':') => return Err(format!("`{part}` has a step but no range")),
            None => (number(range)?, number(range)?),
        };
        if first > last {
            return Err(format!("the end of `{part}` is before its start"));
        }
        if step == 0 {
            return Err(format!("`{part}` has a step of zero"));
        }
        if ((last - first) / step) as usize + numbers.len() >= most {
            return Err(format!("`{typed}` has too many tasks: the scenario can have {most} more jobs"));
        }
        numbers.extend((first..=last).step_by(step as usize));
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(JobArray { numbers: numbers.into(), most: limit })
}

fn number(typed: &str) -> Result<u32, String> {
    let is_number = !typed.is_empty() && typed.bytes().all(|byte| byte.is_ascii_digit());
    match typed.parse::<u32>() {
        Ok(number) if is_number && number <= MAX_NUMBER => Ok(number),
        _ if is_number => Err(format!("{typed} is too large; the largest number is {MAX_NUMBER}")),
        _ => Err(format!("expected a number, found `{typed}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first six rows are examples of the manual page sbatch(1) of Slurm 22.05, or combinations of them.
    #[test]
    fn an_array_is_read_as_by_sbatch() {
        for (typed, numbers, most) in [
            ("0-3", &[0, 1, 2, 3][..], None),
            ("0,6,16-18", &[0, 6, 16, 17, 18], None),
            ("0-15:4", &[0, 4, 8, 12], None),
            ("0-3%4", &[0, 1, 2, 3], Some(4)),
            ("1,3,5,7", &[1, 3, 5, 7], None),
            ("1-7:2%1", &[1, 3, 5, 7], Some(1)),
            ("5", &[5], None),
            ("3,1-3", &[1, 2, 3], None),
        ] {
            assert_eq!(parse(typed, 100), Ok(JobArray { numbers: numbers.into(), most }), "{typed}");
        }
    }

    #[test]
    fn what_is_no_array_is_refused_with_what_is_wrong() {
        for (typed, wrong) in [
            ("", "expected a number, found ``"),
            ("a-b", "expected a number, found `a`"),
            ("1-", "expected a number, found ``"),
            ("-3", "expected a number, found ``"),
            ("3-1", "the end of `3-1` is before its start"),
            ("1-9:0", "`1-9:0` has a step of zero"),
            ("4:2", "`4:2` has a step but no range"),
            ("1-4%0", "`1-4%0` allows no task to run"),
            ("1-4%x", "expected a number, found `x`"),
            ("1-101", "`1-101` has too many tasks: the scenario can have 100 more jobs"),
            ("9999999999", "9999999999 is too large; the largest number is 4000000"),
        ] {
            let most = if typed == "1-101" { 100 } else { 1000 };
            assert_eq!(parse(typed, most), Err(wrong.to_string()), "{typed}");
        }
    }
}
