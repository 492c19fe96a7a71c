//! The index of public traces: which traces exist, where they come from, and the checksums of their files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::{TraceError, nearest};
use super::format::Format;

/// The index that is compiled into the program: `traces/index.json` of the repository.
const BUILT_IN: &str = include_str!("index.json");

/// The known traces. Every name is unique and can safely be a part of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    #[serde(default)]
    pub about: String,
    pub traces: Vec<TraceEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceEntry {
    /// The name by which a scenario refers to the trace.
    pub name: String,
    /// The folder of the trace, relative to each place where traces are looked for.
    pub folder: String,
    pub format: Format,
    pub description: String,
    /// The address of the web page that presents the trace.
    pub source: String,
    pub licence: String,
    pub acknowledgement: String,
    pub columns: String,
    #[serde(default)]
    pub note: String,
    pub files: Vec<TraceFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceFile {
    /// The name of the uncompressed file. The file is stored under this name, or with `.gz` added.
    pub name: String,
    pub holds: TraceContent,
    /// The name by which a scenario refers to this list. If a scenario gives no name, the first list of the same kind
    /// is used.
    pub list: String,
    /// The addresses of the file, plain or gzip. They are tried in this order.
    pub addresses: Vec<String>,
    /// The size of the uncompressed content.
    pub bytes: u64,
    /// The checksum of the uncompressed content, in lowercase hexadecimal.
    pub sha256: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceContent {
    Tasks,
    Nodes,
    /// The GPU utilization over time.
    Utilization,
    /// GPU memory in use over time.
    Memory,
}

impl Index {
    /// The index that is compiled into the program.
    pub fn built_in() -> Index {
        Index::parse(Path::new("traces/index.json"), BUILT_IN.as_bytes())
            .unwrap_or_else(|fault| panic!("the built-in index of traces must be valid: {fault}"))
    }

    /// Reads an index of the same form from a file.
    pub fn read(path: &Path) -> Result<Index, TraceError> {
        let unopened = |source| TraceError::Unopened { file: path.to_path_buf(), source };
        Index::parse(path, &std::fs::read(path).map_err(unopened)?)
    }

    fn parse(file: &Path, text: &[u8]) -> Result<Index, TraceError> {
        let index: Index = serde_json::from_slice(text).map_err(|fault| bad_index(file, &fault))?;
        let mut names = BTreeSet::new();
        for entry in &index.traces {
            let problem = entry.problem().or_else(|| match names.insert(entry.name.as_str()) {
                true => None,
                false => Some("is listed twice".to_string()),
            });
            if let Some(problem) = problem {
                return Err(TraceError::BadEntry { file: file.to_path_buf(), trace: entry.name.clone(), problem });
            }
        }
        Ok(index)
    }

    pub fn trace(&self, name: &str) -> Result<&TraceEntry, TraceError> {
        self.traces.iter().find(|entry| entry.name == name).ok_or_else(|| {
            let names = self.traces.iter().map(|entry| entry.name.as_str());
            TraceError::UnknownTrace {
                name: name.to_string(),
                nearest: nearest(name, names.clone()),
                valid: names.collect::<Vec<_>>().join(", "),
            }
        })
    }
}

impl TraceEntry {
    /// The file of the task list named `list`, or of the first task list if `list` is `None`.
    pub fn tasks(&self, list: Option<&str>) -> Result<&TraceFile, TraceError> {
        self.list(TraceContent::Tasks, "list of tasks", list)
    }

    /// The file of the node list named `list`, or of the first node list if `list` is `None`.
    pub fn nodes(&self, list: Option<&str>) -> Result<&TraceFile, TraceError> {
        if self.of_kind(TraceContent::Nodes).next().is_none() {
            return Err(TraceError::NoNodes { trace: self.name.clone() });
        }
        self.list(TraceContent::Nodes, "list of nodes", list)
    }

    /// The file with the GPU utilization.
    pub fn utilization(&self) -> Result<&TraceFile, TraceError> {
        self.of_kind(TraceContent::Utilization).next().ok_or_else(|| TraceError::NoUsage { trace: self.name.clone() })
    }

    /// The file with the GPU memory, if there is one.
    pub fn memory(&self) -> Option<&TraceFile> {
        self.of_kind(TraceContent::Memory).next()
    }

    fn of_kind(&self, holds: TraceContent) -> impl Iterator<Item = &TraceFile> + Clone {
        self.files.iter().filter(move |file| file.holds == holds)
    }

    fn list(&self, holds: TraceContent, what: &'static str, list: Option<&str>) -> Result<&TraceFile, TraceError> {
        if holds == TraceContent::Tasks && self.of_kind(holds).next().is_none() {
            return Err(TraceError::NoTasks { trace: self.name.clone() });
        }
        let found = match list {
            None => self.of_kind(holds).next(),
            Some(name) => self.of_kind(holds).find(|file| file.list == name),
        };
        found.ok_or_else(|| {
            let names = self.of_kind(holds).map(|file| file.list.as_str());
            let name = list.unwrap_or("").to_string();
            let (nearest, valid) = (nearest(&name, names.clone()), names.collect::<Vec<_>>().join(", "));
            TraceError::UnknownList { trace: self.name.clone(), what, name, nearest, valid }
        })
    }

    /// Describes what is wrong with the values of this entry, if anything. The names must be checked because they
    /// become parts of paths, and an index may come from an untrusted source.
    fn problem(&self) -> Option<String> {
        let mut names = vec![&self.name, &self.folder];
        names.extend(self.files.iter().map(|file| &file.name));
        if let Some(name) = names.into_iter().find(|name| !is_plain_name(name)) {
            return Some(format!("`{name}` is not a name of letters, digits, `.`, `_` and `-`"));
        }
        if self.of_kind(TraceContent::Tasks).chain(self.of_kind(TraceContent::Utilization)).next().is_none() {
            return Some("no file contains tasks or GPU usage".to_string());
        }
        let mut seen = BTreeSet::new();
        for file in &self.files {
            if !seen.insert(&file.name) {
                return Some(format!("{} is listed twice", file.name));
            }
            if file.sha256.len() != 64 || !file.sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
                return Some(format!("the sha256 of {} is not 64 lower-case hexadecimal digits", file.name));
            }
            let web = |address: &String| address.starts_with("https://") || address.starts_with("http://");
            if let Some(address) = file.addresses.iter().find(|address| !web(address)) {
                return Some(format!("`{address}` does not begin with https:// or http://"));
            }
            if file.addresses.is_empty() {
                return Some(format!("{} has no address", file.name));
            }
        }
        None
    }
}

impl TraceFile {
    /// The names under which the file may be stored.
    pub(super) fn kept_names(&self) -> [String; 2] {
        [self.name.clone(), format!("{}.gz", self.name)]
    }

    /// The path of the file in `folder`, plain or compressed, if it exists.
    pub(super) fn found_in(&self, folder: &Path) -> Option<PathBuf> {
        self.kept_names().into_iter().map(|name| folder.join(name)).find(|path| path.is_file())
    }
}

fn is_plain_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    name.bytes().all(plain) && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

fn bad_index(file: &Path, fault: &serde_json::Error) -> TraceError {
    let message = fault.to_string();
    // serde_json ends its message with the position. Drop it, because the position is reported separately here.
    let problem = message.rsplit_once(" at line ").map_or(message.as_str(), |(problem, _)| problem).to_string();
    TraceError::BadIndex { file: file.to_path_buf(), line: fault.line(), column: fault.column(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_index_knows_gaia_and_all_lists_of_openb() {
        let index = Index::built_in();
        let gaia = index.trace("gaia").unwrap();
        assert_eq!((gaia.format, gaia.folder.as_str()), (Format::Swf, "unilu-gaia-2014"));
        let openb = index.trace("openb").unwrap();
        assert_eq!(openb.tasks(None).unwrap().list, "default");
        assert_eq!(openb.nodes(None).unwrap().list, "gpu_node");
        let lists: Vec<&str> = openb.of_kind(TraceContent::Tasks).map(|file| file.list.as_str()).collect();
        let expected = ["default", "cpu037", "cpu050", "cpu072", "cpu100", "cpu200", "cpu235", "cpu250", "cpu300"];
        assert_eq!(lists, expected);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let index = Index::built_in();
        let message = index.trace("opneb").unwrap_err().to_string();
        assert_eq!(message, "unknown trace `opneb`; did you mean `openb`?");
        let message = index.trace("philly").unwrap_err().to_string();
        assert_eq!(message, "unknown trace `philly`; expected one of gaia, openb, genai-2026");
        let message = index.trace("openb").unwrap().tasks(Some("cpu30")).unwrap_err().to_string();
        assert_eq!(message, "trace openb has no list of tasks `cpu30`; did you mean `cpu300`?");
        let message = index.trace("gaia").unwrap().nodes(None).unwrap_err().to_string();
        assert_eq!(message, "trace gaia contains no nodes");
    }

    #[test]
    fn an_index_from_elsewhere_cannot_name_a_path_or_an_option() {
        let change = |from: &str, to: &str| {
            let text = BUILT_IN.replacen(from, to, 1);
            assert_ne!(text, BUILT_IN, "{from}");
            Index::parse(Path::new("i.json"), text.as_bytes()).unwrap_err().to_string()
        };
        let plain = "is not a name of letters, digits, `.`, `_` and `-`";
        assert_eq!(change("unilu-gaia-2014\"", "../etc\""), format!("i.json: trace gaia: `../etc` {plain}"));
        assert_eq!(change("UniLu-Gaia-2014-2.swf\"", "-rf\""), format!("i.json: trace gaia: `-rf` {plain}"));
        assert_eq!(
            change("https://www.cs.huji.ac.il/labs/parallel/workload/l_unilu_gaia/UniLu", "--config=UniLu"),
            "i.json: trace gaia: `--config=UniLu-Gaia-2014-2.swf.gz` does not begin with https:// or http://"
        );
        assert_eq!(change("\"openb\"", "\"gaia\""), "i.json: trace gaia: is listed twice");
        let message = change("\"licence\"", "\"license\"");
        assert!(message.starts_with("i.json:10:") && message.contains("unknown field `license`"), "{message}");
    }
}
