//! MIG profiles: the sizes of the instances into which NVIDIA's GPUs can be divided.
//!
//! Source: NVIDIA, *MIG User Guide*, tables of supported profiles. A whole GPU has seven compute slices.

/// A profile. `per_gpu` is the number of instances on a GPU that has only instances of this profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigProfile {
    pub name: &'static str,
    /// The number of compute slices. A whole GPU has seven.
    pub compute_slices: u32,
    pub memory_gib: u32,
    pub per_gpu: u32,
}

const fn profile(name: &'static str, compute_slices: u32, memory_gib: u32, per_gpu: u32) -> MigProfile {
    MigProfile { name, compute_slices, memory_gib, per_gpu }
}

/// The profiles of the A100 (40 and 80 GB), of the H100 (80 GB) and of the H200, in this order. A profile that several
/// of these GPUs have is listed once.
const PROFILES: [MigProfile; 14] = [
    profile("1g.5gb", 1, 5, 7),
    profile("1g.10gb", 1, 10, 7),
    profile("2g.10gb", 2, 10, 3),
    profile("3g.20gb", 3, 20, 2),
    profile("7g.40gb", 7, 40, 1),
    profile("1g.20gb", 1, 20, 4),
    profile("2g.20gb", 2, 20, 3),
    profile("3g.40gb", 3, 40, 2),
    profile("7g.80gb", 7, 80, 1),
    profile("1g.18gb", 1, 18, 7),
    profile("1g.35gb", 1, 35, 4),
    profile("2g.35gb", 2, 35, 3),
    profile("3g.71gb", 3, 70, 2),
    profile("7g.141gb", 7, 141, 1),
];

pub fn mig_profiles() -> &'static [MigProfile] {
    &PROFILES
}

/// The profile at the end of the name of a GPU, such as `1g.5gb` of `a100_1g.5gb`: Slurm calls instances so. The name of a profile
/// that is not in the list has its form.
pub fn mig_part(name: &str) -> Option<&str> {
    let start = name.rfind(['_', '-', ':']).map_or(0, |at| at + 1);
    let part = name.get(start..)?;
    let (slices, memory) = part.split_once("g.")?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    (is_number(slices) && is_number(memory.strip_suffix("gb")?)).then_some(part)
}

pub fn mig_profile(name: &str) -> Option<&'static MigProfile> {
    PROFILES.iter().find(|known| known.name == name)
}
