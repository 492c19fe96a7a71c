//! Shows the progress of long work, if stderr is a terminal.

use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use dryrack_engine::Progress;

/// Progress is shown only for work that takes longer than this.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the display is refreshed.
const EVERY: Duration = Duration::from_millis(200);
/// How often the display is drawn at most, however fast a bar moves.
const DRAWN_PER_SECOND: u8 = 5;

/// The terminal that shows the progress.
struct Audience {
    target: ProgressDrawTarget,
    patience: Duration,
}

fn audience() -> Option<Audience> {
    let looks = std::io::stderr().is_terminal();
    looks.then(|| Audience { target: ProgressDrawTarget::stderr_with_hz(DRAWN_PER_SECOND), patience: PATIENCE })
}

/// Does `work` with a progress bar. `work` advances the bar up to `most`; `what` names the things that are counted.
pub fn with_bar<T>((most, what): (u64, &str), work: impl FnOnce(&ProgressBar) -> T) -> T {
    let bar = ProgressBar::with_draw_target(Some(most), ProgressDrawTarget::hidden());
    bar.set_style(bar_style(what));
    shown(audience(), &bar, |bar| bar.tick(), work)
}

/// Does `work` of unknown length with a line of progress. `said` returns the current progress at any time.
pub fn with_line<T>(said: impl Fn() -> String + Sync, work: impl FnOnce() -> T) -> T {
    line(audience(), (said, || 0.0), work)
}

/// Does the `work` of a run with a line of progress: `said`, and what is known of the rate and the time left. `share` returns
/// which part is done, from 0 to 1.
pub fn with_share<T>(said: impl Fn() -> String + Sync, share: impl Fn() -> f64 + Sync, work: impl FnOnce() -> T) -> T {
    line(audience(), (said, share), work)
}

fn line<T>(
    audience: Option<Audience>,
    (said, share): (impl Fn() -> String + Sync, impl Fn() -> f64 + Sync),
    work: impl FnOnce() -> T,
) -> T {
    let bar = ProgressBar::with_draw_target(Some(WHOLE), ProgressDrawTarget::hidden());
    let style = with_rest("{said}, {elapsed}{rest}", |rate| {
        let percent = rate * 100.0 / WHOLE as f64;
        format!("{percent:.0$}% a second", if percent < 1.0 { 2 } else { 1 })
    });
    // A message of the bar would be drawn as soon as it is set, before the new position.
    let text = Arc::new(Mutex::new(String::new()));
    let drawn = Arc::clone(&text);
    bar.set_style(style.with_key("said", move |_: &ProgressState, out: &mut dyn Write| {
        let _infallible = out.write_str(&drawn.lock().unwrap_or_else(PoisonError::into_inner));
    }));
    let draw = |bar: &ProgressBar| {
        *text.lock().unwrap_or_else(PoisonError::into_inner) = said();
        advance(bar, (share() * WHOLE as f64) as u64);
    };
    shown(audience, &bar, draw, |_| work())
}

/// The length of a bar for a single piece of work, of which parts are done.
const WHOLE: u64 = 1_000_000;

/// Runs that are done one after another or at the same time.
#[derive(Default)]
pub struct RunCount {
    ended: AtomicU64,
    going: Mutex<Vec<Weak<Progress>>>,
}

impl RunCount {
    /// The progress of a run that begins. The run counts in part until this is dropped; [`RunCount::end`] then counts it as a
    /// whole.
    pub fn begin(&self) -> Arc<Progress> {
        let progress = Arc::new(Progress::default());
        self.going().push(Arc::downgrade(&progress));
        progress
    }

