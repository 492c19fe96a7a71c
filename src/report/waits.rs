//! A plot of the distributions of waiting times: a panel for each queue, a curve for each run.
//!
//! Each curve shows the part of all jobs that waited longer than a given time (the complement of the empirical
//! distribution function). Both axes are logarithmic, because schedulers differ mainly in the few long waits. The time
//! axis is log(1 + t / 1 s), so that a wait of zero has a position. At time zero, a curve shows the part of jobs that
//! waited at all. A part below one in ten thousand is drawn at the bottom. Jobs that were never placed count as waiting
//! longer than all others, so a curve that includes such jobs does not fall to zero.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::plot::{Area, GRID, INK, PALETTE, PlotResult, stroke, wait_place};
use super::timeline::about;
use dryrack_metrics::quantile;
use dryrack_units::SimDuration;

/// The waits of one run's jobs in one queue.
#[derive(Clone, Debug)]
pub struct Curve {
    pub name: String,
    pub waits: Vec<SimDuration>,
    /// The number of jobs that were never placed.
    pub never: usize,
    /// Whether these waits come from a trace instead of a simulated run. Such a curve is dashed and black.
    pub recorded: bool,
}

/// The panel of one queue. The n-th curve of each panel belongs to the same run.
#[derive(Clone, Debug)]
pub struct Panel {
    pub title: String,
    pub curves: Vec<Curve>,
}

pub struct WaitsPlot {
    pub title: String,
    pub panels: Vec<Panel>,
    /// Lines below the plot with facts that the reader must know about the data.
    pub captions: Vec<String>,
}

const COLUMNS: usize = 3;
const PANEL_WIDTH: i32 = 274;
/// The height of a panel in pixels, without the table below it.
const PANEL_HEIGHT: i32 = 410;
const TABLE_LINE: i32 = 19;
const LEFT: i32 = 78;
/// The left margin of the captions, in pixels.
const MARGIN: i32 = 24;
const HEAD: i32 = 84;
/// The padding above, to the right of and below the axes of a panel, in pixels.
const PAD: (i32, i32, i32) = (34, 22, 78);
const CAPTION_LINE: i32 = 20;
/// The pixels of a dash and of the gap after it.
const DASH: (i32, i32) = (7, 4);

/// The number of decades on the vertical axis. The smallest visible part of all jobs is ten to minus this power.
const DECADES: i32 = 4;
const PARTS: [(f64, &str); 5] = [(1.0, "100%"), (0.1, "10%"), (0.01, "1%"), (0.001, "0.1%"), (0.0001, "0.01%")];

/// Times in seconds at which the axis is marked, each with its label.
const TICKS: [(u64, &str); 10] = [
    (0, "0"),
    // This mark is too near to zero for a label.
    (1, ""),
    (10, "10s"),
    (60, "1m"),
    (600, "10m"),
    (3600, "1h"),
    (21_600, "6h"),
    (86_400, "1d"),
    (604_800, "1w"),
    (2_592_000, "30d"),
];

