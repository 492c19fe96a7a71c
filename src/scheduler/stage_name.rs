//! Names of stages in a profile.

/// A kind of stage whose stages have names in a profile.
pub(super) trait StageName: Sized {
    /// The names of all built-in stages. They are listed in the error about an unknown name.
    const NAMES: &'static [&'static str];

    /// The built-in stage with this name, or the stage that a program registered under it.
    fn named(name: &str) -> Option<Self>;
}
