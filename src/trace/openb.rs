//! Alibaba's openb lists (cluster-trace-gpu-v2023): machines and pods as CSV with a header line.
//!
//! Source: the repository hkust-adsl/kubernetes-scheduler-simulator, folder `data/csv`. Columns may be in any order.
//! The lists use no quoting, so a quotation mark is an ordinary character. The lists `multigpu20` to `multigpu50` have
//! only the first five columns of pods. These are the requests of a pod, without its arrival and duration.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use dryrack_planted::planted;
use dryrack_units::{Bytes, GpuShare, MilliCpu, SimDuration, SimTime};

use super::decimal::NotDecimal;
use super::error::TraceError;
use super::row::{NodeTrace, Outcome, RunBasis, TaskTrace, TraceNode, TraceTask};
use super::rows::{Rows, collect};
use super::table::{Table, gather};
use super::tally::{Oddity, Tally};
use super::text::{Lines, Span, open_lines};

const NODE_COLUMNS: [&str; 5] = ["sn", "cpu_milli", "memory_mib", "gpu", "model"];
/// The columns of pods. The first five are required. The last three must be all present or all absent.
const POD_COLUMNS: [&str; 11] = [
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
];
const NEEDED_OF_PODS: usize = 5;
const TIMES: std::ops::Range<usize> = 8..11;

/// Reads a whole list of pods, plain or gzip. Reports all faults together.
pub fn read_tasks(path: &Path) -> Result<TaskTrace, TraceError> {
    read_tasks_from(path, open_lines(path)?)
}

/// Reads a list of pods. `file` is the name of the input in error messages.
pub fn read_tasks_from(file: &Path, input: impl BufRead) -> Result<TaskTrace, TraceError> {
    collect(file, PodReader::new(file, input)?)
}

/// Reads a list of nodes. `file` is the name of the input in error messages.
pub fn read_nodes_from(file: &Path, input: impl BufRead) -> Result<NodeTrace, TraceError> {
    let nodes = gather(file, NodeReader::new(file, input)?)?;
    Ok(NodeTrace { nodes })
}

/// Iterates over the nodes of a list in the order of the file. Keeps only one node in memory. An error in one row does
/// not end the iteration.
pub struct NodeReader<R> {
    table: Table<R, { NODE_COLUMNS.len() }>,
}

impl NodeReader<BufReader<Box<dyn Read>>> {
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        NodeReader::new(path, open_lines(path)?)
    }
}

impl<R: BufRead> NodeReader<R> {
    /// Reads the header line. `file` is the name of the input in error messages.
    pub fn new(file: &Path, input: R) -> Result<NodeReader<R>, TraceError> {
        Table::new(file, input, NODE_COLUMNS).map(|table| NodeReader { table })
    }

    fn read_row(&self) -> Result<TraceNode, TraceError> {
        let Table { lines, fields, .. } = &self.table;
        let [name, cpu, ram, gpus, model] = fields;
        let model = match model.of(lines.bytes()) {
            [] => None,
            _ => Some(lines.text(model, "a GPU model")?.to_string()),
        };
        Ok(TraceNode {
            name: lines.text(name, "the name of a node")?.to_string(),
            cpu: MilliCpu::new(lines.whole(cpu, "CPU in thousandths of a core")?),
            ram: mebibytes(lines, ram)?,
            gpus: lines.whole(gpus, "a number of GPUs")?,
            gpu_model: model,
            virtual_cluster: None,
            switch: None,
        })
    }
}

impl<R: BufRead> Iterator for NodeReader<R> {
    type Item = Result<TraceNode, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.table.advance() {
            Ok(true) => Some(self.read_row()),
            Ok(false) => None,
            Err(fault) => Some(Err(fault)),
        }
    }
}

/// Iterates over the pods of a list in the order of the file. Keeps only one pod in memory. An error in one row does
/// not end the iteration.
pub struct PodReader<R> {
    table: Table<R, { POD_COLUMNS.len() }>,
    has_times: bool,
    tally: Tally,
    last_submit: SimTime,
}

impl PodReader<BufReader<Box<dyn Read>>> {
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        PodReader::new(path, open_lines(path)?)
    }
}

/// When a pod arrived, started and left, if the list says so.
struct Stay {
    submit: SimTime,
    wait: Option<SimDuration>,
    run: SimDuration,
    basis: RunBasis,
}

impl Stay {
    const NOT_RECORDED: Stay =
        Stay { submit: SimTime::ZERO, wait: None, run: SimDuration::ZERO, basis: RunBasis::NotRecorded };
}

