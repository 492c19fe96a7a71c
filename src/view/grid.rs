//! The nodes as a grid: a letter for the job on each GPU.

use std::collections::BTreeMap;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::app::App;
use dryrack_event::Phase;
use dryrack_expect::node_state_name;
use dryrack_fleet::{GpuState, NodeState};
use dryrack_ids::{GpuId, JobId, NodeId};

const LETTERS: &[u8; 52] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Colours that can be told apart with red-green colour blindness.
const INKS: [Color; 6] =
    [Color::Blue, Color::Yellow, Color::Cyan, Color::Magenta, Color::LightBlue, Color::LightYellow];
/// The longest name of a node that is shown whole.
const NAME: usize = 24;
/// The number of jobs shown on a node without GPUs.
const JOBS: usize = 8;

/// The replicas on each GPU, or on each node without GPUs, as the job and the phase of each.
type Occupants = BTreeMap<(NodeId, Option<u16>), Vec<(JobId, Phase)>>;

pub fn letter(job: JobId) -> char {
    char::from(LETTERS[job.index() % LETTERS.len()])
}

/// The number of columns that a text takes on a terminal.
fn width_of(text: &str) -> usize {
    Span::raw(text).width()
}

impl App {
    /// The style of everything about a job.
    pub fn ink(&self, job: JobId) -> Style {
        let style = if self.has_colours { Style::new().fg(INKS[job.index() % INKS.len()]) } else { Style::new() };
        if self.selected == Some(job) { style.add_modifier(Modifier::REVERSED | Modifier::BOLD) } else { style }
    }

    pub fn faint(&self) -> Style {
        if self.has_colours { Style::new().fg(Color::DarkGray) } else { Style::new() }
    }

    pub fn alarming(&self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if self.has_colours { style.fg(Color::Red) } else { style }
    }

    /// The grid as lines of this width.
    pub fn grid(&self, width: usize) -> Vec<Line<'static>> {
        let on_gpus = self.jobs_on_gpus();
        let shown: Vec<usize> =
            (0..self.state.nodes.len()).filter(|node| self.state.nodes[*node].state != NodeState::Gone).collect();
        let name = |node: &usize| self.run.names.node(NodeId::new(*node)).to_string();
        let names = shown.iter().map(|node| width_of(&name(node))).max().unwrap_or(0).min(NAME);
        let cells: Vec<Vec<Span<'static>>> = shown.iter().map(|node| self.cell(*node, names, &on_gpus)).collect();
        let widest = cells.iter().map(|cell| cell.iter().map(Span::width).sum::<usize>()).max().unwrap_or(0);
        let columns = ((width + 2) / (widest + 2)).max(1);
        let rows = cells.len().div_ceil(columns);
        // Read down each column, as `ls` does.
        let line = |row: usize| {
            let mut spans = Vec::new();
            for cell in (0..columns).filter_map(|column| cells.get(column * rows + row)) {
                let taken: usize = cell.iter().map(Span::width).sum();
                spans.extend(cell.iter().cloned());
                spans.push(Span::raw(" ".repeat(widest + 2 - taken)));
            }
            Line::from(spans)
        };
        (0..rows).map(line).collect()
    }

    /// The replicas on each GPU, and on each node without GPUs.
    fn jobs_on_gpus(&self) -> Occupants {
        let mut on = Occupants::new();
        for (key, claim) in self.state.claims(self.records()) {
            let phase = self.state.placed.get(&key).map_or(Phase::Ended, |placed| placed.phase);
            let gpus = claim.gpus.iter().map(|gpu| Some(gpu.index));
            for gpu in gpus.chain(claim.gpus.is_empty().then_some(None)) {
                on.entry((claim.node, gpu)).or_default().push((key.0, phase));
            }
        }
        on
    }

    fn cell(&self, node: usize, names: usize, on: &Occupants) -> Vec<Span<'static>> {
        let (id, view) = (NodeId::new(node), &self.state.nodes[node]);
        let name: String = self.run.names.node(id).chars().take(NAME).collect();
        let fill = " ".repeat(names.saturating_sub(width_of(&name)) + 1);
        let is_ready = view.state == NodeState::Ready;
        let style = if is_ready { Style::new() } else { self.faint() };
        let mut spans = vec![Span::styled(name, style), Span::raw(fill)];
        let span = |jobs: &[(JobId, Phase)]| match jobs {
            [] => Span::styled("·", self.faint()),
            [(job, phase)] => {
                // What has not started yet, or has ended and keeps its claim, is underlined.
                let style = self.ink(*job);
                let style = if *phase == Phase::Running { style } else { style.add_modifier(Modifier::UNDERLINED) };
                Span::styled(letter(*job).to_string(), style)
            }
            several => {
                let chosen = several.iter().find(|(job, _)| Some(*job) == self.selected);
                Span::styled("+", self.ink(chosen.unwrap_or(&several[0]).0))
            }
        };
        let at = |gpu: Option<u16>| on.get(&(id, gpu)).map_or(&[][..], Vec::as_slice);
        for gpu in 0..view.gpus() {
            let index = gpu as u16;
            let failed = self.state.failed_gpus.get(&GpuId { node: id, index });
            match (at(Some(index)), failed) {
                ([], Some(GpuState::Failed | GpuState::Unknown)) => spans.push(Span::styled("x", self.alarming())),
                ([], Some(_)) => spans.push(Span::styled("~", self.alarming())),
                (jobs, _) => spans.push(span(jobs)),
            }
        }
        let without_gpu = at(None);
        if !without_gpu.is_empty() && view.gpus() > 0 {
            spans.push(Span::raw(" "));
        }
        spans.extend(without_gpu.iter().take(JOBS).map(|job| span(std::slice::from_ref(job))));
        if without_gpu.len() > JOBS {
            spans.push(Span::raw(format!(" and {} more", without_gpu.len() - JOBS)));
        }
        if without_gpu.is_empty() && view.gpus() == 0 {
            spans.push(span(&[]));
        }
        if !is_ready {
            let state = view.instance.unwrap_or(node_state_name(view.state));
            spans.push(Span::styled(format!(" {state}"), self.alarming()));
        }
        spans
    }
}