    pub fn end(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    fn going(&self) -> MutexGuard<'_, Vec<Weak<Progress>>> {
        self.going.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of runs that are done, in parts of a run.
    fn parts(&self) -> u64 {
        let mut going = self.going();
        going.retain(|run| run.strong_count() > 0);
        let share: f64 = going.iter().filter_map(Weak::upgrade).map(|run| run.share()).sum();
        self.ended.load(Ordering::Relaxed) * PARTS + (share * PARTS as f64) as u64
    }
}

/// The parts in which a run counts while it goes on.
const PARTS: u64 = 10_000;

/// Does `work` with a bar of its runs.
pub fn with_runs<T>(runs: u64, work: impl FnOnce(&RunCount) -> T) -> T {
    count_runs(audience(), runs, work)
}

fn count_runs<T>(audience: Option<Audience>, runs: u64, work: impl FnOnce(&RunCount) -> T) -> T {
    let bar = ProgressBar::with_draw_target(Some(runs * PARTS), ProgressDrawTarget::hidden());
    let template = "{wide_bar} {ended} runs, {elapsed}{rest}";
    let style = with_rest(template, |rate| per_time(rate / PARTS as f64));
    bar.set_style(style.with_key("ended", move |state: &ProgressState, out: &mut dyn Write| {
        let _infallible = write!(out, "{}/{runs}", state.pos() / PARTS);
    }));
    let count = RunCount::default();
    let draw = |bar: &ProgressBar| {
        // A run that has just ended counts neither in part nor as a whole for a moment.
        advance(bar, bar.position().max(count.parts()).min(runs * PARTS));
    };
    shown(audience, &bar, draw, |_| work(&count))
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
    with_rest(&template, per_time)
}

/// Sets the position of a bar that moves steadily, and draws it once. The rate leaves out the time before the first part is
/// done, in which files are read.
fn advance(bar: &ProgressBar, to: u64) {
    let begins = bar.position() == 0 && to > 0;
    bar.update(|state| state.set_pos(to));
    if begins {
        bar.reset_eta();
    }
}

/// A rate in the shortest unit of time in which it is not nearly 0.
fn per_time(per_second: f64) -> String {
    let units = [(1.0, "a second"), (60.0, "a minute"), (3600.0, "an hour")];
    let unit = units.iter().find(|(seconds, _)| per_second * seconds >= 0.1).unwrap_or(&units[2]);
    format!("{:.1} {}", per_second * unit.0, unit.1)
}

/// A style of which the key `rest` is the rate and the estimated time left. `rated` is the text of a number a second.
fn with_rest(template: &str, rated: impl Fn(f64) -> String + Clone + Send + Sync + 'static) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).expect("a valid template");
    style.with_key("rest", move |state: &ProgressState, out: &mut dyn Write| {
        let has_base = state.pos() * FEWEST_PARTS >= state.len().unwrap_or(u64::MAX);
        let left = if has_base { state.eta() } else { Duration::ZERO };
        let _infallible = write!(out, "{}", rest(&rated(state.per_sec()), left));
    })
}

/// The time left is not estimated before one of so many parts of the work is done.
const FEWEST_PARTS: u64 = 200;

/// The rate and the estimated time left; empty until the latter is known.
fn rest(rate: &str, left: Duration) -> String {
    if left.is_zero() {
        return String::new();
    }
    match left.as_secs() {
        0 => format!(", {rate}, less than a second left"),
        _ => format!(", {rate}, {} left", HumanDuration(left)),
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
        line(kept.audience(), (said, || 0.0), || {
            wait_for(&kept, "1d of the run");
            *at.lock().expect("nobody panics with it") = "2d";
            wait_for(&kept, "2d of the run");
        });
    }

    #[test]
    fn each_refresh_is_drawn_once() {
        let kept = CapturedTerm::default();
        let asked = AtomicU64::new(0);
        let said = || format!("look {} of", asked.fetch_add(1, Ordering::Relaxed));
        let share = || 0.1 * asked.load(Ordering::Relaxed) as f64;
        line(kept.audience(), (said, share), || wait_for(&kept, "look 3 of"));
        let drawn = |look: u64| kept.text().matches(&format!("look {look} of")).count();
        assert_eq!([0, 1, 2].map(drawn), [1, 1, 1], "{}", kept.text());
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
    fn a_run_says_what_is_left_once_a_part_is_done() {
        let kept = CapturedTerm::default();
        let part = Mutex::new(0.001);
        let share = || *part.lock().expect("nobody panics with it");
        line(kept.audience(), (|| format!("at {} of the run", share()), share), || {
            wait_for(&kept, "at 0.001 of the run, ");
            assert!(!kept.text().contains("left"), "{}", kept.text());
            *part.lock().expect("nobody panics with it") = 0.5;
            wait_for(&kept, "at 0.5 of the run, ");
            *part.lock().expect("nobody panics with it") = 0.6;
            wait_for(&kept, "% a second, ");
            wait_for(&kept, " left");
        });
    }

    #[test]
    fn a_run_in_progress_counts_in_part() {
        let kept = CapturedTerm::default();
        count_runs(kept.audience(), 3, |count| {
            count.end();
            wait_for(&kept, "1/3 runs, ");
            let progress = count.begin();
            assert!(progress.share() < f64::EPSILON && count.parts() == PARTS);
            count.end();
            wait_for(&kept, "2/3 runs, ");
        });
    }

    #[test]
    fn what_is_left_is_said_in_units_that_are_read() {
        assert_eq!(rest("0.0 a second", Duration::ZERO), "");
        assert_eq!(
            [2.5, 0.1, 0.05, 0.001].map(per_time),
            ["2.5 a second", "0.1 a second", "3.0 a minute", "3.6 an hour"]
        );
        assert_eq!(rest("0.2 a second", Duration::from_secs(120)), ", 0.2 a second, 2 minutes left");
    }
}