impl<R: BufRead> PodReader<R> {
    /// Reads the header line. `file` is the name of the input in error messages.
    pub fn new(file: &Path, input: R) -> Result<PodReader<R>, TraceError> {
        let table = Table::with_at_least(NEEDED_OF_PODS, file, input, POD_COLUMNS)?;
        let has_times = table.has_all_or_none(TIMES, file, POD_COLUMNS)?;
        Ok(PodReader { table, has_times, tally: Tally::default(), last_submit: SimTime::ZERO })
    }

    /// The counts of odd rows read so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Reads the current line as a task. Returns `None` if the row is left out.
    fn read_row(&mut self) -> Result<Option<TraceTask>, TraceError> {
        let Table { lines, fields, .. } = &self.table;
        let [name, cpu, ram, num_gpu, gpu_milli, gpu_spec, qos, phase, creation, deletion, scheduled] = fields;
        let mut odd = Vec::new();
        let name = lines.text(name, "the name of a pod")?.to_string();
        let cpu = MilliCpu::new(lines.whole(cpu, "CPU in thousandths of a core")?);
        let ram = mebibytes(lines, ram)?;
        let gpus: u32 = lines.whole(num_gpu, "a number of GPUs")?;
        let gpu_share = gpu_share(lines, gpu_milli, gpus, &mut odd)?;
        let gpu_models = gpu_models(lines, gpu_spec)?;
        let qos = match qos.of(lines.bytes()) {
            [] => None,
            _ => Some(lines.text(qos, "a class of service")?.to_string()),
        };
        let outcome = outcome(lines, phase)?;
        let stay = match self.has_times {
            true => stay(lines, [creation, deletion, scheduled], &mut odd)?,
            false => Ok(Stay::NOT_RECORDED),
        };
        let line = lines.number();

        self.tally.add_row();
        let stay = match stay {
            Ok(stay) => stay,
            Err(reason) => {
                self.tally.add(reason);
                return Ok(None);
            }
        };
        if stay.run.is_zero() && self.has_times {
            odd.push(Oddity::ZeroRun);
        }
        if stay.submit < self.last_submit {
            odd.push(Oddity::OutOfOrder);
        }
        self.last_submit = stay.submit;
        odd.into_iter().for_each(|oddity| self.tally.add(oddity));
        Ok(Some(TraceTask {
            run_basis: stay.basis,
            recorded_wait: stay.wait,
            cpu: Some(cpu),
            ram: Some(ram),
            gpus: Some(gpus),
            gpu_share,
            gpu_models,
            outcome,
            qos,
            ..TraceTask::new(name, line, stay.submit, stay.run)
        }))
    }
}

impl<R: BufRead> Rows for PodReader<R> {
    fn tally(&self) -> &Tally {
        &self.tally
    }
}

impl<R: BufRead> Iterator for PodReader<R> {
    type Item = Result<TraceTask, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.table.advance() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(fault) => return Some(Err(fault)),
            }
            match self.read_row() {
                Ok(Some(task)) => return Some(Ok(task)),
                Ok(None) => {}
                Err(fault) => return Some(Err(fault)),
            }
        }
    }
}

fn mebibytes<R: BufRead>(lines: &Lines<R>, field: &Span) -> Result<Bytes, TraceError> {
    let expected = "memory in MiB";
    let mib: u64 = lines.whole(field, expected)?;
    let bytes = if planted!(MebibytesAreMegabytes) {
        mib.checked_mul(1_000_000).map(Bytes::new)
    } else {
        Bytes::checked_from_mib(mib)
    };
    bytes.ok_or_else(|| lines.wrong(field, expected, NotDecimal::TooLarge))
}

/// The share of each GPU. A value above 1000 is capped and counted, because no task can have more than a whole GPU.
fn gpu_share<R: BufRead>(
    lines: &Lines<R>,
    field: &Span,
    gpus: u32,
    odd: &mut Vec<Oddity>,
) -> Result<Option<GpuShare>, TraceError> {
    let expected = "thousandths of each GPU";
    let milli: u32 = lines.whole(field, expected)?;
    match (gpus, milli) {
        (0, 0) => Ok(None),
        (0, _) => {
            odd.push(Oddity::ShareWithoutGpu);
            Ok(None)
        }
        (_, 0) => Err(lines.wrong(field, "a share above 0 of each GPU", NotDecimal::Malformed)),
        (_, 1..=1000) => Ok(Some(GpuShare::new(milli))),
        (_, 1001..) => {
            odd.push(Oddity::ShareCapped);
            Ok(Some(GpuShare::WHOLE))
        }
    }
}

