//! Finds the GPUs that an unknown name may mean, for error messages.
//!
//! A letter more or less makes another product of most GPUs: an A10 is no A100, and an H20 no H200. So spelling alone is no
//! reason to take one for the other. A name *may mean* a GPU if both have the same series, such as `h100` in
//! `nvidia_h100_nvl` and `h100-80g`, or if a long word is misspelled and every digit is the same. It is only *near* a GPU
//! of the same letters, such as `rtx` in `rtxpro6000` and `rtx-4090`.

use std::collections::BTreeSet;

use super::gpus;

/// The GPUs that are similar to a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimilarGpus<'a> {
    /// The GPUs that it may mean, in order of their names.
    pub meant: Vec<&'a str>,
    /// If there are none: the GPUs with which it has a word in common, the most similar first.
    pub near: Vec<&'a str>,
}

/// The largest number of near GPUs.
const MOST_NEAR: usize = 4;

/// Words of a product's name that many products have.
const MAKERS: [&str; 10] =
    ["nvidia", "tesla", "geforce", "quadro", "amd", "radeon", "instinct", "apple", "huawei", "intel"];

/// The shortest word that may have a wrong letter. In a shorter one, such as the `h` of `h100`, each letter tells products
/// apart.
const LONG_WORD: usize = 3;

/// The GPUs among `own`, the types of a file, and those of the catalog. If some of `own` may be meant, only these, unless
/// the name states a memory size that only others have.
pub fn similar_gpus<'a>(name: &str, own: impl IntoIterator<Item = &'a str>) -> SimilarGpus<'a> {
    let own: BTreeSet<&str> = own.into_iter().collect();
    let of_catalog = || gpus().iter().map(|model| model.name);
    let own_meant: Vec<&'a str> = own.iter().copied().filter(|gpu| may_mean(name, gpu)).collect();
    let known_meant: Vec<&'a str> = of_catalog().filter(|gpu| may_mean(name, gpu)).collect();
    let of_size = |meant: &[&'a str]| meant.iter().copied().filter(|gpu| has_same_size(name, gpu)).collect();
    let ways: [Vec<&'a str>; 4] = [of_size(&own_meant), of_size(&known_meant), own_meant, known_meant];
    let meant = ways.into_iter().find(|meant| !meant.is_empty()).unwrap_or_default();
    let near = if meant.is_empty() { near(name, own.into_iter().chain(of_catalog()).collect()) } else { Vec::new() };
    SimilarGpus { meant, near }
}

impl SimilarGpus<'_> {
    /// Such as ``did you mean `a100-40g` or `a100-80g`?`` or `the nearest names are rtx-3090, rtx-4080`. `None` if nothing is
    /// similar.
    pub fn hint(&self) -> Option<String> {
        let meant: Vec<String> = self.meant.iter().map(|gpu| format!("`{gpu}`")).collect();
        match (&meant[..], &self.near[..]) {
            ([], []) => None,
            ([], [one]) => Some(format!("the nearest name is {one}")),
            ([], near) => Some(format!("the nearest names are {}", near.join(", "))),
            (meant, _) => Some(format!("did you mean {}?", meant.join(" or "))),
        }
    }
}

/// A word of letters and the number after it: `h` and `100`.
type Series = (String, String);

/// The words of a name, without those of makers. In a word that has a digit, an O is the digit 0, as in `h10O`.
fn words(name: &str) -> Vec<String> {
    let lower = name.to_ascii_lowercase();
    let words = lower.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.filter(|word| !MAKERS.contains(word)).map(with_zeros).collect()
}

/// The word with a 0 for each O that follows a digit.
fn with_zeros(word: &str) -> String {
    let mut text = String::new();
    for letter in word.chars() {
        let follows = text.ends_with(|last: char| last.is_ascii_digit());
        text.push(if letter == 'o' && follows { '0' } else { letter });
    }
    text
}

