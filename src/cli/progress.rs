//! How far it has come, where it takes longer than anyone likes to wait and somebody is looking.

use std::io::IsTerminal;
use std::sync::mpsc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// After this a bar is shown.
const PATIENCE: Duration = Duration::from_secs(2);

/// Does `work`, which counts on the bar that it is handed, up to so many of what is named.
pub fn with_bar<T>((most, what): (u64, &str), work: impl FnOnce(&ProgressBar) -> T) -> T {
    let bar = ProgressBar::with_draw_target(Some(most), ProgressDrawTarget::hidden());
    if !std::io::stderr().is_terminal() {
        return work(&bar);
    }
    bar.set_style(style(what));
    let (done, is_done) = mpsc::channel::<()>();
    let result = std::thread::scope(|scope| {
        let bar = &bar;
        scope.spawn(move || {
            // Dropped when the work is done, or ended by a panic.
            if is_done.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                bar.set_draw_target(ProgressDrawTarget::stderr());
                bar.tick();
            }
        });
        let result = work(bar);
        drop(done);
        result
    });
    bar.finish_and_clear();
    result
}

/// The bar, how far it has come, how fast, and how long it will take if it goes on so.
fn style(what: &str) -> ProgressStyle {
    let template = format!("{{wide_bar}} {{pos}}/{{len}} {what}, {{per_sec}}, {{eta}} left");
    ProgressStyle::with_template(&template).expect("a valid template")
}

/// So many were done before: they count for how far it has come, and not for how fast.
pub fn begin_at(bar: &ProgressBar, done: u64) {
    bar.set_position(done);
    bar.reset_eta();
}
