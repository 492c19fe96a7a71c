//! Node selectors: alternatives of requirements on a node's labels and on its name.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Labels, is_default};

/// The only field that a term can require.
const NAME_FIELD: &str = "metadata.name";

/// One of the terms must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    #[serde(skip_serializing_if = "is_default")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// All of the requirements must hold. A term without requirements matches no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    #[serde(skip_serializing_if = "is_default")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    #[serde(skip_serializing_if = "is_default")]
    pub match_fields: Vec<NodeSelectorRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeSelectorRequirement {
    pub key: Arc<str>,
    pub operator: NodeSelectorOperator,
    #[serde(default, skip_serializing_if = "is_default")]
    pub values: Vec<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NodeSelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
}

impl NodeSelector {
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.node_selector_terms.iter().any(|term| term.matches(name, labels))
    }

    /// The only nodes that can match, by name, if every term names its nodes. `None` if a term does not.
    pub fn names(&self) -> Option<BTreeSet<Arc<str>>> {
        let mut names = BTreeSet::new();
        for term in &self.node_selector_terms {
            let is_name = |field: &&NodeSelectorRequirement| {
                &*field.key == NAME_FIELD && field.operator == NodeSelectorOperator::In
            };
            let mut sets = term.match_fields.iter().filter(is_name).map(|field| &field.values);
            let mut of_term: BTreeSet<Arc<str>> = sets.next()?.iter().cloned().collect();
            for set in sets {
                of_term.retain(|name| set.contains(name));
            }
            names.extend(of_term);
        }
        (!self.node_selector_terms.is_empty()).then_some(names)
    }
}

impl NodeSelectorTerm {
    pub fn is_empty(&self) -> bool {
        self.match_expressions.is_empty() && self.match_fields.is_empty()
    }

    /// A term with a requirement that the API would refuse matches no node.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        !self.is_empty()
            && self.match_expressions.iter().all(|requirement| requirement.matches(labels))
            && self.match_fields.iter().all(|field| field.matches_name(name))
    }
}

impl NodeSelectorRequirement {
    pub fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            NodeSelectorOperator::In => {
                !self.values.is_empty() && value.is_some_and(|value| self.values.contains(value))
            }
            NodeSelectorOperator::NotIn => {
                !self.values.is_empty() && value.is_none_or(|value| !self.values.contains(value))
            }
            NodeSelectorOperator::Exists => value.is_some(),
            NodeSelectorOperator::DoesNotExist => value.is_none(),
            NodeSelectorOperator::Gt => self.compares(value, |value, bound| value > bound),
            NodeSelectorOperator::Lt => self.compares(value, |value, bound| value < bound),
        }
    }

    fn compares(&self, value: Option<&Arc<str>>, holds: fn(i64, i64) -> bool) -> bool {
        let [bound] = self.values.as_slice() else { return false };
        let numbers = value.and_then(|value| Some((value.parse().ok()?, bound.parse().ok()?)));
        numbers.is_some_and(|(value, bound)| holds(value, bound))
    }

    fn matches_name(&self, name: &str) -> bool {
        let [only] = self.values.as_slice() else { return false };
        match self.operator {
            NodeSelectorOperator::In => &*self.key == NAME_FIELD && **only == *name,
            NodeSelectorOperator::NotIn => &*self.key != NAME_FIELD || **only != *name,
            NodeSelectorOperator::Exists
            | NodeSelectorOperator::DoesNotExist
            | NodeSelectorOperator::Gt
            | NodeSelectorOperator::Lt => false,
        }
    }
}
