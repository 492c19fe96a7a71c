//! Public models, one in each row of `models.csv`. The rows contain only facts from the models' published files.

use std::sync::LazyLock;

use serde::Serialize;

use super::kind::Category;
use super::row::{Row, rows};
use dryrack_units::Bytes;

/// A public model. A figure is `None` if no source states it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Model {
    /// The name on the Hugging Face hub: `Qwen/Qwen3-32B`.
    pub name: &'static str,
    pub category: Category,
    /// The entry `architectures[0]` of the model's config file.
    pub architecture: Option<&'static str>,
    pub layers: Option<u32>,
    pub hidden_size: Option<u32>,
    pub heads: Option<u32>,
    pub kv_heads: Option<u32>,
    /// The size of an attention head, if the config states it. It may differ from the hidden size divided by the number
    /// of heads.
    pub head_dim: Option<u32>,
    /// The number of tokens in the vocabulary.
    pub vocabulary: Option<u32>,
    /// The entry `max_position_embeddings` of the config file.
    pub context: Option<u32>,
    /// The type of the weights that are not quantized.
    pub dtype: Option<&'static str>,
    pub quantization: Option<&'static str>,
    pub parameters: Option<u64>,
    pub weights: Option<Weights>,
    /// The source of the weights, or the reason why there are none.
    pub weights_source: &'static str,
    /// The source of the other figures, which come from the model's config.
    pub source: &'static str,
    /// The date of the source, as YYYY-MM-DD.
    pub as_of: &'static str,
}

/// The total size of a model's weight files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weights {
    /// The size that a source states.
    Published(Bytes),
    /// The number of parameters times the size of their type. This leaves out the headers of the files, which are less
    /// than a ten-thousandth.
    Computed(Bytes),
}

impl Weights {
    pub fn bytes(self) -> Bytes {
        match self {
            Weights::Published(bytes) | Weights::Computed(bytes) => bytes,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Weights::Published(_) => "published",
            Weights::Computed(_) => "computed",
        }
    }
}

impl Model {
    /// The part of the name after the slash.
    pub fn short_name(&self) -> &'static str {
        self.name.split_once('/').map_or(self.name, |(_, short)| short)
    }
}

static MODELS: LazyLock<Vec<Model>> = LazyLock::new(|| {
    let file = include_str!("models.csv");
    rows("models.csv", file).map(model_from).collect()
});

/// All models, sorted by name without regard to case.
pub fn models() -> &'static [Model] {
    &MODELS
}

/// The model with this name on the hub, or with this name after the slash. Case is ignored, so `qwen3-32b` finds
/// `Qwen/Qwen3-32B`.
pub fn model(name: &str) -> Option<&'static Model> {
    models().iter().find(|model| [model.name, model.short_name()].iter().any(|known| known.eq_ignore_ascii_case(name)))
}

fn model_from(row: Row) -> Model {
    let said = |column| Some(row.text(column)).filter(|text| !text.is_empty());
    let weights = row.optional("weights").map(Bytes::new);
    Model {
        name: row.text("name"),
        category: row.required("category"),
        architecture: said("architecture"),
        layers: row.optional("layers"),
        hidden_size: row.optional("hidden_size"),
        heads: row.optional("heads"),
        kv_heads: row.optional("kv_heads"),
        head_dim: row.optional("head_dim"),
        vocabulary: row.optional("vocabulary"),
        context: row.optional("context"),
        dtype: said("dtype"),
        quantization: said("quantization"),
        parameters: row.optional("parameters"),
        weights: weights.map(|bytes| match row.text("weights_are") {
            "published" => Weights::Published(bytes),
            "computed" => Weights::Computed(bytes),
            other => panic!("{}: weights are `{other}`, neither published nor computed", row.place),
        }),
        weights_source: row.text("weights_source"),
        source: row.text("source"),
        as_of: row.text("as_of"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use dryrack_nearest::nearest;

    #[test]
    fn every_model_can_be_named_in_short_and_no_two_by_the_same_word() {
        let mut seen = BTreeSet::new();
        for model in models() {
            assert!(model.name.contains('/'), "{}", model.name);
            assert!(seen.insert(model.short_name().to_lowercase()), "{} is two models", model.short_name());
            assert_eq!(super::model(&model.short_name().to_lowercase()), Some(model));
        }
        assert!(models().len() >= 25);
        for pair in models().windows(2) {
            assert!(pair[0].name.to_lowercase() < pair[1].name.to_lowercase(), "{}", pair[1].name);
        }
    }

    #[test]
    fn figures_are_those_of_their_sources() {
        // The config and the index of Qwen/Qwen3-32B on the hub, as quoted by aiconfigurator 0.12.0 and open-lease.
        let qwen = model("qwen3-32b").unwrap();
        assert_eq!((qwen.heads, qwen.vocabulary, qwen.layers), (Some(64), Some(151_936), Some(64)));
        assert_eq!(qwen.weights, Some(Weights::Published(Bytes::new(65_524_246_528))));
        // GPUStack's own test states this sum of the file sizes on the hub.
        let deepseek = model("deepseek-ai/DeepSeek-R1").unwrap();
        assert_eq!(deepseek.weights, Some(Weights::Published(Bytes::new(688_586_727_753))));
    }

    #[test]
    fn what_is_computed_is_what_its_parameters_and_their_type_give() {
        for model in models() {
            let bytes = if model.dtype == Some("float32") { 4 } else { 2 };
            match model.weights {
                Some(Weights::Computed(weights)) => {
                    assert_eq!(Some(weights.get()), model.parameters.map(|count| count * bytes), "{}", model.name);
                    assert_eq!(model.quantization, None, "{}", model.name);
                }
                // If weights are not quantized, their published size must match the number of parameters, apart from
                // headers.
                Some(Weights::Published(weights)) if model.quantization.is_none() => {
                    let expected = model.parameters.unwrap() * bytes;
                    assert!(weights.get().abs_diff(expected) < expected / 10_000, "{}: {weights}", model.name);
                }
                Some(Weights::Published(_)) | None => {}
            }
            assert!(model.weights_source.len() >= 10 && model.source.len() >= 10, "{}", model.name);
        }
    }

    #[test]
    fn an_unknown_model_has_a_nearest_one() {
        let short = |word| nearest(word, models().iter().map(Model::short_name));
        assert_eq!(model("qwen3-33b"), None);
        assert_eq!(short("qwen3-33b"), Some("Qwen3-32B"));
    }
}
