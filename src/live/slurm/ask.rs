//! Runs Slurm's own commands, each with a deadline, and reads their answers.
//!
//! `squeue --json` of Slurm 22.05 lists every job that Slurm remembers, even with other options. In 22.05 `job_state`
//! is a word; in later releases it is a list of words. While a job runs, `gres_detail` states what it holds on each
//! node.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::super::clock::{Clock, Deadline};
use super::super::probe::{Command, Limits, Missing, Slurm, Snapshot, answer, gpu_indices, host_list, words};
use crate::probe::Probe;

/// A limit on the output in bytes. An answer about a hundred thousand jobs is shorter.
const MOST_BYTES: usize = 512 << 20;

/// The state of a Slurm job, simplified to what matters here (the states of `squeue`, Slurm 22.05).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Pending,
    /// The job has its nodes, which are being prepared.
    Configuring,
    /// The job is running, suspended or completing: it holds its nodes.
    Running,
    Completed,
    Failed,
    Cancelled,
    TimedOut,
    NodeFailed,
    Preempted,
}

impl Standing {
    pub fn is_over(self) -> bool {
        !matches!(self, Standing::Pending | Standing::Configuring | Standing::Running)
    }

    /// The state for these words of `squeue`; `None` if none of them is known.
    fn of(words: &[String]) -> Option<Standing> {
        let is = |word: &str| words.iter().any(|found| found == word);
        // The order matters: a job that still holds its nodes has not ended, even if other words say so.
        let table = [
            ("COMPLETING", Standing::Running),
            ("STAGE_OUT", Standing::Running),
            ("SIGNALING", Standing::Running),
            ("CONFIGURING", Standing::Configuring),
            ("REQUEUED", Standing::Pending),
            ("PENDING", Standing::Pending),
            ("RUNNING", Standing::Running),
            ("SUSPENDED", Standing::Running),
            ("STOPPED", Standing::Running),
            ("COMPLETED", Standing::Completed),
            ("FAILED", Standing::Failed),
            ("OUT_OF_MEMORY", Standing::Failed),
            ("REVOKED", Standing::Failed),
            ("CANCELLED", Standing::Cancelled),
            ("TIMEOUT", Standing::TimedOut),
            ("DEADLINE", Standing::TimedOut),
            ("NODE_FAIL", Standing::NodeFailed),
            ("BOOT_FAIL", Standing::NodeFailed),
            ("PREEMPTED", Standing::Preempted),
        ];
        table.into_iter().find(|(word, _)| is(word)).map(|(_, standing)| standing)
    }
}

/// A job as Slurm describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmJob {
    pub id: u64,
    pub comment: String,
    pub standing: Standing,
    /// Its nodes, each with the indices of the job's GPUs; `None` if Slurm does not state them.
    pub nodes: Vec<(String, Option<Vec<u16>>)>,
    /// The number of cores on each of its nodes, if Slurm states it.
    pub cores: BTreeMap<String, u32>,
}

/// Access to Slurm's commands. `within` is the time limit of each command.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    pub within: Duration,
}

impl Ask {
    /// Submits a job. Its environment is that of the dryrack process plus `environment`.
    pub fn submit(self, arguments: &[String], environment: &[(String, String)]) -> Result<u64, Missing> {
        let mut command = Command::new("sbatch").args(arguments).as_we_are();
        for (key, value) in environment {
            command = command.env(key, value);
        }
        let said = command.output(self.limits())?;
        // The answer is `12`, or `12;cluster` with several clusters.
        let id = said.trim().split(';').next().unwrap_or_default();
        id.parse().map_err(|_| Missing::malformed("sbatch", 1, "the number of a job", said.trim()))
    }

    /// The jobs that `is_own` accepts by their number and comment.
    pub fn jobs(self, is_own: impl Fn(u64, &str) -> bool) -> Result<Vec<SlurmJob>, Missing> {
        let said = Command::new("squeue").args(["--json", "--states=all"]).output(self.limits())?;
        read(&answer(&said, "squeue")?, is_own)
    }

