//! What the condition `PodScheduled` of a pod says: how many nodes were refused for each reason.

use dryrack_control::reason_of_text;
use dryrack_event::{Histogram, Reason};

/// The longest text that is stored with a decision, in bytes.
const LONGEST_TEXT: usize = 4096;

/// The text between the number of nodes and the list of reasons.
const AVAILABLE: &str = " nodes are available: ";

/// Reads a message such as `0/3 nodes are available: 1 Insufficient cpu, 2 Too many pods.` A reason that is not one of
/// kube-scheduler's own plugins counts as a decision outside. Empty if the message has another form.
pub fn reasons(message: &str) -> Histogram {
    let mut histogram = Histogram::default();
    if message.starts_with("no nodes available") {
        histogram.add(Reason::NoNodes, 1);
    }
    let Some((nodes, list)) = message.split_once(AVAILABLE) else { return histogram };
    let nodes = nodes.rsplit('/').next().and_then(|all| all.parse::<u32>().ok()).unwrap_or(1);
    let list = list.split(" preemption: ").next().unwrap_or(list).trim_end().trim_end_matches('.');
    for part in parts(list) {
        let counted = part.split_once(' ').and_then(|(count, text)| Some((count.parse::<u32>().ok()?, text)));
        // A refusal for all nodes at once has no number.
        let (count, text) = counted.unwrap_or((nodes, part));
        histogram.add(reason_of_text(text).unwrap_or(Reason::DecidedOutside), count.min(1 << 20));
    }
    histogram
}

/// Splits at commas before a number. A reason may contain other commas.
fn parts(list: &str) -> Vec<&str> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for (comma, _) in list.match_indices(", ") {
        let next = &list[comma + 2..];
        let digits = next.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 && next[digits..].starts_with(' ') {
            parts.push(&list[start..comma]);
            start = comma + 2;
        }
    }
    parts.push(&list[start..]);
    parts
}

/// The text, cut to the length that is stored.
pub fn cut(text: &str) -> String {
    let mut end = text.len().min(LONGEST_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    match end == text.len() {
        true => text.to_string(),
        false => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages are from kube-scheduler 1.20.2 and 1.35.4.
    #[test]
    fn a_message_is_counted_by_reason() {
        let rows: [(&str, &[(Reason, u32)]); 6] = [
            (
                "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had taint {gpu: present}, that the pod didn't tolerate.",
                &[(Reason::InsufficientCpu, 1), (Reason::UntoleratedTaint, 2)],
            ),
            (
                "0/4 nodes are available: 3 Insufficient nvidia.com/gpu, 4 Insufficient memory. preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod.",
                &[(Reason::InsufficientRam, 4), (Reason::InsufficientGpus, 3)],
            ),
            (
                "0/2 nodes are available: waiting for minCount pods from a gang to appear in scheduling queue.",
                &[(Reason::GangPodsMissing, 2)],
            ),
            ("0/2 nodes are available: 2 no GPU with enough luck.", &[(Reason::DecidedOutside, 2)]),
            ("no nodes available to schedule pods", &[(Reason::NoNodes, 1)]),
            ("binding rejected: timeout", &[]),
        ];
        for (message, wanted) in rows {
            let mut expected = Histogram::default();
            wanted.iter().for_each(|(reason, count)| expected.add(*reason, *count));
            assert_eq!(reasons(message), expected, "{message}");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        let long = cut(&"é".repeat(4000));
        assert!(long.len() <= LONGEST_TEXT + "…".len() && long.ends_with("é…"), "{} bytes", long.len());
    }
}
