//! One job of Slurm, as one row of a file states it.

use dryrack_units::{GpuShare, MilliCpu, SimDuration, SimTime};

use super::row::{Outcome, RunBasis, TraceTask};
use super::rows::RowResult;
use super::slurm_resources::{gres, known, requested_memory, tres};
use super::tally::{Oddities, Oddity};

/// The record of one job, as written in either file.
#[derive(Default)]
pub(super) struct Job<'l> {
    pub(super) id: &'l str,
    pub(super) name: &'l str,
    pub(super) submit: &'l str,
    pub(super) eligible: &'l str,
    pub(super) start: &'l str,
    pub(super) end: &'l str,
    pub(super) elapsed: &'l str,
    pub(super) state: &'l str,
    pub(super) cpus: &'l str,
    /// The processors that the job was given.
    pub(super) allocated: &'l str,
    pub(super) memory: &'l str,
    /// The trackable resources that the job was given or requested.
    pub(super) resources: &'l str,
    /// The generic resources, as releases before 20.11 wrote them. They count if the trackable ones have no GPU.
    pub(super) gres: &'l str,
    pub(super) nodes: &'l str,
    pub(super) limit: &'l str,
    pub(super) partition: &'l str,
    /// The numeric id of the user.
    pub(super) user: Option<u64>,
    pub(super) user_name: &'l str,
    pub(super) account: &'l str,
    pub(super) qos: &'l str,
}

/// Why a job cannot be read: what was expected, and the text of the row that was found instead.
pub(super) struct BadJob<'l>(pub(super) &'static str, pub(super) &'l str);

impl<'l> Job<'l> {
    pub(super) fn task(&self, line: u64) -> Result<RowResult, BadJob<'l>> {
        if self.id.contains('.') {
            return Ok(Err(Oddity::PartOfJobBefore));
        }
        let wrong = |expected: &'static str, text: &'l str| BadJob(expected, text);
        let time = |text: &'l str| match known(text) {
            None => Ok(None),
            Some(text) => dryrack_units::date::parse(text)
                .map(Some)
                .ok_or_else(|| wrong("a date such as 2026-11-21T17:10:25", text)),
        };
        if self.id.is_empty() {
            return Err(wrong("the number of a job", self.id));
        }
        let [submit, eligible, start, end] = [self.submit, self.eligible, self.start, self.end].map(time);
        let (submit, eligible, start, end) = (submit?, eligible?, start?, end?);
        let outcome = outcome(self.state);
        let Some(submit) = submit else { return Ok(Err(Oddity::NoSubmitTime)) };
        if self.state == "PENDING" {
            return Ok(Err(Oddity::StillPending));
        }
        let start = start.filter(|_| !self.never_began());
        let Some(start) = start else { return Ok(Err(Oddity::NeverStarted)) };
        let elapsed = known(self.elapsed).map(|text| length(text, 1).ok_or_else(|| wrong(LENGTH, text)));
        // With `sacct --truncate`, the end of a running job is that of the period.
        let is_running = outcome == Some(Outcome::Running) || outcome.is_none() && end.is_none();
        let (run, run_basis) = match (elapsed.transpose()?, end) {
            (Some(run), _) if is_running => (run, RunBasis::SoFar),
            (None, _) if is_running => return Ok(Err(Oddity::NoEnd)),
            (_, None) => return Ok(Err(Oddity::NoEnd)),
            (Some(run), _) => (run, RunBasis::Executed),
            (None, Some(end)) => match end.checked_since(start) {
                Some(run) => (run, RunBasis::Executed),
                None => return Ok(Err(Oddity::NegativeRun)),
            },
        };
        let whole = |text: &'l str| match known(text) {
            None => Ok(None),
            Some(text) => text.parse::<u32>().map(Some).map_err(|_| wrong("a whole number", text)),
        };
        let (nodes, cpus) = (whole(self.nodes)?, whole(self.cpus)?);
        let mut resources = tres(self.resources).map_err(|text| wrong("resources such as cpu=4,gres/gpu=2", text))?;
        if resources.gpus == 0 {
            gres(self.gres, nodes, &mut resources).map_err(|text| wrong("GPUs such as gpu:a100:2", text))?;
        }
        let memory = match (resources.memory, known(self.memory)) {
            (None, Some(text)) => {
                Some(requested_memory(text, nodes, cpus).ok_or_else(|| wrong("memory such as 300M", text))?)
            }
            (memory, _) => memory,
        };
        let has_only_parts = resources.has_parts && resources.gpus == 0;
        let gpus = known(self.resources).or(known(self.gres)).map(|_| resources.gpus).filter(|_| !has_only_parts);
        let (began, odd) = self.began([submit, start], eligible);
        let odd = odd.with(Oddity::PartsOfGpus, has_only_parts).with(Oddity::NoTimeLimit, self.limit == UNLIMITED);
        let task = TraceTask::new(self.id.to_string(), line, began, run);
        Ok(Ok(TraceTask {
            run_basis,
            recorded_wait: start.checked_since(began),
            odd,
            estimate: limit(self.limit).map_err(|text| wrong(LIMIT, text))?,
            nodes,
            cpu: cpus.or(resources.cpus).map(|cpus| MilliCpu::from_cores(u64::from(cpus))),
            ram: memory,
            gpus,
            gpu_share: gpus.filter(|gpus| *gpus > 0).map(|_| GpuShare::WHOLE),
            gpu_models: resources.models,
            outcome,
            user: self.user,
            application: known(self.name).map(str::to_string),
            virtual_cluster: known(self.partition).map(str::to_string),
            user_name: known(self.user_name).map(str::to_string),
            account: known(self.account).map(str::to_string),
            qos: known(self.qos).map(str::to_string),
            ..task
        }))
    }

    /// Older releases write the time at which a waiting job was cancelled as its start and its end.
    fn never_began(&self) -> bool {
        let is_cancelled = outcome(self.state) == Some(Outcome::Cancelled);
        self.nodes == "0" || is_cancelled && self.start == self.end && self.allocated == "0"
    }

    /// When the job began to wait, and what is unusual about its row. A job that was submitted to begin later, or after
    /// another job, did not wait before it was eligible.
    fn began(&self, [submit, start]: [SimTime; 2], eligible: Option<SimTime>) -> (SimTime, Oddities) {
        let is_later = submit <= start && eligible.is_some_and(|eligible| eligible > submit);
        let odd = Oddities::default()
            .with(Oddity::EligibleLater, is_later)
            .with(Oddity::EligibleUnknown, eligible.is_none())
            .with(Oddity::ComponentOfJob, is_component(self.id))
            .with(Oddity::StartedBeforeSubmit, start < submit)
            .with(Oddity::UndefinedStatus, outcome(self.state).is_none() && known(self.state).is_some());
        (eligible.filter(|_| is_later).map_or(submit, |eligible| eligible.min(start)), odd)
    }
}