    /// The nodes of the cluster, with their resources.
    pub fn nodes(self) -> Result<Snapshot, Missing> {
        Slurm::default().poll(&Clock::start(), Deadline::within(self.within))
    }

    /// The release of Slurm, such as `22.05.8`.
    pub fn release(self) -> Result<String, Missing> {
        let said = Command::new("sinfo").args(["--version"]).output(self.limits())?;
        // The answer is `slurm 22.05.8`, or `slurm-wlm 22.05.8` in Debian.
        Ok(said.split_ascii_whitespace().last().unwrap_or_default().to_string())
    }

    /// Cancels jobs. Slurm removes waiting jobs. It asks running jobs to stop, and kills them after its own `KillWait`.
    pub fn cancel(self, ids: &[u64]) {
        self.scancel(&[], ids.iter().map(u64::to_string).collect());
    }

    /// Sends SIGTERM to all processes of running jobs.
    pub fn terminate(self, ids: &[u64]) {
        self.scancel(&["--full", "--signal=TERM"], ids.iter().map(u64::to_string).collect());
    }

    /// Sends SIGKILL to the tasks that the script has started and to the script, but not to the job. Slurm would treat
    /// a signal to the job as a cancellation, which begins with SIGTERM and `KillWait`.
    pub fn kill(self, ids: &[u64]) {
        self.scancel(&[], ids.iter().map(|id| format!("{id}.0")).collect());
        self.scancel(&["--batch", "--signal=KILL"], ids.iter().map(u64::to_string).collect());
    }

    /// Runs `scancel` and ignores its answer. Slurm complains about jobs that have ended meanwhile, which is fine. The
    /// next poll shows every other failure.
    fn scancel(self, how: &[&str], whom: Vec<String>) {
        if !whom.is_empty() {
            let _unheard = Command::new("scancel").args(how.iter().copied()).args(whom).output(self.limits());
        }
    }

    fn limits(self) -> Limits {
        Limits { deadline: Deadline::within(self.within), most_bytes: MOST_BYTES }
    }
}

/// Reads the program's own jobs. Other jobs are skipped, even if they cannot be understood.
fn read(answer: &Value, is_own: impl Fn(u64, &str) -> bool) -> Result<Vec<SlurmJob>, Missing> {
    let wanted = |found: &Value| Missing::malformed("squeue", 1, "a list `jobs`", &found.to_string());
    let jobs = answer.get("jobs").and_then(Value::as_array).ok_or_else(|| wanted(answer))?;
    let is_own = |job: &&Value| {
        let comment = job["comment"].as_str().unwrap_or_default();
        job["job_id"].as_u64().is_none_or(|id| is_own(id, comment))
    };
    jobs.iter().filter(is_own).map(job).collect()
}

fn job(value: &Value) -> Result<SlurmJob, Missing> {
    let malformed = |expected: &str| Missing::malformed("squeue", 1, expected, &value["job_id"].to_string());
    let id = value["job_id"].as_u64().ok_or_else(|| malformed("the number of a job"))?;
    let state = words(value, "job_state");
    let standing = Standing::of(&state)
        .ok_or_else(|| Missing::malformed("squeue", 1, "a state of a job", &format!("{id}: {}", state.join(" "))))?;
    let text = |key: &str| value[key].as_str().unwrap_or_default();
    let details = value["gres_detail"].as_array().map(Vec::as_slice).unwrap_or_default();
    let gpus = |index: usize| details.get(index).and_then(Value::as_str).map(gpu_indices);
    let nodes = host_list(text("nodes")).into_iter().enumerate().map(|(index, name)| (name, gpus(index))).collect();
    Ok(SlurmJob { id, comment: text("comment").to_string(), standing, nodes, cores: cores(value) })
}

