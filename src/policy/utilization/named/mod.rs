//! Rules that a profile names. A new rule is one row of the table below, and a file with its function.

mod mean_below;

use super::window::RuleFunction;

/// The rules by name. A program can register more with [`super::register_policy_rule`].
pub(super) const RULES: [(&str, RuleFunction); 1] = [("mean_below", mean_below::holds)];
