//! `nodes.csv`: a row for each node, in order of declaration.
//!
//! | column | |
//! | --- | --- |
//! | `node`, `machine` | its name, and the catalog's machine if it is one |
//! | `state` | its state at the end of the run |
//! | `gpus` | the number of its GPUs |
//! | `ready_seconds` | seconds in state ready |
//! | `gpu_seconds`, `cpu_seconds` | taken GPUs and cores times seconds; to the nanosecond, rounded down |
//! | `runs` | the number of runs placed here |

use std::io::Write;

use dryrack_expect::node_state_name;
use dryrack_metrics::RunAccount;

/// Writes `nodes.csv` from finished accounts.
pub fn write_nodes_csv(out: impl Write, accounts: &RunAccount) -> csv::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(["node", "machine", "state", "gpus", "ready_seconds", "gpu_seconds", "cpu_seconds", "runs"])?;
    for node in &accounts.nodes {
        csv.write_record([
            &node.spec.name,
            node.spec.shape.machine.as_deref().unwrap_or_default(),
            node_state_name(node.state),
            &node.gpu_count().to_string(),
            &decimal_seconds(node.ready_ns),
            &decimal_seconds(node.gpu_taken / 1000),
            &decimal_seconds(node.cpu_taken_total / 1000),
            &node.placed.to_string(),
        ])?;
    }
    csv.flush()?;
    Ok(())
}

fn decimal_seconds(nanos: u128) -> String {
    let (whole, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    match rest {
        0 => whole.to_string(),
        rest => format!("{whole}.{rest:09}").trim_end_matches('0').to_string(),
    }
}