impl WaitsPlot {
    /// The plot as SVG.
    pub fn svg(&self) -> String {
        let rows = self.panels.len().div_ceil(COLUMNS).max(1) as i32;
        let columns = self.panels.len().clamp(1, COLUMNS) as i32;
        let width = LEFT + columns * PANEL_WIDTH;
        let height = HEAD + rows * self.panel_step() + 16 + CAPTION_LINE * self.captions.len() as i32 + 8;
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (width as u32, height as u32)).into_drawing_area();
            // Drawing into a string cannot fail.
            self.draw(&area, width, height).expect("drawing into a string cannot fail");
            area.present().expect("drawing into a string cannot fail");
        }
        svg
    }

    fn panel_step(&self) -> i32 {
        let curves = self.panels.iter().map(|panel| panel.curves.len()).max().unwrap_or(0) as i32;
        PANEL_HEIGHT + TABLE_LINE * curves
    }

    fn draw(&self, area: &Area, width: i32, height: i32) -> PlotResult {
        area.fill(&WHITE)?;
        write(area, &self.title, (width / 2, 12), 22, INK, HPos::Center)?;
        self.legend(area, width)?;
        let longest = self.panels.iter().flat_map(|panel| &panel.curves).flat_map(|curve| &curve.waits).max();
        let longest = longest.copied().unwrap_or(SimDuration::ZERO).max(SimDuration::from_secs(60));
        let step = self.panel_step();
        for (index, panel) in self.panels.iter().enumerate() {
            let (column, row) = ((index % COLUMNS) as i32, (index / COLUMNS) as i32);
            let frame = Frame {
                left: LEFT + column * PANEL_WIDTH,
                right: LEFT + (column + 1) * PANEL_WIDTH - PAD.1,
                top: HEAD + row * step + PAD.0,
                bottom: HEAD + row * step + PANEL_HEIGHT - PAD.2,
                end: wait_place(longest.as_secs_f64()),
            };
            frame.axes(area, panel, column == 0)?;
            for (number, curve) in panel.curves.iter().enumerate() {
                frame.curve(area, curve, ink_of(number, curve))?;
            }
            frame.medians(area, panel)?;
        }
        let below = height - 8 - CAPTION_LINE * self.captions.len() as i32;
        for (index, caption) in self.captions.iter().enumerate() {
            write(area, caption, (MARGIN, below + CAPTION_LINE * index as i32), 16, INK, HPos::Left)?;
        }
        Ok(())
    }

    /// The legend, with the names in a row at equal distances, so that no font must be measured.
    fn legend(&self, area: &Area, width: i32) -> PlotResult {
        let Some(panel) = self.panels.iter().max_by_key(|panel| panel.curves.len()) else { return Ok(()) };
        let longest = panel.curves.iter().map(|curve| curve.name.chars().count()).max().unwrap_or(0) as i32;
        let step = 50 + longest * 9;
        let mut left = (width - step * panel.curves.len() as i32).max(0) / 2 + 10;
        for (number, curve) in panel.curves.iter().enumerate() {
            let line: Vec<(i32, i32)> = (left..left + 30).map(|x| (x, 54)).collect();
            stroke(area, &line, ink_of(number, curve), curve.dash())?;
            write(area, &curve.name, (left + 37, 45), 18, INK, HPos::Left)?;
            left += step;
        }
        Ok(())
    }
}

fn ink_of(number: usize, curve: &Curve) -> RGBColor {
    if curve.recorded { BLACK } else { PALETTE[number % PALETTE.len()] }
}

/// The axes of one panel, in pixels.
struct Frame {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    /// The position of the longest wait in any panel. All panels share one axis.
    end: f64,
}

impl Frame {
    fn x(&self, place: f64) -> i32 {
        self.left + libm::round(place / self.end * f64::from(self.right - self.left)) as i32
    }

    fn y(&self, part: f64) -> i32 {
        let height = f64::from(self.bottom - self.top);
        let fall = if part > 0.0 { -libm::log10(part) / f64::from(DECADES) } else { 1.0 };
        self.top + libm::round(fall.min(1.0) * height) as i32
    }

    fn axes(&self, area: &Area, panel: &Panel, labelled: bool) -> PlotResult {
        for (part, label) in PARTS {
            let y = self.y(part);
            area.draw(&PathElement::new(vec![(self.left, y), (self.right, y)], GRID))?;
            if labelled {
                write(area, label, (self.left - 8, y - 8), 16, INK, HPos::Right)?;
            }
        }
        for (seconds, label) in TICKS {
            let place = wait_place(seconds as f64);
            if place > self.end * 1.001 {
                break;
            }
            let x = self.x(place);
            area.draw(&PathElement::new(vec![(x, self.top), (x, self.bottom + 4)], GRID))?;
            write(area, label, (x, self.bottom + 8), 16, INK, HPos::Center)?;
        }
        let corners = vec![(self.left, self.top), (self.left, self.bottom), (self.right, self.bottom)];
        area.draw(&PathElement::new(corners, INK))?;
        let middle = (self.left + self.right) / 2;
        let jobs = panel.curves.iter().map(|curve| curve.waits.len() + curve.never).max().unwrap_or(0);
        write(
            area,
            &format!("{} ({} jobs)", panel.title, grouped(jobs)),
            (middle, self.top - 26),
            18,
            INK,
            HPos::Center,
        )?;
        write(area, "time waited (log scale)", (middle, self.bottom + 28), 16, INK, HPos::Center)?;
        if labelled {
            let style = ("sans-serif", 16).into_font().transform(FontTransform::Rotate270).color(&INK);
            let style = style.pos(Pos::new(HPos::Center, VPos::Center));
            area.draw(&Text::new(
                "part of all jobs that waited longer (log scale)",
                (14, (self.top + self.bottom) / 2),
                style,
            ))?;
        }
        Ok(())
    }

