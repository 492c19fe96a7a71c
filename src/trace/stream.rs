//! Reads a list of tasks in any format, one task at a time. Can recognize the format from the first line.

use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

use super::error::{Faults, TraceError};
use super::format::{Format, nearest_table, rows};
use super::row::TraceTask;
use super::rows::Rows;
use super::slurm::is_in_columns;
use super::text::{LINE_BYTES_MAX, lines_of, open_lines};

/// Iterates over the tasks of a file in the order of the file. An error in one row does not end the iteration.
pub struct TaskStream {
    pub format: Format,
    pub rows: Box<dyn Rows>,
}

impl TaskStream {
    /// Opens a file, plain or gzip. If `format` is `None`, recognizes the format from the first line.
    pub fn open(path: &Path, format: Option<Format>) -> Result<TaskStream, TraceError> {
        TaskStream::of(path, open_lines(path)?, format)
    }

    /// Reads from `input` like [`TaskStream::open`] reads from a file. `name` is the name of the input in error
    /// messages.
    pub fn read(name: &Path, input: impl Read + 'static, format: Option<Format>) -> Result<TaskStream, TraceError> {
        TaskStream::of(name, lines_of(name, input)?, format)
    }

    fn of(path: &Path, mut input: BufReader<Box<dyn Read>>, format: Option<Format>) -> Result<TaskStream, TraceError> {
        let mut first = Vec::new();
        let read = (&mut input).take(LINE_BYTES_MAX).read_until(b'\n', &mut first);
        read.map_err(|source| TraceError::Unreadable { file: path.to_path_buf(), line: 1, source })?;
        // A tar archive has a magic number at this position. The rest of an archive could look like any format, so only
        // the format that uses archives is accepted.
        let is_archive = first.get(257..262) == Some(b"ustar");
        if first.is_empty() {
            let expected = "a list of jobs, such as the output of sacct";
            return Err(TraceError::Empty { file: path.to_path_buf(), expected });
        }
        let format = format.or_else(|| Format::guess(&first)).filter(|format| !is_archive || format.is_archive());
        let format = format.ok_or_else(|| {
            let file = path.to_path_buf();
            match is_archive {
                true => TraceError::Archive { file },
                false if is_in_columns(&String::from_utf8_lossy(&first)) => TraceError::SacctColumns { file },
                false => {
                    let (valid, like) = (Format::ALL.map(Format::name).join(", "), nearest_table(&first));
                    TraceError::UnknownFormat { file, valid, like }
                }
            }
        })?;
        Ok(TaskStream { format, rows: rows(format, path, Cursor::new(first).chain(input))? })
    }

    /// Passes each task to `take` until a row is faulty. After that, it only collects further faults. All faults are
    /// reported together.
    pub fn each<E: From<TraceError>>(
        &mut self,
        file: &Path,
        mut take: impl FnMut(TraceTask) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut faults = Faults::default();
        for row in self.rows.by_ref() {
            match row {
                Err(fault) => faults.push(fault),
                Ok(task) if faults.is_empty() => take(task)?,
                Ok(_) => {}
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(E::from(TraceError::from_faults(file, faults))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_shows_in_the_first_line() {
        let rows: [(&str, Option<Format>); 13] = [
            ("; Version: 2.2\n", Some(Format::Swf)),
            ("  1 0 -1 5 2 -1 -1 2 60 -1 1 1 1 1 1 -1 -1 -1\n", Some(Format::Swf)),
            ("{\"job\":\"a\",\"submit_ns\":0,\"duration_ns\":1}\n", Some(Format::Jsonl)),
            ("timestamp,duration,num_gpus,gpu_time,cluster\r\n", Some(Format::Philly)),
            ("\u{feff}user,vc,jobname,gpu_num,state,submit_time,duration\n", Some(Format::Helios)),
            ("job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time\n", Some(Format::Helios)),
            ("job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n", Some(Format::Tiresias)),
            ("JobID|JobName|State\n", Some(Format::Sacct)),
            ("JobId=3 UserId=root(0) GroupId=root(0)\n", Some(Format::Jobcomp)),
            ("Net\tcd %s\t--steps\t0\t1000\t5.5\t1\n", Some(Format::Gavel)),
            ("1 2 3\n", None),
            ("a,b\n", None),
            ("", None),
        ];
        for (line, expected) in rows {
            assert_eq!(Format::guess(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn a_table_with_other_columns_is_told_what_it_lacks() {
        let told = |text: &str| {
            let input = Cursor::new(text.as_bytes().to_vec());
            let told = TaskStream::read(Path::new("jobs.txt"), input, None).err().expect("of no format").to_string();
            told.split_once("; it is most like ").map_or(String::new(), |(_, like)| like.to_string())
        };
        let rows = [
            (
                "job,submit,duration,gpus\n",
                "csv, but lacks the columns `submit_s`, `duration_s` (it has `submit`, `duration`)",
            ),
            ("job;submit_s;duration_s\n", "csv, whose columns are separated by `,`"),
            ("JobIDRaw|Submit|Start|End\n", "sacct, but lacks the column `JobID` (it has `JobIDRaw`)"),
            ("user,vc,gpus,state,submit_time,duration\n", "helios, but lacks the column `gpu_num`"),
            ("1 2 3\n", ""),
            ("a,b\n", ""),
        ];
        for (text, expected) in rows {
            assert_eq!(told(text), expected, "{text}");
        }
    }

    #[test]
    fn columns_of_sacct_are_told_from_other_texts() {
        let columns = "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n";
        let opened = |text: &str, format| {
            let input = Cursor::new(text.as_bytes().to_vec());
            TaskStream::read(Path::new("jobs.txt"), input, format).err().expect("not a list").to_string()
        };
        let wanted = "jobs.txt: its first line is of sacct's own columns; write the list with `sacct --parsable2`";
        for text in [columns, "------------ ---------- --- \n"] {
            assert_eq!(opened(text, None), wanted);
            assert_eq!(opened(text, Some(Format::Sacct)), wanted);
        }
        for text in ["1 2 3\n", "The State of the art\n", "Start,End State\n"] {
            assert!(opened(text, None).contains("of none of the formats"), "{text}");
        }
        assert!(opened("JobID|Start|End\n", Some(Format::Sacct)).contains("no column `Submit`"));
    }
}
