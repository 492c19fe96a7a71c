//! One picture of the run.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};

use super::app::{App, Mode, Pane, Verdicts, job_of};
use super::grid::letter;
use super::index::COLUMNS;
use super::state::ReplicaKey;
use dryrack_event::{Event, RecordBody};
use dryrack_units::SimTime;

const LEAST: (u16, u16) = (40, 12);
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const KEYS: &str = "←→ step  PgDn jump  space play  n failed  / search  tab pane  z zoom  ? help  q";
const HELP: &str = "\
Time     → ←         next, previous instant with an event (also l, h)
         PgDn PgUp   a twentieth of the run
         Home End    start, end (also g, G)
         space + -   play or stop, faster, slower
         n N         next, previous expectation that failed
         /           search the events from here on; / and Enter repeats it

Panes    Tab         next pane; its title is marked with ▸
         ↓ ↑         next, previous job; scrolls the other panes (also j, k)
         z Enter     show the pane alone, and back
         f           list the events of the selected job alone

Nodes    A B a b     the job on a GPU, underlined until it runs
         +           several jobs    ·  free
         x ~         a failed GPU, one that takes no new work

         q           quit    ? help";

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("The terminal is too small: {} by {} at least.", LEAST.0, LEAST.1);
        return frame.render_widget(Paragraph::new(text), area);
    }
    let [title, figures, body, strip, marks, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(app.title(title.width)).style(Style::new().add_modifier(Modifier::BOLD)), title);
    frame.render_widget(Paragraph::new(app.figures()), figures);
    if app.is_zoomed {
        app.pane(frame, app.pane, body);
    } else {
        let [upper, events, why] =
            Layout::vertical([Constraint::Fill(5), Constraint::Fill(3), Constraint::Fill(4)]).areas(body);
        let [nodes, jobs] =
            Layout::horizontal([Constraint::Percentage(48), Constraint::Percentage(52)]).spacing(1).areas(upper);
        for (pane, area) in Pane::ALL.into_iter().zip([nodes, jobs, events, why]) {
            app.pane(frame, pane, area);
        }
    }
    let [strip_line, marks_line] = app.timeline(strip.width);
    frame.render_widget(Paragraph::new(strip_line), strip);
    frame.render_widget(Paragraph::new(marks_line), marks);
    frame.render_widget(Paragraph::new(app.prompt()), keys);
    if app.mode == Mode::Help {
        help(frame, body);
    }
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let lines = HELP.lines().count() as u16;
    let area = Rect { height: area.height.min(lines + 2), ..area };
    frame.render_widget(Clear, area);
    let block = Block::new().borders(Borders::TOP | Borders::BOTTOM).title(" keys; any key goes back ");
    frame.render_widget(Paragraph::new(HELP).block(block), area);
}

/// The text, cut to this many columns.
fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_string(),
    }
}

impl App {
    fn title(&self, width: u16) -> String {
        let right = format!("{}, seed {}", self.run.profile, self.run.seed);
        let room = usize::from(width).saturating_sub(right.chars().count() + 2);
        let title = cut(&self.run.title, room);
        let fill = usize::from(width).saturating_sub(title.chars().count() + right.chars().count());
        format!("{title}{}{right}", " ".repeat(fill))
    }