/// Reads `job_resources.allocated_nodes` in the form of 22.05: sockets, with the cores of each.
fn cores(value: &Value) -> BTreeMap<String, u32> {
    let nodes = value["job_resources"]["allocated_nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_node = |node: &Value| {
        let sockets = node["sockets"].as_object()?;
        let of_sockets = sockets.values().filter_map(|socket| socket["cores"].as_object());
        let cores: usize = of_sockets.map(|cores| cores.len()).sum();
        Some((node["nodename"].as_str()?.to_string(), u32::try_from(cores).ok()?))
    };
    nodes.iter().filter_map(of_node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(words: &[&str]) -> Option<Standing> {
        Standing::of(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>())
    }

    /// Each state that `squeue(1)` of Slurm 22.05 lists, in the section on job state codes.
    #[test]
    fn every_state_of_slurm_is_known() {
        for (word, expected) in [
            ("BOOT_FAIL", Standing::NodeFailed),
            ("CANCELLED", Standing::Cancelled),
            ("COMPLETED", Standing::Completed),
            ("CONFIGURING", Standing::Configuring),
            ("COMPLETING", Standing::Running),
            ("DEADLINE", Standing::TimedOut),
            ("FAILED", Standing::Failed),
            ("NODE_FAIL", Standing::NodeFailed),
            ("OUT_OF_MEMORY", Standing::Failed),
            ("PENDING", Standing::Pending),
            ("PREEMPTED", Standing::Preempted),
            ("RUNNING", Standing::Running),
            ("REVOKED", Standing::Failed),
            ("SIGNALING", Standing::Running),
            ("STAGE_OUT", Standing::Running),
            ("STOPPED", Standing::Running),
            ("SUSPENDED", Standing::Running),
            ("TIMEOUT", Standing::TimedOut),
        ] {
            assert_eq!(standing(&[word]), Some(expected), "{word}");
        }
        // A cancelled job that is still leaving its nodes.
        assert_eq!(standing(&["CANCELLED", "COMPLETING"]), Some(Standing::Running));
        assert_eq!(standing(&["NO_SUCH_STATE"]), None);
    }

    /// The answer of `squeue --json` of Slurm 22.05.8 about a gang of three tasks with a GPU each, shortened to the
    /// fields that are read.
    #[test]
    fn what_a_job_has_of_each_node_is_read() {
        let said = r#"{"jobs": [{"job_id": 2, "comment": "mine", "job_state": "RUNNING", "nodes": "n[3-4]",
            "gres_detail": ["gpu:2(IDX:0-1)", "gpu:1(IDX:0)"],
            "job_resources": {"allocated_nodes": [
              {"sockets": {"6": {"cores": {"0": "allocated"}}, "7": {"cores": {"0": "allocated"}}}, "nodename": "n3"},
              {"sockets": {"6": {"cores": {"0": "allocated"}}}, "nodename": "n4"}]}},
            {"job_id": 3, "comment": "", "job_state": ["FAILED"], "nodes": "n1", "gres_detail": []}]}"#;
        let jobs = read(&answer(said, "squeue").expect("JSON"), |_, _| true).expect("jobs");
        let nodes = [("n3".to_string(), Some(vec![0, 1])), ("n4".to_string(), Some(vec![0]))];
        assert_eq!(jobs[0].nodes, nodes);
        assert_eq!(jobs[0].cores, BTreeMap::from([("n3".to_string(), 2), ("n4".to_string(), 1)]));
        assert_eq!((jobs[0].id, jobs[0].comment.as_str(), jobs[0].standing), (2, "mine", Standing::Running));
        // Slurm states no GPUs for a job that has ended.
        assert_eq!((jobs[1].standing, &jobs[1].nodes[..]), (Standing::Failed, &[("n1".to_string(), None)][..]));
        for wrong in [r#"{"jobs": 1}"#, r#"{"jobs": [{"job_id": 1, "job_state": "ASLEEP"}]}"#, r#"{"jobs": [{}]}"#] {
            assert!(read(&answer(wrong, "squeue").expect("JSON"), |_, _| true).is_err(), "{wrong}");
        }
        let asleep = r#"{"jobs": [{"job_id": 1, "job_state": "ASLEEP"}]}"#;
        assert_eq!(read(&answer(asleep, "squeue").expect("JSON"), |id, _| id == 2), Ok(Vec::new()));
    }
}