    /// Draws the part of jobs that waited longer, computed once for each pixel column.
    fn curve(&self, area: &Area, curve: &Curve, ink: RGBColor) -> PlotResult {
        let all = curve.waits.len() + curve.never;
        if all == 0 {
            return Ok(());
        }
        let mut places: Vec<f64> = curve.waits.iter().map(|wait| wait_place(wait.as_secs_f64())).collect();
        places.sort_unstable_by(f64::total_cmp);
        let beyond = |count: usize| self.y((all - count) as f64 / all as f64);
        let mut points: Vec<(i32, i32)> = Vec::new();
        for x in self.left..=self.right {
            // A pixel shows the function at the left edge of its column, so the first pixel counts only waits of zero.
            let place = f64::from(x - self.left) / f64::from(self.right - self.left) * self.end;
            let y = beyond(places.partition_point(|known| *known <= place));
            if let Some(last) = points.last().copied()
                && last.1 != y
            {
                // Draw a step instead of a slope.
                points.push((x, last.1));
            }
            points.push((x, y));
            if y == self.bottom {
                break;
            }
        }
        if let Some(last) = points.last_mut() {
            // The longest wait may be inside the last pixel, so set the final value.
            last.1 = beyond(curve.waits.len());
        }
        stroke(area, &points, ink, curve.dash())?;
        area.draw(&Circle::new(points[0], 4, ink.filled()))?;
        Ok(())
    }

    /// A small table below the panel: the median and the 95% quantile of each curve.
    fn medians(&self, area: &Area, panel: &Panel) -> PlotResult {
        let top = self.bottom + 56;
        let columns = [self.left + 150, self.left + 230];
        for (text, x) in ["median", "95%"].into_iter().zip(columns) {
            write(area, text, (x, top), 15, INK, HPos::Right)?;
        }
        for (row, curve) in panel.curves.iter().enumerate().filter(|(_, curve)| !curve.is_empty()) {
            let y = top + TABLE_LINE * (row as i32 + 1);
            let mark: Vec<(i32, i32)> = (self.left + 40..self.left + 70).map(|x| (x, y + 7)).collect();
            stroke(area, &mark, ink_of(row, curve), curve.dash())?;
            for (percent, x) in [50, 95].into_iter().zip(columns) {
                write(area, &of_all(curve, percent), (x, y - 1), 15, INK, HPos::Right)?;
            }
        }
        Ok(())
    }
}

impl Curve {
    fn dash(&self) -> (i32, i32) {
        if self.recorded { DASH } else { (1, 0) }
    }

    fn is_empty(&self) -> bool {
        self.waits.is_empty() && self.never == 0
    }
}

/// The quantile over all jobs. Jobs that were never placed count as longer than all others.
fn of_all(curve: &Curve, percent: usize) -> String {
    let mut waits = curve.waits.clone();
    waits.resize(waits.len() + curve.never, SimDuration::MAX);
    waits.sort_unstable();
    match quantile(&waits, percent) {
        SimDuration::MAX => "never".to_string(),
        wait => about(wait),
    }
}

/// Formats a count with separators, such as `51,987`.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn write(area: &Area, text: &str, at: (i32, i32), size: i32, ink: RGBColor, side: HPos) -> PlotResult {
    let style = ("sans-serif", size).into_font().color(&ink).pos(Pos::new(side, VPos::Top));
    area.draw(&Text::new(text.to_string(), at, style))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> WaitsPlot {
        let curve = |name: &str, scale: u64, zero: usize, never, recorded| {
            let mut waits = vec![SimDuration::ZERO; zero];
            waits.extend((1..400u64).map(|n| SimDuration::from_secs(n * n * scale / 40)));
            Curve { name: name.into(), waits, never, recorded }
        };
        let panel = |title: &str, zero| Panel {
            title: title.into(),
            curves: vec![
                curve("FIFO", 70, zero, 0, false),
                curve("skipping", 3, zero * 2, 40, false),
                curve("recorded", 20, zero, 0, true),
            ],
        };
        WaitsPlot {
            title: "Waiting times on the Gaia cluster".into(),
            panels: vec![panel("interactive", 900), panel("default", 100), panel("besteffort", 5)],
            captions: vec!["Node sizes are not in the log: 41 nodes with 14 cores and 110 with 13.".into()],
        }
    }

    #[test]
    fn the_same_waits_give_the_same_bytes() {
        let svg = example().svg();
        assert_eq!(svg, example().svg());
        for text in ["interactive", "default", "besteffort", "recorded", "41 nodes", "part of all jobs"] {
            assert!(svg.contains(text), "{text} is written on the plot");
        }
        if let Ok(path) = std::env::var("DRYRACK_PLOT_OUT") {
            std::fs::write(path, svg).expect("a place to write");
        }
    }

    #[test]
    fn those_never_placed_count_as_later_than_all_others() {
        let curve = Curve { name: "a".into(), waits: vec![SimDuration::from_secs(10); 6], never: 4, recorded: false };
        assert_eq!((of_all(&curve, 50).as_str(), of_all(&curve, 95).as_str()), ("10s", "never"));
    }
}
