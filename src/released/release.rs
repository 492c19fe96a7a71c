//! The releases that can be installed, and their lock files.

use std::fmt;
use std::sync::LazyLock;

use crate::ReleasedError;

const RELEASES: &str = include_str!("locks/releases.txt");
const BASES: [(&str, &str); 5] = [
    ("gpustack-0", include_str!("locks/gpustack-0.txt")),
    ("gpustack-2", include_str!("locks/gpustack-2.txt")),
    ("dstack-1", include_str!("locks/dstack-1.txt")),
    ("dstack-2", include_str!("locks/dstack-2.txt")),
    ("ray-2", include_str!("locks/ray-2.txt")),
];

/// A release of a scheduler with its locked packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The name of the program, which is also the name of its package.
    pub program: &'static str,
    pub version: &'static str,
    /// The name of the base that it uses.
    pub base: &'static str,
    /// The packages that only this release needs, in the format of pip's requirements.
    pub(crate) lock: &'static str,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=={}", self.program, self.version)
    }
}

/// All releases, grouped by program, the oldest first.
pub fn releases() -> &'static [Release] {
    static ALL: LazyLock<Vec<Release>> = LazyLock::new(|| parse(RELEASES));
    &ALL
}

/// The programs that have at least one release.
pub fn programs() -> Vec<&'static str> {
    let mut names: Vec<&str> = releases().iter().map(|release| release.program).collect();
    names.dedup();
    names
}

/// Reads sections such as `[gpustack 0.6.0 on gpustack-0]`, each followed by its packages. The file is embedded, so an
/// error in it is a bug of dryrack.
fn parse(text: &'static str) -> Vec<Release> {
    let sections = text.split("[").skip(1);
    let mut all: Vec<Release> = sections
        .map(|section| {
            let (head, lock) = section.split_once("]\n").expect("a head ends with a bracket");
            let words: Vec<&str> = head.split(' ').collect();
            let [program, version, "on", base] = words[..] else { panic!("no head of a release: [{head}]") };
            Release { program, version, base, lock }
        })
        .collect();
    all.sort_by_key(|release| (release.program, numbers(release.version)));
    all
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().expect("a version of numbers")).collect()
}

impl Release {
    /// The release with a name such as `gpustack==0.6.0`.
    pub fn named(name: &str) -> Result<Release, ReleasedError> {
        let (program, version) = match name.split_once("==") {
            Some((program, version)) => (program.trim(), Some(version.trim())),
            None => (name.trim(), None),
        };
        let of_program: Vec<&Release> = releases().iter().filter(|release| release.program == program).collect();
        if of_program.is_empty() {
            let hint = dryrack_nearest::hint(program, programs());
            return Err(ReleasedError::UnknownProgram { name: program.to_string(), hint });
        }
        let newest = of_program[of_program.len() - 1];
        let Some(version) = version else {
            return Err(ReleasedError::NoVersion { name: program.to_string(), newest: newest.to_string() });
        };
        match of_program.iter().find(|release| release.version == version) {
            Some(release) => Ok((*release).clone()),
            None => Err(ReleasedError::UnknownRelease {
                name: format!("{program}=={version}"),
                nearest: near_version(version, &of_program).to_string(),
                first: of_program[0].version.to_string(),
                last: newest.version.to_string(),
            }),
        }
    }

    /// The packages of the base, in the format of pip's requirements.
    pub(crate) fn base_lock(&self) -> &'static str {
        let found = BASES.iter().find(|(name, _)| *name == self.base);
        found.map(|(_, lock)| *lock).expect("each release names a base that is carried")
    }
}

/// The release with the nearest version number; on a tie, the older one.
fn near_version<'a>(version: &str, of_program: &[&'a Release]) -> &'a Release {
    let wanted: Vec<i64> = version.split('.').map(|part| part.parse().unwrap_or(0)).collect();
    let distance = |release: &Release| -> Vec<i64> {
        let have = numbers(release.version);
        let longest = wanted.len().max(have.len());
        let at = |place: usize| wanted.get(place).copied().unwrap_or(0);
        (0..longest).map(|place| (at(place) - have.get(place).map_or(0, |&part| i64::from(part))).abs()).collect()
    };
    of_program.iter().min_by_key(|release| distance(release)).expect("a program has a release")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_release_has_its_own_package_pinned_and_a_base() {
        for release in releases() {
            let own = format!("{release} --hash=sha256:");
            assert!(release.lock.starts_with(&own), "{release}: {}", release.lock);
            assert!(!release.base_lock().is_empty());
        }
    }

    #[test]
    fn each_package_is_pinned_to_a_version_and_its_sums() {
        let locks = BASES.iter().map(|(_, lock)| *lock).chain(releases().iter().map(|release| release.lock));
        for line in locks.flat_map(str::lines).filter(|line| !line.is_empty()) {
            let (package, sums) = line.split_once(" --hash=sha256:").expect(line);
            assert!(package.split_once("==").is_some_and(|(_, version)| !version.contains('*')), "{line}");
            for sum in sums.split(" --hash=sha256:") {
                assert!(sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
            }
        }
    }

    #[test]
    fn versions_are_in_the_order_of_their_numbers() {
        let of = |program: &str| -> Vec<&str> {
            releases().iter().filter(|release| release.program == program).map(|release| release.version).collect()
        };
        let gpustack = of("gpustack");
        assert_eq!((gpustack[0], gpustack[gpustack.len() - 1]), ("0.6.0", "2.3.0"));
        let place = |version: &str| of("dstack").iter().position(|known| *known == version);
        assert!(place("0.19.9") < place("0.19.10"));
    }

    #[test]
    fn what_cannot_be_meant_is_said_with_what_could_be() {
        let rows = [
            (
                "gpustack==0.6.9",
                "there is no release gpustack==0.6.9 between 0.6.0 and 2.3.0; the nearest is gpustack==0.6.2",
            ),
            ("gpustck==0.6.0", "no program is named gpustck; did you mean `gpustack`?"),
            ("gpustack", "name a release of gpustack, such as `gpustack==2.3.0`"),
            (
                "gpustack==new",
                "there is no release gpustack==new between 0.6.0 and 2.3.0; the nearest is gpustack==0.6.0",
            ),
        ];
        for (name, said) in rows {
            assert_eq!(Release::named(name).expect_err(name).to_string(), said);
        }
    }
}