/// Whether the number is of a component of a heterogeneous job, such as `7+1`.
fn is_component(id: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    id.split_once('+').is_some_and(|(job, component)| is_number(job) && is_number(component))
}

/// The outcome for a state. A state may have further words, as in `CANCELLED by 1000`.
pub(super) fn outcome(state: &str) -> Option<Outcome> {
    match state.split([' ', '+']).next()? {
        "COMPLETED" => Some(Outcome::Completed),
        "FAILED" | "NODE_FAIL" | "OUT_OF_MEMORY" | "BOOT_FAIL" | "TIMEOUT" | "DEADLINE" | "LAUNCH_FAILED"
        | "RECONFIG_FAIL" => Some(Outcome::Failed),
        "CANCELLED" | "PREEMPTED" | "REVOKED" => Some(Outcome::Cancelled),
        "RUNNING" | "SUSPENDED" | "COMPLETING" | "RESIZING" | "CONFIGURING" | "SIGNALING" | "STAGE_OUT" | "STOPPED" => {
            Some(Outcome::Running)
        }
        "PENDING" | "REQUEUED" => Some(Outcome::Pending),
        _ => None,
    }
}

/// What is expected as a time limit, and as the time for which a job ran.
const LIMIT: &str = "a limit of at most 584 years, as a number of minutes or a time such as 1-02:30:00";
const LENGTH: &str = "a length of at most 584 years, as a number of seconds or a time such as 1-02:30:00";

/// The time limit of a job that has none.
const UNLIMITED: &str = "UNLIMITED";

pub(super) fn limit(text: &str) -> Result<Option<SimDuration>, &str> {
    match known(text) {
        None | Some(UNLIMITED | "Partition_Limit") => Ok(None),
        Some(text) => length(text, 60).map(Some).ok_or(text),
    }
}

/// Parses a time such as `30:00`, `02:30:00` or `1-02:30:00`. A plain number is multiplied by `seconds`.
pub(super) fn length(text: &str, seconds: u64) -> Option<SimDuration> {
    let Some((before, last)) = text.rsplit_once(':') else {
        return text.parse::<u32>().ok().and_then(|number| SimDuration::checked_from_secs(u64::from(number) * seconds));
    };
    let (days, before) = before.split_once('-').map_or((None, before), |(days, rest)| (Some(days), rest));
    let (hours, minutes) = before.split_once(':').map_or((None, before), |(hours, minutes)| (Some(hours), minutes));
    // A number of days must be followed by hours.
    let hours = if days.is_some() { Some(hours?) } else { hours };
    let number = |text: &str| text.parse::<u32>().ok().map(u64::from);
    let below = |text: &str, end: u64| number(text).filter(|number| *number < end);
    let days = days.map_or(Some(0), number)?;
    let hours = hours.map_or(Some(0), |hours| below(hours, 24))?;
    SimDuration::checked_from_secs(((days * 24 + hours) * 60 + below(minutes, 60)?) * 60 + below(last, 60)?)
}
