//! Delta debugging: finds the parts that are needed (`ddmin` of Zeller and Hildebrandt, "Simplifying and Isolating
//! Failure-Inducing Input", IEEE TSE 28(2), 2002), and the lowest number that is enough.

/// The parts of `0..count` that must be kept so that `fails` still holds, in ascending order. `fails` must hold for all
/// parts together. No single part of the result can be left out.
pub fn ddmin(count: usize, fails: &mut dyn FnMut(&[usize]) -> bool) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..count).collect();
    if kept.is_empty() || fails(&[]) {
        return Vec::new();
    }
    let mut chunks = 2;
    while kept.len() >= 2 {
        let parts: Vec<Vec<usize>> = split(&kept, chunks);
        let others = |part: &Vec<usize>| kept.iter().copied().filter(|item| !part.contains(item)).collect::<Vec<_>>();
        if let Some(part) = parts.iter().find(|part| fails(part)) {
            (kept, chunks) = (part.clone(), 2);
        // With two chunks, the complement of one is the other, which was already tried.
        } else if let Some(rest) = parts.iter().filter(|_| chunks > 2).map(others).find(|rest| fails(rest)) {
            (kept, chunks) = (rest, (chunks - 1).max(2));
        } else if chunks >= kept.len() {
            break;
        } else {
            chunks = (chunks * 2).min(kept.len());
        }
    }
    kept
}

/// Splits the items into this many consecutive parts, whose lengths differ by at most one.
fn split(items: &[usize], parts: usize) -> Vec<Vec<usize>> {
    let parts = parts.min(items.len());
    let bound = |part: usize| part * items.len() / parts;
    (0..parts).map(|part| items[bound(part)..bound(part + 1)].to_vec()).collect()
}

/// Finds by bisection a step of `0..count` at which `fails` holds although it does not hold at the step below. Tries
/// the lowest step first. `None` if it holds at no step that was tried.
pub fn lowest(count: u64, fails: &mut dyn FnMut(u64) -> bool) -> Option<u64> {
    if count == 0 {
        return None;
    }
    if fails(0) {
        return Some(0);
    }
    let (mut low, mut high) = (0, count);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fails(middle) { high = middle } else { low = middle }
    }
    (high < count).then_some(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `ddmin` with a test that holds if all of `needed` are present. Returns the result and the number of tests.
    fn kept(count: usize, needed: &[usize]) -> (Vec<usize>, usize) {
        let mut runs = 0;
        let kept = ddmin(count, &mut |kept| {
            runs += 1;
            needed.iter().all(|item| kept.contains(item))
        });
        (kept, runs)
    }

    #[test]
    fn what_is_needed_is_kept_and_nothing_else() {
        for needed in [&[][..], &[0], &[7], &[3, 4], &[0, 7], &[1, 3, 5, 7]] {
            assert_eq!(kept(8, needed).0, needed, "{needed:?}");
        }
        assert_eq!(kept(0, &[]), (Vec::new(), 0));
        assert_eq!(kept(1, &[0]), (vec![0], 1));
        assert_eq!(kept(1, &[]), (Vec::new(), 1));
    }

    #[test]
    fn one_of_many_is_found_in_a_logarithm_of_tests() {
        // One test of the empty list, and at most two halves at each of ten levels.
        let (found, runs) = kept(1000, &[777]);
        assert_eq!(found, [777]);
        assert!(runs <= 21, "{runs}");
    }

    #[test]
    fn the_lowest_number_is_found_by_bisection() {
        for wanted in 0..40 {
            let mut runs = 0;
            let found = lowest(40, &mut |step| {
                runs += 1;
                step >= wanted
            });
            assert_eq!(found, Some(wanted));
            assert!(runs <= 7, "{runs}");
        }
        assert_eq!(lowest(40, &mut |_| false), None);
        assert_eq!(lowest(0, &mut |_| true), None);
    }
}
