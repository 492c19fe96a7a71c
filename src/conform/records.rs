//! Records that are compared several times. They are read once, and then compared with one profile after another.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::kind::{Compared, Comparison, RecordFields, RecordKind};
use super::profiles::Profiles;
use super::read::{ConformError, Faults, each_line, parse};
use dryrack_control::Profile;

/// The records of several files, in order.
pub struct Records(Vec<Record>);

struct Record {
    file: PathBuf,
    line: u64,
    kind: &'static dyn RecordKind,
    fields: RecordFields,
}

/// The answers of one version that a profile reproduces.
pub struct Met<'r>(Vec<MetRecord<'r>>);

struct MetRecord<'r> {
    record: &'r Record,
    /// For each of the record's answers of that version, in order, whether the profile reproduces it.
    met: Vec<bool>,
}

impl Records {
    /// Reads the records of these files. An error comes with the path of its file.
    pub fn read(files: &[PathBuf]) -> Result<Records, (&Path, ConformError)> {
        let mut records = Vec::new();
        for file in files {
            let add = |line, text: &[u8]| {
                let (kind, fields) = parse(text)?;
                records.push(Record { file: file.clone(), line, kind, fields });
                Ok(())
            };
            each_line(file, add).map_err(|fault| (file.as_path(), fault))?;
        }
        Ok(Records(records))
    }

    /// Compares every answer of the version whose profile has this profile's name. An error comes with the path of its
    /// file.
    pub fn met_by(&self, profile: &Arc<Profile>) -> Result<Met<'_>, (&Path, ConformError)> {
        let own = || Profiles::own(Arc::clone(profile));
        let asked: Vec<_> = self.0.par_iter().map_init(own, |profiles, record| record.are_met(profiles)).collect();
        let mut met = Vec::new();
        for of_file in self.0.iter().zip(asked).collect::<Vec<_>>().chunk_by(|one, two| one.0.file == two.0.file) {
            let mut faults = Faults::default();
            for (record, asked) in of_file {
                match asked {
                    Err(text) if !faults.are_many() => faults.add(record.line, text.clone()),
                    Err(_) => {}
                    Ok(answers) if answers.contains(&true) => met.push(MetRecord { record, met: answers.clone() }),
                    Ok(_) => {}
                }
            }
            faults.into_result().map_err(|fault| (of_file[0].0.file.as_path(), fault))?;
        }
        Ok(Met(met))
    }
}

impl Met<'_> {
    /// Whether a variant of the profile with the same name also reproduces all of these answers. Stops at the first
    /// answer that it does not reproduce.
    pub fn are_met_by(&self, variant: &Arc<Profile>) -> bool {
        let mut profiles = Profiles::own(Arc::clone(variant));
        self.0.iter().all(|MetRecord { record, met }| {
            let answers = record.are_met(&mut profiles);
            answers.is_ok_and(|answers| met.iter().zip(answers).all(|(before, now)| now || !before))
        })
    }
}

impl Record {
    fn are_met(&self, profiles: &mut Profiles) -> Result<Vec<bool>, String> {
        let file = self.file.file_name().unwrap_or_default().to_string_lossy();
        let is_met = |compared: Compared| matches!(compared.result, Comparison::Asked(found) if found.is_empty());
        Ok(self.kind.compare(&self.fields, &file, profiles)?.into_iter().map(is_met).collect())
    }
}
