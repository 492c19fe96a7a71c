//! Plots for pages: lines over two axes, as SVG.
//!
//! Plots are drawn with plotters in whole pixels, without measuring a font, so the file is the same on every machine.
//! The page's style sheet maps every colour of the plots to the reader's colour scheme. On its own, a plot has the
//! colours of a light page. Lines differ in their dashes as well as in their colours.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::html::escape;
use crate::plot::{Area, GRID, INK, PALETTE, PlotResult, stroke};

/// For the n-th line, the pixels of a dash and of the gap after it. The first line is solid.
const DASHES: [(i32, i32); 6] = [(1, 0), (9, 4), (3, 3), (14, 3), (6, 6), (2, 6)];

const WIDTH: i32 = 560;
const HEIGHT: i32 = 330;
/// The left, top, right and bottom edges of the axes, in pixels.
const FRAME: (i32, i32, i32, i32) = (66, 14, 542, 270);
const TEXT: i32 = 19;

/// A plot. Positions on both axes go from 0 (left or bottom) to 1.
pub struct Chart {
    /// The title. Screen readers also read the title and `description`.
    pub title: String,
    pub description: String,
    pub x: Axis,
    pub y: Axis,
    pub lines: Vec<Line>,
}

#[derive(Clone, Debug, Default)]
pub struct Axis {
    pub label: String,
    pub ticks: Vec<(f64, String)>,
}

pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    pub kind: Kind,
    /// The index of its colour and its dash.
    pub look: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A straight line from each point to the next.
    Line,
    /// A step line: each value is valid until the next point.
    Steps,
    /// Filled circles, not connected.
    Dots,
    /// Crosses, not connected.
    Crosses,
    /// Intervals: connected pairs of points with a bar at each end.
    Whiskers,
}

impl Chart {
    /// The plot as SVG that fills the available width.
    pub fn svg(&self) -> String {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (WIDTH as u32, HEIGHT as u32)).into_drawing_area();
            // Drawing into a string cannot fail.
            self.draw(&area).expect("drawing into a string cannot fail");
            area.present().expect("drawing into a string cannot fail");
        }
        let (_, body) = svg.split_once('>').expect("plotters opens with the element");
        let (title, description) = (escape(&self.title), escape(&self.description));
        format!(
            "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" \
             aria-label=\"{title}. {description}\">\n<title>{title}</title>\n<desc>{description}</desc>{body}"
        )
    }

    /// The legend below the plot: the name of each line with its mark.
    pub fn legend(&self) -> String {
        let named: Vec<&Line> = self.lines.iter().filter(|line| !line.name.is_empty()).collect();
        if named.is_empty() {
            return String::new();
        }
        let mark = |line: &Line| {
            let (ink, dash) = (line.look % PALETTE.len(), DASHES[line.look % DASHES.len()]);
            let dash = if dash.1 == 0 { String::new() } else { format!(" stroke-dasharray=\"{} {}\"", dash.0, dash.1) };
            match line.kind {
                Kind::Dots => format!("<circle cx=\"14\" cy=\"6\" r=\"4\" fill=\"{}\"/>", hex(PALETTE[ink])),
                Kind::Crosses => {
                    format!("<path d=\"M10 2l8 8m0-8l-8 8\" stroke-width=\"2\" stroke=\"{}\"/>", hex(PALETTE[ink]))
                }
                Kind::Whiskers => {
                    format!("<path d=\"M4 6h20M4 2v8m20-8v8\" stroke-width=\"2\" stroke=\"{}\"/>", hex(PALETTE[ink]))
                }
                Kind::Line | Kind::Steps => {
                    format!("<path d=\"M0 6h28\" stroke-width=\"3\" stroke=\"{}\"{dash}/>", hex(PALETTE[ink]))
                }
            }
        };
        let item = |line: &&Line| {
            format!(
                "<li><svg class=\"plot mark\" width=\"28\" height=\"12\" aria-hidden=\"true\">{}</svg> {}</li>",
                mark(line),
                escape(&line.name)
            )
        };
        format!("<ul class=\"legend\">{}</ul>\n", named.iter().map(item).collect::<String>())
    }

    /// The plot with its caption and legend.
    pub fn figure(&self) -> String {
        let caption = escape(&self.title);
        let note = escape(&self.description);
        format!(
            "<figure>\n<figcaption>{caption}</figcaption>\n{}{}<p class=\"note\">{note}</p>\n</figure>\n",
            self.svg(),
            self.legend()
        )
    }

    fn draw(&self, area: &Area) -> PlotResult {
        let (left, top, right, bottom) = FRAME;
        for (place, label) in &self.y.ticks {
            let y = at(*place).1;
            area.draw(&PathElement::new(vec![(left, y), (right, y)], GRID))?;
            write(area, label, (left - 8, y), HPos::Right, VPos::Center)?;
        }
        for (place, label) in &self.x.ticks {
            let x = at_x(*place);
            area.draw(&PathElement::new(vec![(x, top), (x, bottom + 4)], GRID))?;
            write(area, label, (x, bottom + 8), HPos::Center, VPos::Top)?;
        }
        area.draw(&PathElement::new(vec![(left, top), (left, bottom), (right, bottom)], INK))?;
        write(area, &self.x.label, ((left + right) / 2, HEIGHT - 27), HPos::Center, VPos::Top)?;
        if !self.y.label.is_empty() {
            let style = ("sans-serif", TEXT).into_font().transform(FontTransform::Rotate270).color(&INK);
            let style = style.pos(Pos::new(HPos::Center, VPos::Center));
            area.draw(&Text::new(self.y.label.clone(), (12, (top + bottom) / 2), style))?;
        }
        self.lines.iter().try_for_each(|line| draw_line(area, line))
    }
}