/// The series that a name may name. The letters may be words of their own, as in `rtx-4090`. A memory size is none.
fn series(name: &str) -> Vec<Series> {
    let mut found = Vec::new();
    let mut before = String::new();
    for word in words(name) {
        if memory_of(&word).is_some() {
            continue;
        }
        match word.find(|letter: char| letter.is_ascii_digit()) {
            None => before.push_str(&word),
            Some(at) => {
                let (letters, rest) = word.split_at(at);
                let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
                let letters = if letters.is_empty() { std::mem::take(&mut before) } else { letters.to_string() };
                found.push((letters, rest[..end].to_string()));
                before.clear();
            }
        }
    }
    found
}

/// The GiB of a word such as `80gb` or `80g`, also of `80gg`.
fn memory_of(word: &str) -> Option<u32> {
    let (digits, unit) = word.split_at(word.find(|letter: char| !letter.is_ascii_digit())?);
    let is_unit = unit.starts_with('g') && unit.chars().all(|letter| "gib".contains(letter));
    digits.parse().ok().filter(|_| is_unit)
}

/// The GiB of memory that a name states with a unit, such as the 48 of `dragon-48gb`.
pub fn stated_memory(name: &str) -> Option<u32> {
    words(name).iter().find_map(|word| memory_of(word))
}

/// Whether both names state nearly the same memory size. The size may lack its unit, as in `a100_40`.
fn has_same_size(name: &str, gpu: &str) -> bool {
    let without_unit = || {
        let words = words(name);
        let is_number = |word: &str| word.bytes().all(|letter| letter.is_ascii_digit());
        let of_pair = |pair: &[String]| {
            let ends_series = pair[0].contains(|letter: char| letter.is_ascii_digit()) && !is_number(&pair[0]);
            if ends_series && is_number(&pair[1]) { pair[1].parse().ok() } else { None }
        };
        words.windows(2).find_map(of_pair)
    };
    let size = stated_memory(name).or_else(without_unit);
    size.zip(stated_memory(gpu)).is_some_and(|(one, other): (u32, u32)| one.abs_diff(other) <= 1)
}

/// Whether a name may mean this GPU.
fn may_mean(name: &str, gpu: &str) -> bool {
    let named = series(name);
    match series(gpu).first() {
        Some(own) => named.iter().any(|series| is_same(series, own)) || begins(name, gpu),
        None => named.is_empty() && is_misspelled(&words(name).concat(), &words(gpu).concat()),
    }
}

/// Whether two series are the same product, although one may be misspelled.
fn is_same((letters, number): &Series, (own_letters, own_number): &Series) -> bool {
    let is_word = letters == own_letters || is_misspelled(letters, own_letters);
    // `4090` alone.
    let is_bare = letters.is_empty() && number.len() >= 4;
    let is_swapped = || number.len() >= 4 && is_one_swap(number, own_number);
    (is_word || is_bare) && (number == own_number || is_swapped())
}

/// Whether a long word has one letter wrong, missing, too many or swapped.
fn is_misspelled(word: &str, own: &str) -> bool {
    word.len().min(own.len()) >= LONG_WORD && strsim::osa_distance(word, own) <= 1
}

fn is_one_swap(number: &str, own: &str) -> bool {
    let sorted = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    number != own && sorted(number) == sorted(own) && strsim::osa_distance(number, own) == 1
}

/// Whether a name without a number is the beginning of a GPU's name, such as `ascend` of `ascend-910b`.
fn begins(name: &str, gpu: &str) -> bool {
    let name = words(name).concat();
    name.len() >= LONG_WORD && gpu.split(|letter: char| !letter.is_ascii_alphabetic()).next() == Some(&name)
}

