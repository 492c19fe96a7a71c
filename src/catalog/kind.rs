//! The closed sets of words in the catalog (vendors, operating systems, processor architectures and others), and
//! compute capability.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The error for a word that is not in a closed set. The text follows "failed to read …: ".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not {expected}")]
pub struct KindError {
    pub text: String,
    pub expected: &'static str,
}

macro_rules! kind {
    ($(#[$doc:meta])* $name:ident is $expected:literal { $($variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $(#[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// All words of the set, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }
        }

        impl FromStr for $name {
            type Err = KindError;
            fn from_str(text: &str) -> Result<$name, KindError> {
                match text {
                    $($word => Ok($name::$variant),)+
                    _ => Err(KindError { text: text.to_string(), expected: $expected }),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

kind! {
    /// The maker of a GPU.
    Vendor is "a vendor: nvidia, amd, ascend, apple, intel or tenstorrent" {
        Nvidia = "nvidia",
        Amd = "amd",
        Ascend = "ascend",
        Apple = "apple",
        Intel = "intel",
        Tenstorrent = "tenstorrent",
    }
}
kind! {
    /// The operating system of a machine. macOS is called `darwin`, as in the labels of schedulers.
    Os is "an operating system: linux, darwin or windows" {
        Linux = "linux",
        Darwin = "darwin",
        Windows = "windows",
    }
}
kind! {
    /// The architecture of a machine's processor.
    CpuArch is "a processor architecture: x86_64 or aarch64" {
        X86_64 = "x86_64",
        Aarch64 = "aarch64",
    }
}

kind! {
    /// The purpose of a model.
    Category is "what a model is for: llm, embedding, reranker or speech_to_text" {
        Llm = "llm",
        Embedding = "embedding",
        Reranker = "reranker",
        SpeechToText = "speech_to_text",
    }
}

kind! {
    /// A program that serves models.
    Server is "a program that serves models: vllm, sglang or llama_box" {
        Vllm = "vllm",
        Sglang = "sglang",
        LlamaBox = "llama_box",
    }
}

/// The compute capability of an NVIDIA GPU, such as 8.9. It determines which CUDA code the GPU can run. A GPU with a
/// higher value can run more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeCapability {
    pub major: u8,
    pub minor: u8,
}

impl FromStr for ComputeCapability {
    type Err = KindError;
    fn from_str(text: &str) -> Result<ComputeCapability, KindError> {
        let number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?;
        text.split_once('.')
            .and_then(|(major, minor)| Some(ComputeCapability { major: number(major)?, minor: number(minor)? }))
            .ok_or_else(|| KindError { text: text.to_string(), expected: "a compute capability such as 8.9" })
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.major, self.minor))
    }
}

impl Serialize for ComputeCapability {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ComputeCapability {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<ComputeCapability, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back_as_what_prints_it_in_text_and_in_json() {
        fn check<K: FromStr<Err = KindError> + fmt::Display + Serialize>(words: &[&str]) {
            for word in words {
                let kind: K = word.parse().unwrap();
                assert_eq!(kind.to_string(), *word);
                assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{word}\""));
            }
        }
        check::<Vendor>(Vendor::WORDS);
        check::<Os>(Os::WORDS);
        check::<CpuArch>(CpuArch::WORDS);
        check::<Category>(Category::WORDS);
        check::<Server>(Server::WORDS);
        check::<ComputeCapability>(&["8.9", "10.0"]);
    }

    #[test]
    fn a_word_outside_the_list_is_refused_by_name() {
        let error = "macos".parse::<Os>().unwrap_err();
        assert_eq!(error.to_string(), "`macos` is not an operating system: linux, darwin or windows");
        for wrong in ["", "8", "8.", ".9", "8.9.1", "+8.9", "8.x", "300.0"] {
            assert!(wrong.parse::<ComputeCapability>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn compute_capability_is_ordered_by_number_not_by_text() {
        let read = |text: &str| text.parse::<ComputeCapability>().unwrap();
        assert!(read("10.0") > read("9.0"));
    }
}