/// The colour in the format of plotters: `#0072B2`.
pub fn hex(ink: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", ink.0, ink.1, ink.2)
}

fn at_x(place: f64) -> i32 {
    FRAME.0 + libm::round(place.clamp(0.0, 1.0) * f64::from(FRAME.2 - FRAME.0)) as i32
}

/// The pixel at the left end of the x axis at this height.
fn at(place: f64) -> (i32, i32) {
    (FRAME.0, FRAME.3 - libm::round(place.clamp(0.0, 1.0) * f64::from(FRAME.3 - FRAME.1)) as i32)
}

fn draw_line(area: &Area, line: &Line) -> PlotResult {
    let ink = PALETTE[line.look % PALETTE.len()];
    let dash = DASHES[line.look % DASHES.len()];
    let points: Vec<(i32, i32)> = line.points.iter().map(|(x, y)| (at_x(*x), at(*y).1)).collect();
    match line.kind {
        // A line through one point has no length, and would not be seen.
        Kind::Line | Kind::Steps if points.len() == 1 => Ok(area.draw(&Circle::new(points[0], 3, ink.filled()))?),
        Kind::Line => stroke(area, &points, ink, dash),
        Kind::Steps => {
            let mut steps: Vec<(i32, i32)> = Vec::new();
            for point in points {
                if let Some(last) = steps.last().copied().filter(|last| last.1 != point.1) {
                    steps.push((point.0, last.1));
                }
                steps.push(point);
            }
            stroke(area, &steps, ink, dash)
        }
        Kind::Dots => points.iter().try_for_each(|point| Ok(area.draw(&Circle::new(*point, 5, ink.filled()))?)),
        Kind::Crosses => {
            points.iter().try_for_each(|point| Ok(area.draw(&Cross::new(*point, 5, ink.stroke_width(2)))?))
        }
        Kind::Whiskers => points.chunks_exact(2).try_for_each(|pair| {
            let (one, other) = (pair[0], pair[1]);
            // Draw the bars perpendicular to the interval.
            let bar = |at: (i32, i32)| match one.0 == other.0 {
                true => vec![(at.0 - 4, at.1), (at.0 + 4, at.1)],
                false => vec![(at.0, at.1 - 4), (at.0, at.1 + 4)],
            };
            for piece in [vec![one, other], bar(one), bar(other)] {
                area.draw(&PathElement::new(piece, ink.stroke_width(2)))?;
            }
            Ok(())
        }),
    }
}

fn write(area: &Area, text: &str, place: (i32, i32), across: HPos, up: VPos) -> PlotResult {
    let style = ("sans-serif", TEXT).into_font().color(&INK).pos(Pos::new(across, up));
    area.draw(&Text::new(text.to_string(), place, style))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Such as a service that runs for less than two intervals.
    #[test]
    fn a_line_through_one_point_is_a_dot() {
        for kind in [Kind::Line, Kind::Steps] {
            let chart = Chart {
                title: "Short".into(),
                description: "Short".into(),
                x: Axis::default(),
                y: Axis::default(),
                lines: vec![Line { name: "one".into(), points: vec![(1.0, 0.5)], kind, look: 0 }],
            };
            assert_eq!(chart.figure().matches("<circle").count(), 1);
        }
    }

    #[test]
    fn a_plot_says_what_it_shows_and_is_the_same_twice() {
        let line = |kind, look| Line { name: "a <b>".into(), points: vec![(0.0, 0.0), (1.0, 1.0)], kind, look };
        let kinds = [Kind::Line, Kind::Steps, Kind::Dots, Kind::Crosses, Kind::Whiskers];
        let chart = Chart {
            title: "Jobs & time".into(),
            description: "\"All\" of them.".into(),
            x: Axis { label: "time".into(), ticks: vec![(0.0, "0".into()), (1.0, "2h".into())] },
            y: Axis::default(),
            lines: kinds.into_iter().enumerate().map(|(look, kind)| line(kind, look)).collect(),
        };
        let svg = chart.figure();
        assert_eq!(svg, chart.figure());
        for part in ["role=\"img\"", "<title>Jobs &amp; time</title>", "&quot;All&quot;", "a &lt;b&gt;", ">\n2h\n<"] {
            assert!(svg.contains(part), "{part} is in\n{svg}");
        }
        // The corners of the axes are at (66, 270) and (542, 14).
        assert!(svg.contains("66,270") && svg.contains("542,14"), "{svg}");
        assert!(!svg.contains("<b>"), "what a user writes is no markup");
    }
}
