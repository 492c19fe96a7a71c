//! Shows the progress of long work, if stderr is a terminal.

use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::mpsc;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Progress is shown only for work that takes longer than this.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the display is refreshed.
const EVERY: Duration = Duration::from_millis(200);

/// The terminal that shows the progress.
struct Audience {
    target: ProgressDrawTarget,
    patience: Duration,
}

fn audience() -> Option<Audience> {
    let looks = std::io::stderr().is_terminal();
    looks.then(|| Audience { target: ProgressDrawTarget::stderr(), patience: PATIENCE })
}

/// Does `work` with a progress bar. `work` advances the bar up to `most`; `what` names the things that are counted.
pub fn with_bar<T>((most, what): (u64, &str), work: impl FnOnce(&ProgressBar) -> T) -> T {
    let bar = ProgressBar::with_draw_target(Some(most), ProgressDrawTarget::hidden());
    bar.set_style(bar_style(what));
    shown(audience(), &bar, |bar| bar.tick(), work)
}

/// Does `work` of unknown length with a line of progress. `said` returns the current progress at any time.
pub fn with_line<T>(said: impl Fn() -> String + Sync, work: impl FnOnce() -> T) -> T {
    line(audience(), said, work)
}

fn line<T>(audience: Option<Audience>, said: impl Fn() -> String + Sync, work: impl FnOnce() -> T) -> T {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    bar.set_style(ProgressStyle::with_template("{msg}, {elapsed}").expect("a valid template"));
    // Setting a message also draws it.
    shown(audience, &bar, |bar| bar.set_message(said()), |_| work())
}

/// Does `work`, and redraws the bar while it runs.
fn shown<T>(
    audience: Option<Audience>,
    bar: &ProgressBar,
    draw: impl Fn(&ProgressBar) + Sync,
    work: impl FnOnce(&ProgressBar) -> T,
) -> T {
    let Some(Audience { target, patience }) = audience else { return work(bar) };
    let (done, is_done) = mpsc::channel::<()>();
    let draw = &draw;
    let result = std::thread::scope(|scope| {
        scope.spawn(move || {
            // The sender is dropped when the work ends or panics, which ends this loop.
            let goes_on = |wait| is_done.recv_timeout(wait) == Err(mpsc::RecvTimeoutError::Timeout);
            if goes_on(patience) {
                bar.set_draw_target(target);
                draw(bar);
                while goes_on(EVERY) {
                    draw(bar);
                }
            }
        });
        let result = work(bar);
        drop(done);
        result
    });
    bar.finish_and_clear();
    result
}

/// The bar, the count and the elapsed time, then the rate and the estimated time left.
fn bar_style(what: &str) -> ProgressStyle {
    let template = format!("{{wide_bar}} {{pos}}/{{len}} {what}, {{elapsed}}{{rest}}");
    let style = ProgressStyle::with_template(&template).expect("a valid template");
    style.with_key("rest", |state: &ProgressState, out: &mut dyn Write| {
        let _infallible = write!(out, "{}", rest(state.per_sec(), state.eta()));
    })
}

/// The rate and the estimated time left; empty until both are known.
fn rest(per_second: f64, left: Duration) -> String {
    if per_second <= 0.0 || left.is_zero() {
        return String::new();
    }
    match left.as_secs() {
        0 => format!(", {per_second:.1} a second, less than a second left"),
        _ => format!(", {per_second:.1} a second, {} left", HumanDuration(left)),
    }
}

/// Starts the bar at the work that an earlier process did. This work counts for the position but not for the rate.
pub fn begin_at(bar: &ProgressBar, done: u64) {
    bar.set_position(done);
    bar.reset_eta();
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;
    use dryrack_live::clock::Deadline;

    /// A terminal that stores all text written to it.
    #[derive(Clone, Debug, Default)]
    struct CapturedTerm(Arc<Mutex<String>>);

    impl CapturedTerm {
        fn text(&self) -> String {
            self.0.lock().expect("nobody panics with it").clone()
        }

        fn audience(&self) -> Option<Audience> {
            let target = ProgressDrawTarget::term_like(Box::new(self.clone()));
            Some(Audience { target, patience: Duration::ZERO })
        }
    }

    impl TermLike for CapturedTerm {
        fn width(&self) -> u16 {
            100
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().expect("nobody panics with it").push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Waits until the terminal shows the text, while the work is still running.
    fn wait_for(kept: &CapturedTerm, wanted: &str) {
        let deadline = Deadline::within(Duration::from_secs(30));
        while !kept.text().contains(wanted) {
            assert!(!deadline.has_passed(), "{wanted} in {}", kept.text());
            std::thread::yield_now();
        }
    }

    #[test]
    fn work_of_unknown_length_is_told_while_it_goes_on() {
        let kept = CapturedTerm::default();
        let at = Mutex::new("1d");
        let said = || format!("{} of the run", at.lock().expect("nobody panics with it"));
        line(kept.audience(), said, || {
            wait_for(&kept, "1d of the run");
            *at.lock().expect("nobody panics with it") = "2d";
            wait_for(&kept, "2d of the run");
        });
    }

    #[test]
    fn a_bar_says_nothing_of_what_is_left_before_anything_is_done() {
        let kept = CapturedTerm::default();
        let bar = ProgressBar::with_draw_target(Some(9), ProgressDrawTarget::hidden());
        bar.set_style(bar_style("runs"));
        shown(
            kept.audience(),
            &bar,
            |bar| bar.tick(),
            |bar| {
                wait_for(&kept, "0/9 runs, ");
                assert!(!kept.text().contains("left"), "{}", kept.text());
                bar.inc(1);
                wait_for(&kept, " left");
            },
        );
    }

    #[test]
    fn what_is_left_is_said_in_units_that_are_read() {
        assert_eq!(rest(0.0, Duration::ZERO), "");
        assert_eq!(rest(0.25, Duration::from_secs(120)), ", 0.2 a second, 2 minutes left");
    }
}
