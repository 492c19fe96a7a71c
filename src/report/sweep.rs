//! A plot of policies with different minimums and windows: the idle time that each would save, and the jobs that it
//! would end wrongly.
//!
//! A point is one policy. Its x value is the part of the idle GPU time that the policy would have saved. Its y value is
//! the number of jobs that it would have ended although they worked again later. A curve is one window, from the lowest
//! minimum to the highest, with labels at its ends. Good policies are at the bottom right. Plots are drawn in whole
//! pixels without measuring a font, so the file is the same on every machine.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::plot::{Area, GRID, INK, PALETTE, PlotResult};
use dryrack_units::{Permille, SimDuration};

/// The result of one policy for all jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepPoint {
    pub minimum: Permille,
    pub window: SimDuration,
    /// The GPU time of all jobs that counts as idle under this minimum.
    pub idle: SimDuration,
    /// The part of the idle time that the policy would have saved.
    pub saved: SimDuration,
    /// The busy GPU time that the policy would have cut off.
    pub lost: SimDuration,
    pub ended: u32,
    pub false_ends: u32,
}

pub struct SweepPlot {
    pub title: String,
    /// The number of jobs, which is the same for all policies.
    pub jobs: u32,
    /// The points, sorted by window and then by minimum.
    pub points: Vec<SweepPoint>,
    pub caption: String,
}

const SIZE: (i32, i32) = (900, 620);
/// The left, top, right and bottom edges of the axes, in pixels.
const FRAME: (i32, i32, i32, i32) = (90, 90, 700, 500);
const TICKS: i32 = 5;

impl SweepPoint {
    /// The saved part in thousandths of the idle time; 0 if there was no idle time.
    fn saved_part(&self) -> i32 {
        let part = u128::from(self.saved.as_nanos()) * 1000 / u128::from(self.idle.as_nanos().max(1));
        part as i32
    }
}

impl SweepPlot {
    /// The plot as SVG.
    pub fn svg(&self) -> String {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (SIZE.0 as u32, SIZE.1 as u32)).into_drawing_area();
            // Drawing into a string cannot fail.
            self.draw(&area).expect("drawing into a string cannot fail");
            area.present().expect("drawing into a string cannot fail");
        }
        svg
    }

    /// The highest value of the y axis, which is a multiple of the number of ticks.
    fn top(&self) -> i32 {
        let most = self.points.iter().map(|point| point.false_ends).max().unwrap_or(0) as i32;
        (most.max(1) + TICKS - 1) / TICKS * TICKS
    }

    fn place(&self, point: &SweepPoint) -> (i32, i32) {
        let (left, top, right, bottom) = FRAME;
        let x = left + point.saved_part() * (right - left) / 1000;
        let y = bottom - point.false_ends as i32 * (bottom - top) / self.top();
        (x, y)
    }

    fn draw(&self, area: &Area) -> PlotResult {
        area.fill(&WHITE)?;
        write(area, &self.title, (SIZE.0 / 2, 14), 22, HPos::Center)?;
        write(area, &self.caption, (SIZE.0 / 2, SIZE.1 - 34), 16, HPos::Center)?;
        self.axes(area)?;
        let mut windows: Vec<SimDuration> = self.points.iter().map(|point| point.window).collect();
        windows.dedup();
        let (_, top, right, _) = FRAME;
        write(area, "window", (right + 24, top - 6), 16, HPos::Left)?;
        let mut labels = Labels { taken: self.points.iter().map(|point| Cover::around(self.place(point))).collect() };
        for (number, window) in windows.iter().enumerate() {
            let ink = *PALETTE.iter().chain([&INK]).cycle().nth(number).expect("it has no end");
            let curve: Vec<&SweepPoint> = self.points.iter().filter(|point| point.window == *window).collect();
            let places: Vec<(i32, i32)> = curve.iter().map(|point| self.place(point)).collect();
            area.draw(&PathElement::new(places.clone(), ink.stroke_width(2)))?;
            for place in &places {
                area.draw(&Circle::new(*place, 4, ink.filled()))?;
            }
            if let [first, .., last] = curve.as_slice() {
                for end in [first, last] {
                    labels.write(area, &end.minimum.to_string(), self.place(end))?;
                }
            }
            let y = top + 24 + 24 * number as i32;
            let line = vec![(right + 24, y + 8), (right + 54, y + 8)];
            area.draw(&PathElement::new(line, ink.stroke_width(3)))?;
            write(area, &window.to_string(), (right + 62, y), 16, HPos::Left)?;
        }
        Ok(())
    }

    fn axes(&self, area: &Area) -> PlotResult {
        let (left, top, right, bottom) = FRAME;
        for tick in 0..=TICKS {
            let y = bottom - tick * (bottom - top) / TICKS;
            area.draw(&PathElement::new(vec![(left, y), (right, y)], GRID))?;
            write(area, &(tick * self.top() / TICKS).to_string(), (left - 10, y - 8), 16, HPos::Right)?;
            let x = left + tick * (right - left) / TICKS;
            area.draw(&PathElement::new(vec![(x, top), (x, bottom)], GRID))?;
            write(area, &format!("{}%", tick * 100 / TICKS), (x, bottom + 8), 16, HPos::Center)?;
        }
        area.draw(&PathElement::new(vec![(left, top), (left, bottom), (right, bottom)], INK))?;
        write(area, "idle GPU time saved", ((left + right) / 2, bottom + 34), 16, HPos::Center)?;
        let style = ("sans-serif", 16).into_font().transform(FontTransform::Rotate270).color(&INK);
        let style = style.pos(Pos::new(HPos::Center, VPos::Center));
        let text = format!("jobs that were ended but became busy again (of {})", self.jobs);
        area.draw(&Text::new(text, (26, (top + bottom) / 2), style))?;
        Ok(())
    }
}