    fn figures(&self) -> Line<'static> {
        let state = &self.state;
        let (ready, nodes) = state.ready_nodes();
        let is_down = ready < nodes;
        let thousandths = state.gpus_taken;
        let gpus = match thousandths % 1000 {
            0 => (thousandths / 1000).to_string(),
            part => format!("{}.{}", thousandths / 1000, part / 100),
        };
        let mut spans = vec![
            Span::styled(self.now().to_string(), Style::new().add_modifier(Modifier::BOLD)),
            Span::raw(format!(" of {}  ", self.run.end)),
            Span::styled(format!("{ready}/{nodes} nodes"), if is_down { self.alarming() } else { Style::new() }),
            Span::raw(format!(
                "  {gpus}/{} GPUs  {} wait  {} placed  {} done",
                state.gpus(),
                state.waiting.len(),
                state.placed.len(),
                state.completed
            )),
        ];
        if state.unsuccessful > 0 {
            spans.push(Span::styled(format!("  {} failed", state.unsuccessful), self.alarming()));
        }
        if let Verdicts::Known(failed) = &self.verdicts
            && !failed.is_empty()
        {
            let word = if failed.len() == 1 { "expectation fails" } else { "expectations fail" };
            spans.push(Span::styled(format!("  {} {word}", failed.len()), self.alarming()));
        }
        Line::from(spans)
    }

    /// Draws a pane, and keeps its place within its text.
    fn pane(&mut self, frame: &mut Frame<'_>, pane: Pane, area: Rect) {
        let height = usize::from(area.height.saturating_sub(1));
        let (title, lines) = self.contents(pane, area.width.into(), height);
        let mark = if self.pane == pane { "▸" } else { " " };
        let block = Block::new().borders(Borders::TOP).border_style(self.faint()).title(Span::styled(
            format!("{mark}{} ", cut(&title, usize::from(area.width).saturating_sub(4))),
            Style::new().add_modifier(if self.pane == pane { Modifier::BOLD } else { Modifier::empty() }),
        ));
        frame.render_widget(Paragraph::new(lines).block(block), area);
    }

    fn contents(&mut self, pane: Pane, width: usize, height: usize) -> (String, Vec<Line<'static>>) {
        match pane {
            Pane::Nodes => {
                let lines = self.grid(width);
                let more = lines.len() > height;
                let title =
                    if more { format!("nodes, {height} of {} lines", lines.len()) } else { "nodes".to_string() };
                (title, self.scrolled(pane, lines, height))
            }
            Pane::Jobs => {
                let (waiting, placed) = (self.state.waiting.len(), self.state.placed.len());
                (format!("{waiting} wait, {placed} placed"), self.jobs(width, height))
            }
            Pane::Events => {
                let selected = self.selected.filter(|_| self.only_selected);
                let of = selected.map_or(String::new(), |job| format!(" of {}", self.run.names.job(job)));
                let lines = self.events(height).into_iter().map(|(number, line)| self.event(number, &line, width));
                (format!("events{of}"), lines.collect())
            }
            Pane::Why => {
                let title = match self.selected {
                    None => "no job yet".to_string(),
                    Some(job) => format!("{} {}", letter(job), self.run.names.job(job)),
                };
                let text = match (&self.why, self.selected) {
                    (Some(text), _) => text.clone(),
                    (None, Some(_)) => "the log is replayed up to here …".to_string(),
                    (None, None) => String::new(),
                };
                // The first line repeats the title.
                let lines: Vec<Line<'static>> = text
                    .lines()
                    .skip(usize::from(self.why.is_some()))
                    .map(|line| Line::raw(line.to_string()))
                    .collect();
                let more = if lines.len() > height { ", ↓ for more" } else { "" };
                (format!("{title} at {}{more}", self.now()), self.scrolled(pane, lines, height))
            }
        }
    }

    fn scrolled(&mut self, pane: Pane, lines: Vec<Line<'static>>, height: usize) -> Vec<Line<'static>> {
        let first = &mut self.scroll[pane as usize];
        *first = (*first).min(lines.len().saturating_sub(height));
        lines.into_iter().skip(*first).take(height).collect()
    }

    fn jobs(&mut self, width: usize, height: usize) -> Vec<Line<'static>> {
        let first = &mut self.scroll[Pane::Jobs as usize];
        let selected = self.rows.iter().position(|(job, _)| Some(*job) == self.selected);
        if let Some(selected) = selected {
            *first = (*first).clamp((selected + 1).saturating_sub(height.max(1)), selected);
        }
        let first = (*first).min(self.rows.len().saturating_sub(height));
        let rows: Vec<ReplicaKey> = self.rows.iter().skip(first).take(height).copied().collect();
        rows.into_iter().map(|key| self.job(key, width)).collect()
    }

    fn job(&self, key: ReplicaKey, width: usize) -> Line<'static> {
        let name = self.run.names.replica(key.0, key.1);
        let (number, is, detail) = match (self.state.waiting.get(&key), self.state.placed.get(&key)) {
            (Some(waiting), _) => {
                let held = waiting.held.map(|record| &self.records()[record as usize].said);
                let reasons = match held {
                    Some(RecordBody::Event(Event::Held { reasons, .. })) => reasons.to_string(),
                    _ => String::new(),
                };
                (waiting.number, format!("since {}", waiting.since), format!("{} {reasons}", waiting.phase.name()))
            }
            (None, Some(placed)) => (placed.number, format!("since {}", placed.since), placed.phase.name().to_string()),
            (None, None) => (1, String::new(), String::new()),
        };
        let name = if number > 1 { format!("{name} #{number}") } else { name };
        let text = format!(" {:<13} {is:<11} {detail}", cut(&name, 13));
        Line::from(vec![
            Span::styled(letter(key.0).to_string(), self.ink(key.0)),
            Span::styled(
                cut(&text, width.saturating_sub(1)),
                if self.selected == Some(key.0) { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() },
            ),
        ])
    }

    fn event(&self, number: usize, line: &str, width: usize) -> Line<'static> {
        let record = &self.records()[number];
        let is_selected = self.selected.is_some() && job_of(record) == self.selected;
        let is_now = record.at == self.now();
        let style = match (is_selected, is_now) {
            (true, _) => Style::new().add_modifier(Modifier::BOLD),
            (false, true) => Style::new(),
            (false, false) => self.faint(),
        };
        Line::styled(cut(line, width), style)
    }

    /// The column of an instant.
    fn column(&self, at: SimTime, width: usize) -> usize {
        let end = u128::from(self.run.end.as_nanos().max(1));
        ((u128::from(at.as_nanos()) * width as u128 / end) as usize).min(width.saturating_sub(1))
    }

    /// The use of the GPUs over the whole run, and below it the current instant and the failed expectations.
    fn timeline(&self, width: u16) -> [Line<'static>; 2] {
        let width = usize::from(width);
        let most = (self.index.most_gpus as u64 * 1000).max(1);
        let now = self.column(self.now(), width);
        let bar = |column: usize| {
            let (from, to) =
                (column * COLUMNS / width, ((column + 1) * COLUMNS / width).max(column * COLUMNS / width + 1));
            let values = &self.index.gpus[from.min(COLUMNS - 1)..to.min(COLUMNS)];
            let mean = values.iter().sum::<u64>() / (values.len() as u64).max(1);
            match mean {
                0 => ' ',
                mean => BARS[((mean * 8).div_ceil(most) as usize).clamp(1, 8) - 1],
            }
        };
        let bars: String = (0..width).map(bar).collect();
        let mut marks = vec![' '; width];
        if let Verdicts::Known(failed) = &self.verdicts {
            failed.iter().for_each(|failed| marks[self.column(failed.at, width)] = '×');
        }
        let is_at_failure = marks[now] == '×';
        marks[now] = '▲';
        let spans = marks.chunk_by(|one, other| (*one == '×') == (*other == '×')).map(|part| {
            let style = if part[0] == '×' { self.alarming() } else { Style::new() };
            Span::styled(part.iter().collect::<String>(), style)
        });
        let marks = Line::from(spans.collect::<Vec<_>>());
        let marks = if is_at_failure { marks.style(self.alarming()) } else { marks };
        [Line::styled(bars, self.faint()), marks]
    }

    fn prompt(&self) -> String {
        match (&self.mode, &self.message) {
            (Mode::Search(text), _) => format!("/{text}▏"),
            (_, Some(message)) => message.clone(),
            (_, None) if self.is_playing => format!("plays, {}.{}% of the run a step", self.pace / 10, self.pace % 10),
            (_, None) => KEYS.to_string(),
        }
    }
}
