//! Elements that all plots share: colours, lines and the position of a wait.
//!
//! Plots are drawn with plotters in whole pixels, without measuring a font, so that a file is the same on every
//! machine.

use plotters::prelude::*;

pub type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
pub type PlotResult = Result<(), Box<dyn std::error::Error>>;

/// Colours of Okabe and Ito, Color Universal Design (2008), which can be distinguished with every common type of
/// colour vision.
pub const PALETTE: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];
pub const GRID: RGBColor = RGBColor(226, 226, 226);
pub const INK: RGBColor = RGBColor(60, 60, 60);

/// The position of a wait on an axis of waits: log10(1 + t / 1 s). Adding 1 gives a wait of zero a position too.
pub fn wait_place(seconds: f64) -> f64 {
    libm::log10(1.0 + seconds)
}

/// Draws a line of two pixels with dashes and gaps of these lengths, measured along the line in whole pixels. If the
/// gap is zero, the line is solid.
pub fn stroke(area: &Area, points: &[(i32, i32)], ink: RGBColor, (on, off): (i32, i32)) -> PlotResult {
    let style = ink.stroke_width(2);
    if off == 0 {
        area.draw(&PathElement::new(thinned(points), style))?;
        return Ok(());
    }
    let (mut along, mut dash) = (0, Vec::new());
    for pair in points.windows(2) {
        let ((from_x, from_y), (to_x, to_y)) = (pair[0], pair[1]);
        let steps = (to_x - from_x).abs().max((to_y - from_y).abs());
        for step in 0..steps {
            let place = (from_x + (to_x - from_x) * step / steps, from_y + (to_y - from_y) * step / steps);
            if along % (on + off) < on {
                dash.push(place);
            } else if !dash.is_empty() {
                dash.push(place);
                area.draw(&PathElement::new(thinned(&std::mem::take(&mut dash)), style))?;
            }
            along += 1;
        }
    }
    if dash.len() > 1 {
        area.draw(&PathElement::new(thinned(&dash), style))?;
    }
    Ok(())
}

/// Removes points in the middle of a straight horizontal or vertical line.
fn thinned(points: &[(i32, i32)]) -> Vec<(i32, i32)> {
    let mut kept: Vec<(i32, i32)> = Vec::new();
    for point in points {
        let straight = match kept.as_slice() {
            [.., a, b] => (a.0 == b.0 && b.0 == point.0) || (a.1 == b.1 && b.1 == point.1),
            _ => false,
        };
        if straight {
            kept.pop();
        }
        if kept.last() != Some(point) {
            kept.push(*point);
        }
    }
    kept
}
