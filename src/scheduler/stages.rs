//! How a profile states its stages: by name, or as expressions.
//!
//! ```yaml
//! order: [priority, {order: shorter_and_smaller, is: job.estimate * job.tasks}]
//! filters: [{stage: ready}, {filter: no_spot_for_gangs, unless: job.tasks > 1 && node.spot, because: spot_node}]
//! scorers: [{stage: pack, weight: 1}, {score: nvlink, is: "node.labels.nvlink == 'yes' ? 1 : 0", weight: 2}]
//! ```

use serde::de::Error;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::filter::FilterName;
use super::filter::{Exemption, FilterStage};
use super::order::OrderKey;
use super::own::{OwnFilter, OwnKey, OwnScorer};
use super::scorer::ScorerName;
use super::scorer::WeightedScorer;
use super::stage_name::StageName;

/// A stage by its name.
struct ByName<T>(T);

impl<'de, T: StageName> Deserialize<'de> for ByName<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByName<T>, D::Error> {
        let name = String::deserialize(deserializer)?;
        T::named(&name).map(ByName).ok_or_else(|| D::Error::unknown_variant(&name, T::NAMES))
    }
}

/// A custom filter in a list that has no built-in filters: for models and for offers.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a filter such as `{filter: no_spot, unless: node.spot, because: spot_node}`")]
struct WrittenOwn {
    filter: String,
    unless: String,
    because: String,
}

impl<'de> Deserialize<'de> for OwnFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OwnFilter, D::Error> {
        let WrittenOwn { filter, unless, because } = WrittenOwn::deserialize(deserializer)?;
        OwnFilter::of_expression(&filter, &unless, &because).map_err(D::Error::custom)
    }
}

impl Serialize for OwnFilter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let unless = self.text().ok_or_else(|| serde::ser::Error::custom("only an expression stands here"))?;
        let (filter, because) = (self.name().to_string(), self.because().name().to_string());
        WrittenOwn { filter, unless: unless.to_string(), because }.serialize(serializer)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a filter such as `{stage: labels}`")]
struct WrittenFilter {
    stage: Option<ByName<FilterName>>,
    filter: Option<String>,
    unless: Option<String>,
    because: Option<String>,
}

impl<'de> Deserialize<'de> for FilterStage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FilterStage, D::Error> {
        let written = WrittenFilter::deserialize(deserializer)?;
        match written {
            WrittenFilter { stage: Some(ByName(stage)), filter: None, unless, because: None } => {
                let unless = match unless.as_deref() {
                    None => None,
                    Some("picked_on_several_nodes") => Some(Exemption::PickedOnSeveralNodes),
                    Some(other) => return Err(D::Error::unknown_variant(other, &["picked_on_several_nodes"])),
                };
                Ok(FilterStage { stage, unless })
            }
            WrittenFilter { stage: None, filter: Some(name), unless: Some(unless), because: Some(because) } => {
                let own = OwnFilter::of_expression(&name, &unless, &because).map_err(D::Error::custom)?;
                Ok(FilterStage { stage: FilterName::Own(own), unless: None })
            }
            WrittenFilter { filter: Some(_), unless: None, .. } => Err(D::Error::missing_field("unless")),
            WrittenFilter { filter: Some(_), because: None, .. } => Err(D::Error::missing_field("because")),
            WrittenFilter { stage: None, filter: None, .. } => Err(D::Error::missing_field("stage")),
            WrittenFilter { stage: Some(_), .. } => {
                Err(D::Error::custom("a filter: a `stage` with a name, or a `filter` with `unless` and `because`"))
            }
        }
    }
}

impl Serialize for FilterStage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let FilterName::Own(own) = self.stage
            && own.text().is_some()
        {
            return own.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("stage", self.stage.name())?;
        if let Some(exemption) = self.unless {
            map.serialize_entry("unless", &exemption)?;
        }
        map.end()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a scorer such as `{stage: spread, weight: 1.0}`")]
struct WrittenScorer {
    stage: Option<ByName<ScorerName>>,
    score: Option<String>,
    is: Option<String>,
    weight: Option<f64>,
}

impl<'de> Deserialize<'de> for WeightedScorer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WeightedScorer, D::Error> {
        match WrittenScorer::deserialize(deserializer)? {
            WrittenScorer { stage: Some(ByName(stage)), score: None, is: None, weight } => {
                let weight = weight.ok_or_else(|| D::Error::missing_field("weight"))?;
                Ok(WeightedScorer { stage, weight })
            }
            WrittenScorer { stage: None, score: Some(name), is: Some(is), weight } => {
                let own = OwnScorer::of_expression(&name, &is).map_err(D::Error::custom)?;
                Ok(WeightedScorer { stage: ScorerName::Own(own), weight: weight.unwrap_or(1.0) })
            }
            WrittenScorer { score: Some(_), is: None, .. } => Err(D::Error::missing_field("is")),
            WrittenScorer { stage: None, score: None, .. } => Err(D::Error::missing_field("stage")),
            WrittenScorer { .. } => {
                Err(D::Error::custom("a scorer: a `stage` with a name, or a `score` with an expression in `is`"))
            }
        }
    }
}

impl Serialize for WeightedScorer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.stage {
            ScorerName::Own(own) if own.text().is_some() => {
                map.serialize_entry("score", own.name())?;
                map.serialize_entry("is", &own.text())?;
            }
            stage => map.serialize_entry("stage", stage.name())?,
        }
        map.serialize_entry("weight", &self.weight)?;
        map.end()
    }
}

/// A key of the order, stated as an expression.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenKey {
    order: String,
    is: String,
}

/// Reads a key: a name, or a map with an expression.
struct KeyVisitor;

impl<'de> serde::de::Visitor<'de> for KeyVisitor {
    type Value = OrderKey;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the name of a key, or `{order: NAME, is: EXPRESSION}`")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<OrderKey, E> {
        OrderKey::named(name).ok_or_else(|| E::unknown_variant(name, OrderKey::NAMES))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<OrderKey, A::Error> {
        let WrittenKey { order, is } = WrittenKey::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        OwnKey::of_expression(&order, &is).map(OrderKey::Own).map_err(A::Error::custom)
    }
}

impl<'de> Deserialize<'de> for OrderKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OrderKey, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

impl Serialize for OrderKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            OrderKey::Own(own) if own.text().is_some() => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("order", own.name())?;
                map.serialize_entry("is", &own.text())?;
                map.end()
            }
            key => serializer.serialize_str(key.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_of_a_stage_is_told_how_to_be_written() {
        let wrong = serde_json::from_str::<FilterStage>(r#""labels""#).expect_err("a name");
        assert!(wrong.to_string().contains("expected a filter such as `{stage: labels}`"), "{wrong}");
        let wrong = serde_json::from_str::<WeightedScorer>(r#""pack""#).expect_err("a name");
        assert!(wrong.to_string().contains("expected a scorer such as `{stage: spread, weight: 1.0}`"), "{wrong}");
    }
}
