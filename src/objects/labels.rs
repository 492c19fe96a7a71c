//! Labels and label selectors.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::is_default;

pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// A label selector in the form of the API. All of its parts must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    #[serde(skip_serializing_if = "is_default")]
    pub match_labels: Labels,
    #[serde(skip_serializing_if = "is_default")]
    pub match_expressions: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Requirement {
    pub key: Arc<str>,
    pub operator: RequirementOperator,
    #[serde(default, skip_serializing_if = "is_default")]
    pub values: Vec<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RequirementOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Requirement {
    pub fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            RequirementOperator::In => value.is_some_and(|value| self.values.contains(value)),
            RequirementOperator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            RequirementOperator::Exists => value.is_some(),
            RequirementOperator::DoesNotExist => value.is_none(),
        }
    }
}

/// A selector ready for matching.
#[derive(Clone, Debug)]
pub enum Selector {
    /// Matches no object. This is the meaning of an absent selector.
    Nothing,
    /// Matches every object for which all requirements hold. Without requirements, it matches every object.
    All(Vec<Requirement>),
}

impl Selector {
    pub fn new(selector: Option<&LabelSelector>) -> Selector {
        let Some(selector) = selector else { return Selector::Nothing };
        let mut requirements: Vec<Requirement> =
            selector.match_labels.iter().map(|(key, value)| Requirement::equal(key, value)).collect();
        requirements.extend(selector.match_expressions.iter().cloned());
        Selector::All(requirements)
    }

    /// Selects objects with these labels.
    pub fn of_labels(labels: &Labels) -> Selector {
        Selector::All(labels.iter().map(|(key, value)| Requirement::equal(key, value)).collect())
    }

    /// Adds a requirement. A selector that matches nothing does not change.
    pub fn and(&mut self, requirement: Requirement) {
        if let Selector::All(requirements) = self {
            requirements.push(requirement);
        }
    }

    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Selector::Nothing => false,
            Selector::All(requirements) => requirements.iter().all(|requirement| requirement.matches(labels)),
        }
    }

    /// Whether the selector has no requirement, and so matches every object.
    pub fn is_everything(&self) -> bool {
        matches!(self, Selector::All(requirements) if requirements.is_empty())
    }
}

impl Requirement {
    pub fn equal(key: &Arc<str>, value: &Arc<str>) -> Requirement {
        Requirement { key: Arc::clone(key), operator: RequirementOperator::In, values: vec![Arc::clone(value)] }
    }
}
