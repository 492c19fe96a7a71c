//! Which plugins a profile can list as filters or as scorers. The others have neither.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::pairs;
use super::verdict::Plugin;

macro_rules! plugins {
    ($(#[$doc:meta])* $name:ident: $($plugin:ident)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
        pub enum $name {
            $($plugin,)*
        }

        impl From<$name> for Plugin {
            fn from(plugin: $name) -> Plugin {
                match plugin {
                    $($name::$plugin => Plugin::$plugin,)*
                }
            }
        }
    };
}

plugins! {
    /// A plugin that filters nodes.
    FilterPlugin: NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit PodTopologySpread
        InterPodAffinity DynamicResources
}

plugins! {
    /// A plugin that scores nodes.
    ScorePlugin: TaintToleration NodeAffinity NodeResourcesFit PodTopologySpread InterPodAffinity DynamicResources
        NodeResourcesBalancedAllocation ImageLocality
}

pub(super) fn filters<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Plugin>, D::Error> {
    Ok(Vec::<FilterPlugin>::deserialize(deserializer)?.into_iter().map(Plugin::from).collect())
}

pub(super) fn scorers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(Plugin, i64)>, D::Error> {
    let read: Vec<(ScorePlugin, i64)> = pairs::deserialize(deserializer)?;
    Ok(read.into_iter().map(|(plugin, weight)| (plugin.into(), weight)).collect())
}
