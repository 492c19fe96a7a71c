//! GPUs and jobs over time, as bars. The page's script can zoom them, but the figure is complete without it.
//!
//! The bars stretch to the available width and contain no text. The names of lanes and jobs and the times are separate
//! text beside and over the bars, in the page's font size.

use super::super::spans::{Lane, Spans, attempt_name};
use super::axes::strip_ticks;
use super::html::{escape, many};
use dryrack_event::Outcome;
use dryrack_ids::GpuId;
use dryrack_metrics::RunAccount;
use dryrack_units::{SimTime, grouped};

/// The largest number of bars that a page shows at once. A browser draws this many without delay, and more bars could not be read.
const BARS: usize = 2000;
/// The largest number of bars in all groups of lanes together: a page of some megabytes.
const ALL_BARS: usize = 20_000;
/// The largest number of lanes in a group. In a group with at most this many rows, each row is as high as a lane, so that
/// jobs that share a node have their names in their bars.
const LANES: usize = 64;
/// The horizontal unit is a millionth of the run; the vertical unit is a pixel.
const WHOLE: u64 = 1_000_000;
const PITCH: usize = 20;
/// Both are in pixels: the width below which a strip without the script has no job names, and the width of a letter.
const NARROW: u64 = 240;
const LETTER: u64 = 8;
/// The height below which a bar has no name, in tenths of a pixel.
const NAMED: usize = 120;

/// The figures; empty for a run of zero length. The first group of lanes is shown. The others are folded, each under the
/// names of its first and last lane, so that every node can be reached.
pub fn gantt(accounts: &RunAccount, spans: &Spans, starts_at: Option<SimTime>) -> String {
    let mut all = spans.lanes(accounts.now);
    all.retain(|lane| !lane.bars.is_empty() || !spans.never_existed(lane.node, accounts));
    if accounts.now == SimTime::ZERO || spans.spans.is_empty() {
        return String::new();
    }
    let groups = groups(&all);
    let note = hidden_note(&all, &groups);
    let fold = |(number, lanes): (usize, &&[Lane])| {
        let figure = figure(lanes, (accounts, spans), (&note, starts_at));
        let (Some(first), Some(last)) = (lanes.first(), lanes.last()) else { return String::new() };
        match number {
            0 => figure,
            _ => {
                let (first, last) = (lane_name(first, accounts), lane_name(last, accounts));
                let names = if first == last { first } else { format!("{first} to {last}") };
                format!("<details>\n<summary>{}</summary>\n{figure}</details>\n", escape(&names))
            }
        }
    };
    groups.iter().enumerate().map(fold).collect::<String>() + &format!("<p class=\"note\">{note}</p>\n")
}

/// The timeline of some lanes.
fn figure(
    lanes: &[Lane],
    (accounts, spans): (&RunAccount, &Spans),
    (note, starts_at): (&str, Option<SimTime>),
) -> String {
    let end = accounts.now;
    let has_room = lanes.iter().map(|lane| lane.rows).sum::<usize>() <= LANES;
    let (mut bars, mut labels, mut names) = (String::new(), String::new(), String::new());
    let mut height = 0;
    for lane in lanes {
        let top = height;
        let pitch = if has_room { lane.rows * PITCH } else { PITCH };
        height += pitch;
        let style = if pitch == PITCH { String::new() } else { format!(" style=\"height:{pitch}px\"") };
        names.push_str(&format!("<div{style}>{}</div>", escape(&lane_name(lane, accounts))));
        bars.push_str(&format!("<rect class=\"rule\" x=\"0\" y=\"{}\" width=\"{WHOLE}\" height=\"1\"/>\n", height - 1));
        for bar in &lane.bars {
            let span = &spans.spans[bar.span];
            let (from, to) = (place(bar.from, end), place(bar.to, end));
            let look = span.attempt.job.index() % 6;
            // Heights are in tenths of a pixel, and jobs on the same lane share its height.
            let whole = pitch * 10 - 10;
            let (row_top, row_height) = (bar.row * whole / lane.rows, (whole / lane.rows).max(5));
            let name = attempt_name(span.attempt, accounts);
            let cut = match span.ended {
                None | Some((Outcome::Completed, _)) => "",
                Some(_) => " cut",
            };
            bars.push_str(&format!(
                "<rect class=\"j{look}{cut}\" x=\"{from}\" y=\"{}.{}\" width=\"{}\" height=\"{}.{}\" data-n=\"{}\">\
                 <title>{}</title></rect>\n",
                top + row_top / 10,
                row_top % 10,
                (to - from).max(1),
                row_height / 10,
                row_height % 10,
                escape(&name),
                escape(&span.describe(accounts)),
            ));
            let room = (to - from) * NARROW / WHOLE;
            if row_height >= NAMED && room >= name.chars().count() as u64 * LETTER + 8 {
                labels.push_str(&format!(
                    "<text class=\"on{look}\" x=\"{}.{}%\" y=\"{}\" dx=\"4\">{}</text>",
                    from / 10_000,
                    from / 1000 % 10,
                    top + (row_top + row_height / 2) / 10,
                    escape(&name)
                ));
            }
        }
    }
    let ticks = strip_ticks(end.since(SimTime::ZERO), starts_at);
    let seconds = end.since(SimTime::ZERO).as_secs_f64();
    let start = starts_at.map_or(String::new(), |at| format!(" data-start=\"{}\"", at.as_secs_f64()));
    format!(
        "<figure class=\"broad timeline\" data-seconds=\"{seconds}\"{start}>\n<figcaption>Jobs over time</figcaption>\n<div \
         class=\"controls\" hidden><button type=\"button\" data-act=\"in\" aria-label=\"Zoom in\">+</button><button \
         type=\"button\" data-act=\"out\" aria-label=\"Zoom out\">−</button><button type=\"button\" \
         data-act=\"left\" aria-label=\"Earlier\">◀</button><button type=\"button\" data-act=\"right\" \
         aria-label=\"Later\">▶</button><button type=\"button\" data-act=\"whole\">all</button></div>\n<div \
         class=\"lanes\"><div class=\"names\" aria-hidden=\"true\">{names}</div>\n<div class=\"strip\" \
         tabindex=\"0\" role=\"group\" aria-label=\"Timeline; plus and minus zoom, arrows move\"><svg class=\"bars\" \
         height=\"{height}\" viewBox=\"0 0 {WHOLE} {height}\" preserveAspectRatio=\"none\" \
         xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"Jobs over time. \
         {note}\">\n<desc>{note}</desc>\n{bars}</svg><svg class=\"labels\" height=\"{height}\" \
         xmlns=\"http://www.w3.org/2000/svg\" aria-hidden=\"true\">{labels}</svg><div class=\"axis\" \
         aria-hidden=\"true\">{ticks}</div></div></div>\n<p class=\"history\" aria-live=\"polite\"></p>\n</figure>\n"
    )
}