/// Parses GPU models such as `V100M16|V100M32`. The result is empty if any model is accepted.
fn gpu_models<R: BufRead>(lines: &Lines<R>, field: &Span) -> Result<Vec<String>, TraceError> {
    if field.start == field.end {
        return Ok(Vec::new());
    }
    let mut models = Vec::new();
    let mut start = field.start;
    for model in field.of(lines.bytes()).split(|byte| *byte == b'|') {
        let span = Span { start, end: start + model.len() };
        models.push(lines.text(&span, "a GPU model")?.to_string());
        start = span.end + 1;
    }
    Ok(models)
}

fn outcome<R: BufRead>(lines: &Lines<R>, field: &Span) -> Result<Option<Outcome>, TraceError> {
    match field.of(lines.bytes()) {
        b"Running" => Ok(Some(Outcome::Running)),
        b"Succeeded" => Ok(Some(Outcome::Completed)),
        b"Failed" => Ok(Some(Outcome::Failed)),
        b"Pending" => Ok(Some(Outcome::Pending)),
        b"" | b"Unknown" => Ok(None),
        _ => Err(lines.wrong(field, "Running, Succeeded, Failed, Pending or Unknown", NotDecimal::Malformed)),
    }
}

/// Returns the stay of a pod, or the reason why its row is left out.
fn stay<R: BufRead>(
    lines: &Lines<R>,
    [creation, deletion, scheduled]: [&Span; 3],
    odd: &mut Vec<Oddity>,
) -> Result<Result<Stay, Oddity>, TraceError> {
    let created = instant(lines, creation, "a creation time in seconds")?;
    let deleted = instant(lines, deletion, "a deletion time in seconds")?;
    let scheduled = match scheduled.of(lines.bytes()) {
        [] => None,
        _ => Some(instant(lines, scheduled, "a scheduled time in seconds, or empty")?),
    };
    let (start, basis, wait) = match scheduled {
        Some(start) => (start, RunBasis::Executed, start.checked_since(created)),
        None => (created, RunBasis::WholeStay, None),
    };
    let Some(run) = deleted.checked_since(start) else { return Ok(Err(Oddity::NegativeRun)) };
    match (basis, wait) {
        (RunBasis::WholeStay, _) => odd.push(Oddity::NeverScheduled),
        (RunBasis::Executed, None) => odd.push(Oddity::NegativeMeasurement),
        (RunBasis::Executed, Some(_)) | (RunBasis::NotRecorded | RunBasis::SoFar, _) => {}
    }
    Ok(Ok(Stay { submit: created, wait, run, basis }))
}

