//! How far it has come, where it takes longer than anyone likes to wait and somebody is looking.

use std::io::IsTerminal;
use std::sync::mpsc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// After this a bar is shown.
const PATIENCE: Duration = Duration::from_secs(2);

/// Does `work`, which counts its `runs` on the bar that it is handed.
pub fn with_bar<T>(runs: u64, work: impl FnOnce(&ProgressBar) -> T) -> T {
    let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::hidden());
    if !std::io::stderr().is_terminal() {
        return work(&bar);
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} runs").expect("a valid template");
    bar.set_style(style);
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
