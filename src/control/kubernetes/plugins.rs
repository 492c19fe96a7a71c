//! A set of plugins.

use dryrack_kubernetes::cycle::Plugin;

/// The plugins that refused a pod, or to which an event matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Plugins(u16);

impl Plugins {
    pub const fn of(plugins: &[Plugin]) -> Plugins {
        let mut bits = 0;
        let mut place = 0;
        while place < plugins.len() {
            bits |= 1 << plugins[place] as u16;
            place += 1;
        }
        Plugins(bits)
    }

    pub fn iter(self) -> impl Iterator<Item = Plugin> {
        Plugin::ALL.into_iter().filter(move |plugin| self.0 & 1 << *plugin as u16 != 0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn meets(self, other: Plugins) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether this plugin is the only one in both sets.
    pub fn meets_only(self, other: Plugins, plugin: Plugin) -> bool {
        self.0 & other.0 == 1 << plugin as u16
    }
}

impl FromIterator<Plugin> for Plugins {
    fn from_iter<I: IntoIterator<Item = Plugin>>(plugins: I) -> Plugins {
        Plugins(plugins.into_iter().fold(0, |bits, plugin| bits | 1 << plugin as u16))
    }
}