fn instant<R: BufRead>(lines: &Lines<R>, field: &Span, expected: &str) -> Result<SimTime, TraceError> {
    let value = lines.decimal(field, expected)?;
    let why = if value.negative { NotDecimal::Malformed } else { NotDecimal::TooLarge };
    value.as_billionths().map(SimTime::from_nanos).ok_or_else(|| lines.wrong(field, expected, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceError;

    const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,\
                        creation_time,deletion_time,scheduled_time";

    fn pods(rows: &str) -> Result<TaskTrace, TraceError> {
        read_tasks_from(Path::new("pods.csv"), format!("{PODS}\n{rows}\n").as_bytes())
    }

    fn pod(row: &str) -> (TraceTask, Tally) {
        let mut trace = pods(row).unwrap_or_else(|fault| panic!("{row}: {fault}"));
        (trace.tasks.remove(0), trace.tally)
    }

    #[test]
    fn a_pod_arrives_when_created_and_runs_from_its_scheduling() {
        let (task, tally) = pod("p,6000,12288,1,460,V100M16|V100M32,LS,Running,100,1000,130");
        assert_eq!((task.name.as_str(), task.line), ("p", 2));
        assert_eq!(task.submit, SimTime::from_secs(100));
        assert_eq!((task.run, task.run_basis), (SimDuration::from_secs(870), RunBasis::Executed));
        assert_eq!(task.recorded_wait, Some(SimDuration::from_secs(30)));
        assert_eq!((task.cpu, task.ram), (Some(MilliCpu::from_cores(6)), Some(Bytes::from_gib(12))));
        assert_eq!((task.gpus, task.gpu_share), (Some(1), Some(GpuShare::new(460))));
        assert_eq!(task.gpu_models, ["V100M16", "V100M32"]);
        assert_eq!((task.outcome, task.qos.as_deref()), (Some(Outcome::Running), Some("LS")));
        assert_eq!((task.processors, task.estimate, task.queue), (None, None, None));
        assert_eq!(tally.iter().count(), 0);
    }

    #[test]
    fn a_pod_never_scheduled_is_given_its_whole_stay_and_counted() {
        let (task, tally) = pod("p,1,1,0,0,,BE,Pending,100,1000,");
        assert_eq!((task.run, task.run_basis), (SimDuration::from_secs(900), RunBasis::WholeStay));
        assert_eq!((task.recorded_wait, task.outcome), (None, Some(Outcome::Pending)));
        assert_eq!((task.gpus, task.gpu_share), (Some(0), None));
        assert_eq!(tally.count(Oddity::NeverScheduled), 1);
    }

    #[test]
    fn a_list_without_times_says_what_its_pods_ask_for() {
        let text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n\
                    openb-pod-0001,6000,12288,1,460\nopenb-pod-0005,20000,65536,0,0\nopenb-pod-8314,88000,327680,8,1000\n";
        let trace = read_tasks_from(Path::new("pods.csv"), text.as_bytes()).unwrap();
        let said = |task: &TraceTask| (task.name.clone(), task.cpu, task.ram, task.gpus, task.gpu_share);
        let pod = |name: &str, cores, gib, gpus, share| {
            (name.to_string(), Some(MilliCpu::from_cores(cores)), Some(Bytes::from_gib(gib)), Some(gpus), share)
        };
        assert_eq!(
            trace.tasks.iter().map(said).collect::<Vec<_>>(),
            [
                pod("openb-pod-0001", 6, 12, 1, Some(GpuShare::new(460))),
                pod("openb-pod-0005", 20, 64, 0, None),
                pod("openb-pod-8314", 88, 320, 8, Some(GpuShare::WHOLE)),
            ]
        );
        for task in &trace.tasks {
            assert_eq!((task.submit, task.run_basis), (SimTime::ZERO, RunBasis::NotRecorded));
            assert_eq!((task.gpu_models.len(), task.outcome, task.qos.as_deref()), (0, None, None));
        }
        assert_eq!((trace.tally.kept(), trace.tally.iter().count()), (3, 0));
    }

    #[test]
    fn times_are_there_all_or_none() {
        let text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time\np,1,1,0,0,5\n";
        let message = read_tasks_from(Path::new("pods.csv"), text.as_bytes()).unwrap_err().to_string();
        let needed = "all of creation_time, deletion_time, scheduled_time are needed";
        assert_eq!(
            message,
            format!(
                "pods.csv: 2 faults\n  pods.csv:1: no column `deletion_time`; {needed}\n  \
                 pods.csv:1: no column `scheduled_time`; {needed}"
            )
        );
    }

    #[test]
    fn odd_pods_are_counted_by_reason() {
        let rows = [
            ("p,1,1,1,1500,,LS,Running,1,2,1", Oddity::ShareCapped, 1),
            ("p,1,1,0,500,,LS,Running,1,2,1", Oddity::ShareWithoutGpu, 1),
            ("p,1,1,0,0,,LS,Running,1,5,5", Oddity::ZeroRun, 1),
            ("p,1,1,0,0,,LS,Running,5,9,4", Oddity::NegativeMeasurement, 1),
            ("p,1,1,0,0,,LS,Running,5,9,10", Oddity::NegativeRun, 0),
            ("p,1,1,0,0,,LS,Pending,5,4,", Oddity::NegativeRun, 0),
        ];
        for (row, oddity, kept) in rows {
            let trace = pods(row).unwrap_or_else(|fault| panic!("{row}: {fault}"));
            assert_eq!(trace.tally.iter().collect::<Vec<_>>(), [(oddity, 1)], "{row}");
            assert_eq!((trace.tally.kept(), trace.tasks.len()), (kept, kept as usize), "{row}");
        }
    }

    #[test]
    fn pods_come_in_order_of_creation_and_those_of_one_instant_in_order_of_the_file() {
        let rows = ["b,1,1,0,0,,LS,Running,7,9,7", "c,1,1,0,0,,LS,Running,3,9,3", "a,1,1,0,0,,LS,Running,7,9,7"];
        let trace = pods(&rows.join("\n")).unwrap();
        assert_eq!(trace.tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(), ["c", "b", "a"]);
        assert_eq!(trace.tally.count(Oddity::OutOfOrder), 1);
    }

    #[test]
    fn columns_may_come_in_any_order_and_lines_end_as_on_windows() {
        let text = "\u{feff}model,gpu,memory_mib,cpu_milli,sn\r\nG2,8,1024,96000,n1\r\n\r\n,0,1024,500,n2\r\n";
        let trace = read_nodes_from(Path::new("nodes.csv"), text.as_bytes()).unwrap();
        let node = |name: &str, cpu, gpus, model: Option<&str>| TraceNode {
            name: name.to_string(),
            cpu: MilliCpu::new(cpu),
            ram: Bytes::from_gib(1),
            gpus,
            gpu_model: model.map(str::to_string),
            virtual_cluster: None,
            switch: None,
        };
        assert_eq!(trace.nodes, [node("n1", 96_000, 8, Some("G2")), node("n2", 500, 0, None)]);
    }

    #[test]
    fn what_is_wrong_in_a_pod_is_pointed_at() {
        let rows = [
            ("p,x,1,0,0,,LS,Running,1,2,1", "pods.csv:2:3: expected CPU in thousandths of a core, found `x`"),
            ("p,1,-1,0,0,,LS,Running,1,2,1", "pods.csv:2:5: expected memory in MiB, found `-1`"),
            (
                "p,1,99999999999999,0,0,,LS,Running,1,2,1",
                "pods.csv:2:5: expected memory in MiB, found `99999999999999`, which is too large",
            ),
            ("p,1,1,0.5,0,,LS,Running,1,2,1", "pods.csv:2:7: expected a number of GPUs, found `0.5`"),
            ("p,1,1,1,0,,LS,Running,1,2,1", "pods.csv:2:9: expected a share above 0 of each GPU, found `0`"),
            ("p,1,1,1,500,T4|,LS,Running,1,2,1", "pods.csv:2:16: expected a GPU model, found nothing"),
            (
                "p,1,1,0,0,,LS,Flying,1,2,1",
                "pods.csv:2:15: expected Running, Succeeded, Failed, Pending or Unknown, found `Flying`",
            ),
            ("p,1,1,0,0,,LS,Running,,2,1", "pods.csv:2:23: expected a creation time in seconds, found nothing"),
            ("p,1,1,0,0,,LS,Running,1,2", "pods.csv:2:26: expected 11 fields, found the end of the line after 10"),
            ("p,1,1,0,0,,LS,Running,1,2,1,", "pods.csv:2:29: expected 11 fields, found a further one"),
            (",1,1,0,0,,LS,Running,1,2,1", "pods.csv:2:1: expected the name of a pod, found nothing"),
        ];
        for (row, expected) in rows {
            assert_eq!(pods(row).map_err(|fault| fault.to_string()), Err(expected.to_string()), "{row}");
        }
    }

    #[test]
    fn a_wrong_header_names_the_nearest_column_and_the_missing_ones() {
        let read = |header: &str| read_nodes_from(Path::new("n.csv"), header.as_bytes()).map_err(|e| e.to_string());
        let expected = "n.csv: 2 faults\n  n.csv:1:4: unknown column `cpu_mili`; did you mean `cpu_milli`?\n  \
            n.csv:1: no column `cpu_milli`; all of sn, cpu_milli, memory_mib, gpu, model are needed";
        assert_eq!(read("sn,cpu_mili,memory_mib,gpu,model"), Err(expected.to_string()));
        let expected = "n.csv:1:35: expected each column once, found `sn`";
        assert_eq!(read("sn,cpu_milli,memory_mib,gpu,model,sn"), Err(expected.to_string()));
        assert!(read("").unwrap_err().starts_with("n.csv: 5 faults\n  n.csv:1: no column `sn`"));
    }

    #[test]
    fn all_faults_of_a_file_are_told_at_once() {
        let message = pods("p,x,1,0,0,,LS,Running,1,2,1\nq,1,y,0,0,,LS,Running,1,2,1").unwrap_err().to_string();
        assert!(
            message.starts_with("pods.csv: 2 faults\n  pods.csv:2:3: ") && message.contains("\n  pods.csv:3:5: "),
            "{message}"
        );
        let message = pods(&"p\n".repeat(30)).unwrap_err().to_string();
        assert!(message.starts_with("pods.csv: 30 faults") && message.ends_with("\n  and 10 more"), "{message}");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_a_reader_panic(bytes: Vec<u8>, rows in "[-0-9.,|a-z\n]{0,300}") {
            let _ = read_nodes_from(Path::new("any"), bytes.as_slice());
            let _ = read_tasks_from(Path::new("any"), bytes.as_slice());
            let _ = pods(&rows);
            let _ = pods(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn no_numbers_make_a_reader_panic(numbers in proptest::collection::vec(proptest::num::u64::ANY, 7)) {
            let [cpu, ram, gpus, milli, created, deleted, scheduled] = numbers[..] else { unreachable!() };
            let _ = pods(&format!("p,{cpu},{ram},{gpus},{milli},,LS,Failed,{created},{deleted},{scheduled}"));
        }
    }
}
