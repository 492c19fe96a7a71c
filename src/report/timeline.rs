//! A run as a strip of text. A small fleet shows where each job ran; a large one shows allocation and queue length.

use anstyle::{AnsiColor, Color, Style};

use dryrack_ids::JobId;
use dryrack_metrics::{RunAccount, Sample, Stint};
use dryrack_units::{SimDuration, SimTime};

/// The number of columns into which the whole run is divided evenly.
const WIDTH: usize = 60;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Colours that can be distinguished with red-green colour blindness.
const INKS: [AnsiColor; 6] = [
    AnsiColor::Blue,
    AnsiColor::Yellow,
    AnsiColor::Cyan,
    AnsiColor::Magenta,
    AnsiColor::BrightBlue,
    AnsiColor::BrightYellow,
];
/// The largest number of rows of a Gantt chart. Further rows are only counted.
const ROWS: usize = 32;

/// The timeline as lines ready to print, with colours as ANSI codes; empty for a run of zero length, and with
/// accounts for figures only, which do not have it.
pub fn timeline(accounts: &RunAccount) -> String {
    let end = accounts.now;
    if end == SimTime::ZERO || accounts.nodes.is_empty() || accounts.figures_only {
        return String::new();
    }
    let body = match accounts.nodes.len() {
        0..=12 => gantt(accounts, end),
        _ => sparks(accounts),
    };
    body + &axis(end, label_width(accounts))
}

fn label_width(accounts: &RunAccount) -> usize {
    let longest = accounts.nodes.iter().map(|node| node.spec.name.chars().count() + 3).max().unwrap_or(0);
    if accounts.nodes.len() <= 12 { longest.clamp(8, 24) } else { 16 }
}

fn axis(end: SimTime, label: usize) -> String {
    let end = end.to_string();
    let gap = WIDTH.saturating_sub(2 + end.chars().count());
    format!("{:label$}  0s{}{end}\n", "", " ".repeat(gap))
}

/// The column of an instant.
fn column(at: SimTime, end: SimTime) -> usize {
    let place = u128::from(at.as_nanos()) * WIDTH as u128 / u128::from(end.as_nanos().max(1));
    (place as usize).min(WIDTH - 1)
}

fn gantt(accounts: &RunAccount, end: SimTime) -> String {
    let label = label_width(accounts);
    let mut text = String::new();
    let mut rows = 0;
    for (index, node) in accounts.nodes.iter().enumerate() {
        let gpus = node.gpu_count();
        // A node has a lane for jobs without a GPU if it has no GPUs, or if there were such jobs on it.
        let has_other_jobs = || accounts.stints.iter().any(|stint| stint.node.index() == index && stint.gpu.is_none());
        let others = (gpus == 0 || has_other_jobs()).then_some(None);
        let lanes = (0..gpus).map(|gpu| Some(gpu as u16)).chain(others);
        for gpu in lanes {
            rows += 1;
            if rows > ROWS {
                continue;
            }
            let name = match gpu {
                Some(gpu) => format!("{}/{gpu}", node.spec.name),
                None => node.spec.name.to_string(),
            };
            let here = |stint: &&Stint| stint.node.index() == index && stint.gpu == gpu;
            let strip = strip(accounts, accounts.stints.iter().filter(here), end);
            text.push_str(&format!("{name:<label$}  {strip}\n"));
        }
    }
    if rows > ROWS {
        text.push_str(&format!("{:label$}  and {} more\n", "", rows - ROWS));
    }
    text
}

/// A strip of jobs, in which each job has its name once if there is room.
fn strip<'a>(accounts: &RunAccount, stints: impl Iterator<Item = &'a Stint>, end: SimTime) -> String {
    let mut cells: Vec<Option<JobId>> = vec![None; WIDTH];
    for stint in stints {
        let last = stint.to.map_or(WIDTH - 1, |to| column(to, end).saturating_sub(usize::from(to < end)));
        let first = column(stint.from, end);
        for cell in &mut cells[first..=last.max(first)] {
            *cell = Some(stint.job);
        }
    }
    let mut text = String::new();
    let mut start = 0;
    while start < WIDTH {
        let length = cells[start..].iter().take_while(|cell| **cell == cells[start]).count();
        text.push_str(&match cells[start] {
            None => "·".repeat(length),
            Some(job) => block(accounts.names.job(job), job, length),
        });
        start += length;
    }
    text
}

fn block(name: &str, job: JobId, length: usize) -> String {
    let mut label: String = name.chars().take(length.saturating_sub(1)).collect();
    if name.chars().count() > label.chars().count() && length < 4 {
        label = name.chars().take(1).collect();
    }
    let fill = length - label.chars().count().min(length);
    let ink = Style::new().fg_color(Some(Color::Ansi(INKS[job.index() % INKS.len()])));
    format!("{ink}{label}{}{ink:#}", "━".repeat(fill))
}