/// The lanes in groups that can be drawn and read. A group has at least one lane. The groups together have at most
/// [`ALL_BARS`] bars, except that the first is always there.
fn groups(all: &[Lane]) -> Vec<&[Lane]> {
    let (mut groups, mut rest, mut drawn) = (Vec::new(), all, 0);
    while !rest.is_empty() {
        let mut bars = 0;
        let fits = |(index, lane): &(usize, &Lane)| {
            bars += lane.bars.len();
            *index == 0 || (*index < LANES && bars <= BARS)
        };
        let (group, others) = rest.split_at(rest.iter().enumerate().take_while(fits).count());
        drawn += group.iter().map(|lane| lane.bars.len()).sum::<usize>();
        if drawn > ALL_BARS && !groups.is_empty() {
            break;
        }
        groups.push(group);
        rest = others;
    }
    groups
}

fn hidden_note(all: &[Lane], groups: &[&[Lane]]) -> String {
    let gpus = all.iter().filter(|lane| lane.gpu.is_some()).count();
    let whole = match (gpus, all.len() - gpus) {
        (0, nodes) => many(nodes, "node"),
        (gpus, 0) => many(gpus, "GPU"),
        (gpus, others) => format!("{} and {} for jobs without GPUs", many(gpus, "GPU"), many(others, "row")),
    };
    let lanes: usize = groups.iter().map(|lanes| lanes.len()).sum();
    let bars: usize = groups.iter().flat_map(|lanes| lanes.iter()).map(|lane| lane.bars.len()).sum();
    let part = match lanes == all.len() {
        true => whole,
        false if gpus == 0 || gpus == all.len() => format!("The first {} of {whole}", grouped(&lanes.to_string())),
        false => format!("The first {} of {whole}", many(lanes, "row")),
    };
    let folded = if groups.len() > 1 { " Click a name to unfold it." } else { "" };
    format!(
        "{part}, with {}.{folded} Each bar is an attempt of a job; a dashed outline means that it did not run \
         to its end. Colours only tell jobs apart. Click a bar, or read its title, to see why it was there; spans.csv \
         lists all attempts.",
        many(bars, "bar")
    )
}

pub(super) fn lane_name(lane: &Lane, accounts: &RunAccount) -> String {
    match lane.gpu {
        Some(index) => accounts.names.gpu(GpuId { node: lane.node, index }),
        None => accounts.names.node(lane.node).to_string(),
    }
}

fn place(at: SimTime, end: SimTime) -> u64 {
    (u128::from(at.min(end).as_nanos()) * u128::from(WHOLE) / u128::from(end.as_nanos().max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_ids::NodeId;

    /// Eight GPUs, and two CPU jobs on two nodes.
    #[test]
    fn rows_of_jobs_without_gpus_are_not_counted_as_gpus() {
        let lane = |node: usize, gpu| Lane { node: NodeId::new(node), gpu, bars: Vec::new(), rows: 1 };
        let gpus: Vec<Lane> = (0..8).map(|gpu| lane(0, Some(gpu))).collect();
        let nodes = vec![lane(0, None), lane(1, None)];
        let both: Vec<Lane> = gpus.iter().chain(&nodes).cloned().collect();
        let starts = |lanes: &[Lane], shown: usize, wanted: &str| {
            let note = hidden_note(lanes, &[&lanes[..shown]]);
            assert!(note.starts_with(&format!("{wanted}, with 0 bars.")), "{note}");
        };
        starts(&both, 10, "8 GPUs and 2 rows for jobs without GPUs");
        starts(&both, 3, "The first 3 rows of 8 GPUs and 2 rows for jobs without GPUs");
        starts(&gpus, 3, "The first 3 of 8 GPUs");
        starts(&nodes, 2, "2 nodes");
    }
}
