//! A heat map of nodes over time. A fuller node has a darker cell.

use super::super::bins::heat;
use super::super::spans::Spans;
use super::axes::strip_ticks;
use super::html::{escape, many};
use dryrack_ids::NodeId;
use dryrack_metrics::RunAccount;
use dryrack_units::SimTime;

const COLUMNS: usize = 96;
/// The largest number of rows. With more nodes, several neighbours share a row.
const ROWS: usize = 40;
const PITCH: usize = 20;
/// The number of steps of the scale above zero. The colours are from cividis (Nuñez, Anderton and Renslow, PLOS ONE
/// 13(7), 2018), which looks the same with red-green colour blindness.
const STEPS: u64 = 7;

/// How full each row is in each column, in thousandths; `None` if it was not ready.
pub struct HeatMap {
    pub rows: Vec<(String, Vec<Option<u64>>)>,
    end: SimTime,
    nodes: usize,
    /// The number of instances that their fleet's cloud never created. They have no row.
    never_existed: usize,
    has_gpus: bool,
}

impl HeatMap {
    pub fn of(accounts: &RunAccount, spans: &Spans) -> HeatMap {
        let cells = if accounts.now == SimTime::ZERO { Vec::new() } else { heat(accounts, spans, COLUMNS) };
        let all = cells.len();
        let exists = |index: &usize| !spans.never_existed(NodeId::new(*index), accounts);
        let nodes: Vec<usize> = (0..all).filter(exists).collect();
        let each = nodes.len().div_ceil(ROWS).max(1);
        let name = |index: usize| accounts.nodes[index].spec.name.to_string();
        let rows = nodes.chunks(each).map(|nodes| {
            let (first, last) = (nodes[0], nodes[nodes.len() - 1]);
            let name = if first == last { name(first) } else { format!("{} … {}", name(first), name(last)) };
            let column = |at: usize| {
                let known: Vec<u64> = nodes.iter().filter_map(|node| cells[*node][at]).collect();
                (!known.is_empty()).then(|| known.iter().sum::<u64>() / known.len() as u64)
            };
            (name, (0..COLUMNS).map(column).collect())
        });
        HeatMap {
            rows: rows.collect(),
            end: accounts.now,
            nodes: nodes.len(),
            never_existed: all - nodes.len(),
            has_gpus: accounts.nodes.iter().any(|node| node.gpu_count() > 0),
        }
    }

    pub fn figure(&self, starts_at: Option<SimTime>) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let height = self.rows.len() * PITCH;
        let (mut cells, mut names) = (String::new(), String::new());
        for (row, (name, values)) in self.rows.iter().enumerate() {
            names.push_str(&format!("<div>{}</div>", escape(name)));
            let mut at = 0;
            // Merge adjacent cells of the same colour.
            while at < values.len() {
                let alike = values[at..].iter().take_while(|value| step(**value) == step(values[at])).count();
                let class = step(values[at]).map_or("down".to_string(), |step| format!("h{step}"));
                let top = row * PITCH + 1;
                cells.push_str(&format!(
                    "<rect class=\"{class}\" x=\"{at}\" y=\"{top}\" width=\"{alike}\" height=\"{}\"/>\n",
                    PITCH - 2
                ));
                at += alike;
            }
        }
        let ticks = strip_ticks(self.end.since(SimTime::ZERO), starts_at);
        let what = if self.has_gpus { "GPUs (cores for a node without GPUs)" } else { "cores" };
        let shared = match self.nodes == self.rows.len() {
            true => String::new(),
            false => format!(" {} nodes share {} rows; neighbours share a row.", self.nodes, self.rows.len()),
        };
        let left_out = match self.never_existed {
            0 => String::new(),
            1 => " 1 instance was never created and has no row.".to_string(),
            more => format!(" {} were never created and have no row.", many(more, "instance")),
        };
        let note = format!(
            "Share of each node's {what} that was allocated over time.{shared} An empty outline: not ready.{left_out}"
        );
        let scale: String = (0..=STEPS)
            .map(|step| {
                let text = if step == 0 { "none".to_string() } else { format!("to {}%", (step * 1000 / STEPS).div_ceil(10)) };
                let swatch = format!("<svg class=\"swatch\" viewBox=\"0 0 1 1\" aria-hidden=\"true\"><rect class=\"h{step}\" width=\"1\" height=\"1\"/></svg>");
                format!("<li>{swatch} {text}</li>")
            })
            .collect();
        let note = escape(&note);
        format!(
            "<figure class=\"broad\">\n<figcaption>Nodes over time</figcaption>\n<div class=\"heat\">\
             <div class=\"names\" aria-hidden=\"true\">{names}</div>\n<div class=\"strip\">\
             <svg height=\"{height}\" viewBox=\"0 0 {COLUMNS} {height}\" preserveAspectRatio=\"none\" \
             shape-rendering=\"crispEdges\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{note}\">\n\
             <title>Nodes over time</title><desc>{note}</desc>\n{cells}</svg>\
             <div class=\"axis\" aria-hidden=\"true\">{ticks}</div></div></div>\n<ul class=\"legend\">{scale}</ul>\n\
             <p class=\"note\">{note}</p>\n</figure>\n"
        )
    }
}

fn step(value: Option<u64>) -> Option<u64> {
    value.map(|value| (value * STEPS).div_ceil(1000).min(STEPS))
}
