//! Where the kube-scheduler of the trials is.

use std::path::PathBuf;

/// The program that is named, or the one that `.ci/kube-scheduler` built.
pub fn find() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cached = || {
        let cache = named("DRYRACK_CACHE")
            .or_else(|| named("XDG_CACHE_HOME").map(|cache| cache.join("dryrack")))
            .or_else(|| named("HOME").map(|home| home.join(".cache/dryrack")))?;
        Some(cache.join("kube-scheduler-1.20.2/kube-scheduler"))
    };
    named("DRYRACK_KUBE_SCHEDULER").or_else(cached).filter(|path| path.is_file())
}