/// Time-weighted means in each column: of the GPUs in use (or of the cores if there are no GPUs) and of the queue
/// length. The full height of the first is the whole fleet, and that of the queue its peak. A peak is that of an instant.
fn sparks(accounts: &RunAccount) -> String {
    let gpus: usize = accounts.nodes.iter().map(|node| node.gpu_count()).sum();
    let cores: u64 = accounts.nodes.iter().map(|node| node.spec.shape.cpu_capacity().get()).sum();
    let label = label_width(accounts);
    let mut text = String::new();
    if gpus > 0 {
        text.push_str(&spark_line("GPUs", label, accounts, gpus as u64 * 1000, |sample| sample.gpu_taken));
    } else {
        text.push_str(&spark_line("cores", label, accounts, cores, |sample| sample.cpu_taken));
    }
    // In thousandths, as the others: a queue is mostly much shorter than one replica on average.
    text + &spark_line("waiting", label, accounts, 0, |sample| sample.waiting * 1000)
}

fn percent(part: u64, whole: u64) -> u64 {
    part * 100 / whole.max(1)
}

/// A line of a value in thousandths and its peak: a part of `full`, or a number if there is no such limit.
fn spark_line(name: &str, label: usize, accounts: &RunAccount, full: u64, of: impl Fn(&Sample) -> u64) -> String {
    let peak = accounts.samples.iter().map(&of).max().unwrap_or(0);
    let note = if full > 0 { format!("peak {}%", percent(peak, full)) } else { format!("peak {}", peak / 1000) };
    let full = if full > 0 { full } else { peak };
    let bar = |value: &u64| match value {
        0 => ' ',
        value => BARS[((u128::from(*value) * 8).div_ceil(u128::from(full.max(1))) as usize).clamp(1, 8) - 1],
    };
    let bars: String = means(&accounts.samples, accounts.now, of).iter().map(bar).collect();
    format!("{name:<label$}  {bars}  {note}\n")
}

/// The mean of a step function in each column.
fn means(samples: &[Sample], end: SimTime, of: impl Fn(&Sample) -> u64) -> Vec<u64> {
    let width_ns = u128::from(end.as_nanos()).div_ceil(WIDTH as u128).max(1);
    let mut sums = [0u128; WIDTH];
    for (index, sample) in samples.iter().enumerate() {
        let until = samples.get(index + 1).map_or(end, |next| next.at);
        let (mut from, until) = (u128::from(sample.at.as_nanos()), u128::from(until.as_nanos()));
        while from < until {
            let column = (from / width_ns) as usize;
            let next = until.min((column as u128 + 1) * width_ns);
            sums[column] += (next - from) * u128::from(of(sample));
            from = next;
        }
    }
    // Round up, so that a column in which anything was in use is never shown as empty.
    sums.iter().map(|sum| sum.div_ceil(width_ns) as u64).collect()
}

/// A length of time: `872ms`, `4.25s`, `12m`, `3h20m`, `17d`. Below 10 seconds it is rounded to three significant figures,
/// because limits on the times of requests are that short. Longer ones are rounded to the last unit shown.
pub fn about(length: SimDuration) -> String {
    let nanos = length.as_nanos();
    let in_units_of = |seconds: u64| nanos.saturating_add(seconds * 500_000_000) / (seconds * 1_000_000_000);
    let (seconds, minutes, hours) = (nanos / 1_000_000_000, in_units_of(60), in_units_of(3600));
    match seconds {
        0 if length.is_zero() => "0s".to_string(),
        0..10 => match length.as_secs_f64() {
            seconds @ 0.0..0.009_995 => format!("{:.2}ms", seconds * 1e3),
            seconds @ 0.009_995..0.099_95 => format!("{:.1}ms", seconds * 1e3),
            seconds @ 0.099_95..0.9995 => format!("{:.0}ms", seconds * 1e3),
            seconds @ 0.9995..9.995 => format!("{seconds:.2}s"),
            _ => "10s".to_string(),
        },
        10..60 if in_units_of(1) < 60 => format!("{}s", in_units_of(1)),
        10..600 if in_units_of(1) < 600 => format!("{}m{:02}s", in_units_of(1) / 60, in_units_of(1) % 60),
        10..3600 if minutes < 60 => format!("{minutes}m"),
        10..86_400 if minutes < 1440 => format!("{}h{:02}m", minutes / 60, minutes % 60),
        _ => format!("{}d{:02}h", hours / 24, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_time_is_rounded_to_three_figures() {
        let rows = [
            (0, "0s"),
            (1_234_567, "1.23ms"),
            (23_456_789, "23.5ms"),
            (872_400_000, "872ms"),
            (999_600_000, "1.00s"),
            (4_256_000_000, "4.26s"),
            (9_996_000_000, "10s"),
            (59_400_000_000, "59s"),
            (59_900_000_000, "1m00s"),
            (599_600_000_000, "10m"),
            (754_000_000_000, "13m"),
            (887_000_000_000, "15m"),
            (3_599_000_000_000, "1h00m"),
            (3_631_000_000_000, "1h01m"),
            (86_399_000_000_000, "1d00h"),
            (171_000_000_000_000, "2d00h"),
        ];
        for (nanoseconds, expected) in rows {
            assert_eq!(about(SimDuration::from_nanos(nanoseconds)), expected);
        }
    }
}