/// The GPUs whose series has the same letters, or begins with the same three, those with the nearest spelling first.
fn near<'a>(name: &str, all: BTreeSet<&'a str>) -> Vec<&'a str> {
    let without_memory =
        |name: &str| words(name).into_iter().filter(|word| memory_of(word).is_none()).collect::<String>();
    let (named, text) = (series(name), without_memory(name));
    let common =
        |one: &str, other: &str| one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    let agrees = |(letters, _): &Series, own: &str| letters == own || common(letters, own) >= LONG_WORD;
    let rank = |gpu: &'a str| {
        let own = series(gpu);
        let (own, _) = own.first()?;
        let is_near = named.iter().any(|series| !series.0.is_empty() && agrees(series, own));
        is_near.then(|| (strsim::osa_distance(&text, &without_memory(gpu)), gpu))
    };
    let mut ranked: Vec<(usize, &str)> = all.into_iter().filter_map(rank).collect();
    ranked.sort_unstable();
    ranked.into_iter().take(MOST_NEAR).map(|(_, gpu)| gpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The products are those of the makers: an H100 NVL is an H100, but an A30, an A40, an H20, a B100 and an RTX PRO
    /// 6000 are none of the GPUs of the catalog.
    #[test]
    fn another_product_is_never_taken_for_a_gpu_that_is_spelled_similarly() {
        let rows: [(&str, &[&str]); 35] = [
            ("h100_nvl", &["h100-80g"]),
            ("nvidia_h100_nvl", &["h100-80g"]),
            ("H100-SXM", &["h100-80g"]),
            ("h100pcie", &["h100-80g"]),
            ("h10O", &["h100-80g"]),
            ("a100_x", &["a100-40g", "a100-80g"]),
            ("a100-81g", &["a100-80g"]),
            ("a100-80gg", &["a100-80g"]),
            ("h100-80", &["h100-80g"]),
            ("a100_40", &["a100-40g"]),
            ("NVIDIA A100 80", &["a100-80g"]),
            ("a100_8", &["a100-40g", "a100-80g"]),
            ("a100-40gb", &["a100-40g"]),
            ("rtx_4090_d", &["rtx-4090"]),
            ("4090", &["rtx-4090"]),
            ("rtx-4900", &["rtx-4090"]),
            ("rxt4090", &["rtx-4090"]),
            ("rtx-3090-ti", &["rtx-3090"]),
            ("ascend", &["ascend-910b"]),
            ("Ascned 910B", &["ascend-910b"]),
            ("l40", &["l40s"]),
            ("mi300a", &["mi300x"]),
            ("rtxpro6000", &[]),
            ("rtx-pro-6000", &[]),
            ("rtxa6000", &[]),
            ("a30", &[]),
            ("a40", &[]),
            ("h20", &[]),
            ("b100", &[]),
            ("l5", &[]),
            ("gtx-1080-ti", &[]),
            ("mi250x", &[]),
            ("fastest", &[]),
            ("100", &[]),
            ("", &[]),
        ];
        for (name, expected) in rows {
            assert_eq!(similar_gpus(name, []).meant, expected, "{name}");
        }
    }

    #[test]
    fn what_no_gpu_may_be_is_answered_with_the_gpus_of_its_letters() {
        let rows = [
            ("rtxpro6000", Some("the nearest names are rtx-3090, rtx-4080, rtx-4090")),
            ("h20", Some("the nearest names are h200-141g, h100-80g")),
            ("a30", Some("the nearest names are a10, a100-40g, a100-80g")),
            ("l5", Some("the nearest names are l4, l40s")),
            ("mi250x", Some("the nearest name is mi300x")),
            ("a100_x", Some("did you mean `a100-40g` or `a100-80g`?")),
            ("fastest", None),
            ("1e3", None),
        ];
        for (name, expected) in rows {
            assert_eq!(similar_gpus(name, []).hint().as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn the_types_of_a_file_come_first() {
        assert_eq!(similar_gpus("a100_x", ["a100-80g", "l4"]).meant, ["a100-80g"]);
        assert_eq!(similar_gpus("a100_80", ["a100-80g", "l4"]).meant, ["a100-80g"]);
        assert_eq!(similar_gpus("a100_40", ["a100-80g", "l4"]).meant, ["a100-40g"], "these have less memory");
        assert_eq!(similar_gpus("a100_60", ["a100-80g", "l4"]).meant, ["a100-80g"], "no A100 has this memory");
        assert_eq!(similar_gpus("fast-gup", ["fast-gpu"]).meant, ["fast-gpu"]);
        assert_eq!(similar_gpus("rtxpro6000", ["rtxpro5000"]).near, ["rtxpro5000", "rtx-3090", "rtx-4080", "rtx-4090"]);
    }
}