/// A rectangle of whole pixels that is already occupied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cover {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
}

impl Cover {
    /// The pixels that a point covers.
    fn around((x, y): (i32, i32)) -> Cover {
        Cover { left: x - 4, top: y - 4, right: x + 4, bottom: y + 4 }
    }

    fn overlaps(&self, other: &Cover) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }
}

/// Labels beside points, placed without overlaps.
struct Labels {
    taken: Vec<Cover>,
}

impl Labels {
    const SIZE: i32 = 14;
    /// Offsets from the point to the nearest corner of its label, in the order in which they are tried.
    const PLACES: [(i32, i32); 8] = [(-6, -4), (6, -4), (-6, 4), (6, 4), (-12, -14), (12, -14), (-12, 14), (12, 14)];

    /// Writes a label beside the point if there is room for it.
    fn write(&mut self, area: &Area, text: &str, point: (i32, i32)) -> PlotResult {
        let Some(place) = self.room(text, point) else { return Ok(()) };
        self.taken.push(place);
        write(area, text, (place.left, place.top), Labels::SIZE, HPos::Left)
    }

    fn room(&self, text: &str, (x, y): (i32, i32)) -> Option<Cover> {
        // An estimate of the width of the label: a digit is about half as wide as high, and a percent sign about as
        // wide as high.
        let width = (text.chars().count() as i32 + 1) * Labels::SIZE * 3 / 5;
        let beside = |(right, down): &(i32, i32)| {
            let left = if *right < 0 { x + right - width } else { x + right };
            let top = if *down < 0 { y + down - Labels::SIZE } else { y + down };
            Cover { left, top, right: left + width, bottom: top + Labels::SIZE }
        };
        let is_free = |place: &Cover| place.left > FRAME.0 && self.taken.iter().all(|taken| !taken.overlaps(place));
        Labels::PLACES.iter().map(beside).find(is_free)
    }
}

fn write(area: &Area, text: &str, place: (i32, i32), size: i32, to: HPos) -> PlotResult {
    let style = ("sans-serif", size).into_font().color(&INK).pos(Pos::new(to, VPos::Top));
    area.draw(&Text::new(text.to_string(), place, style))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A label is 33 pixels wide and 14 high. The point and all earlier labels occupy their pixels.
    #[test]
    fn labels_of_points_in_one_place_stand_beside_each_other() {
        let mut labels = Labels { taken: vec![Cover::around((300, 300))] };
        for at in 0..4 {
            let place = labels.room("70%", (300, 300)).unwrap_or_else(|| panic!("there is room for label {at}"));
            assert!(labels.taken.iter().all(|taken| !taken.overlaps(&place)), "{place:?} is free");
            assert_eq!((place.right - place.left, place.bottom - place.top), (33, 14));
            labels.taken.push(place);
        }
        assert!(labels.taken[1].right < 300 && labels.taken[1].bottom < 300, "the first is above, to the left");
    }

    #[test]
    fn a_plot_names_its_windows_and_minima_and_is_the_same_twice() {
        let hours = |hours: u64| SimDuration::from_secs(3600 * hours);
        let point = |minimum, window, saved, false_ends| SweepPoint {
            minimum: Permille::new(minimum),
            window: hours(window),
            idle: hours(100),
            saved: hours(saved),
            lost: hours(1),
            ended: 9,
            false_ends,
        };
        let points = vec![point(50, 1, 60, 3), point(300, 1, 80, 7), point(50, 2, 40, 0), point(300, 2, 70, 2)];
        let plot = SweepPlot { title: "A sweep".into(), jobs: 20, points, caption: "made up".into() };
        let svg = plot.svg();
        assert_eq!(svg, plot.svg());
        for text in ["A sweep", "1h", "2h", "5%", "30%", "idle GPU time saved", "(of 20)", "made up"] {
            assert!(svg.contains(text), "{text} is written on the plot");
        }
        // x is 80% of 610 pixels from 90 on; y is 7/10 of 410 pixels up from 500.
        assert_eq!(plot.place(&plot.points[1]), (578, 213));
    }
}
