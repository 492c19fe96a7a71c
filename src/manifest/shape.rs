//! The shape of the data that a field holds, and the fields of an object.
//!
//! One table of fields serves three purposes: the check of a file, the choice of what is kept, and the replacement of
//! names.

use crate::refused::Rule;

/// What a text names. Texts of equal kind that are equal name the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    Node,
    /// Pods, and the controllers that make them.
    Workload,
    Namespace,
    PriorityClass,
    RuntimeClass,
    Service,
    Budget,
    Claim,
    ClaimTemplate,
    DeviceClass,
    Driver,
    Pool,
    Device,
    ClusterQueue,
    LocalQueue,
    Cohort,
    Flavor,
    Topology,
    AdmissionCheck,
    WorkloadPriority,
    /// A part of an object: a container, a request of a claim, a group of pods.
    Part,
    Gate,
    Image,
    Resource,
    LabelKey,
    LabelValue,
    Uid,
    Scheduler,
    /// An address of a node.
    Address,
    /// What identifies one device.
    Serial,
    /// An attribute of a device, which may begin with a driver and a slash.
    Attribute,
    /// A text in an attribute of a device.
    AttributeText,
    /// The group of the kind of an owner.
    Group,
    /// The kind of an owner.
    OwnerKind,
}

/// The data that a field holds.
#[derive(Debug)]
pub enum Shape {
    /// A text that names nothing, or nothing that someone chose.
    Text,
    Name(Named),
    /// The object's own name. What it names follows from the object's kind.
    OwnName,
    /// A name of an object whose kind is in the field with this name beside it.
    NameOfKind(&'static str),
    /// The value of the label whose key is in the field of this name beside it.
    LabelValue(&'static str),
    /// Names of parts, separated by `/`.
    Parts,
    /// A name that may begin with a driver and a slash.
    Qualified,
    /// The group and the version of a kind.
    GroupVersion,
    /// An expression of CEL.
    Expression,
    Word(&'static [&'static str]),
    Whole {
        least: i64,
        most: i64,
    },
    Bool,
    Quantity,
    /// A time such as `2026-01-01T14:56:53Z`.
    Time,
    /// A number of pods, or a percentage of them.
    CountOrPercent,
    List(&'static Shape),
    /// A map from any key to values of one shape.
    Map(Option<Named>, &'static Shape),
    Labels,
    Annotations,
    Fields(&'static Fields),
    /// Is examined for fields that dryrack does not follow, and not kept.
    Examined(&'static Shape),
}

/// The fields of an object, or of a part of it.
#[derive(Debug)]
pub struct Fields {
    /// What the object is, such as `a toleration`.
    pub what: &'static str,
    /// The fields that matter to a rehearsal.
    pub read: &'static [(&'static str, Shape)],
    pub required: &'static [&'static str],
    /// The names of fields that do not matter to a rehearsal, separated by spaces.
    pub unused: &'static str,
    /// The names of fields that the real scheduler follows and dryrack does not.
    pub unfollowed: &'static str,
    /// Whether the object may have fields that are not listed here. The system writes a status, not a person.
    pub is_open: bool,
    /// What the API refuses though each field has the right shape.
    pub rule: Option<Rule>,
}

impl Fields {
    pub const fn of(what: &'static str, read: &'static [(&'static str, Shape)]) -> Fields {
        Fields { what, read, required: &[], unused: "", unfollowed: "", is_open: false, rule: None }
    }

    pub const fn requires(self, required: &'static [&'static str]) -> Fields {
        Fields { required, ..self }
    }

    pub const fn unused(self, unused: &'static str) -> Fields {
        Fields { unused, ..self }
    }

    pub const fn unfollowed(self, unfollowed: &'static str) -> Fields {
        Fields { unfollowed, ..self }
    }

    pub const fn open(self) -> Fields {
        Fields { is_open: true, ..self }
    }

    pub const fn refuses(self, rule: Rule) -> Fields {
        Fields { rule: Some(rule), ..self }
    }

    pub fn shape_of(&self, name: &str) -> Option<&'static Shape> {
        self.read.iter().find(|(known, _)| *known == name).map(|(_, shape)| shape)
    }

    pub fn is_unused(&self, name: &str) -> bool {
        self.unused.split_ascii_whitespace().any(|known| known == name)
    }

    pub fn is_unfollowed(&self, name: &str) -> bool {
        self.unfollowed.split_ascii_whitespace().any(|known| known == name)
    }

    /// All names of fields that the API knows.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let words = |words: &'static str| words.split_ascii_whitespace();
        self.read.iter().map(|(name, _)| *name).chain(words(self.unused)).chain(words(self.unfollowed))
    }
}

impl Shape {
    /// A number of things, from 0.
    pub const COUNT: Shape = Shape::Whole { least: 0, most: i32::MAX as i64 };
    /// Any whole number of 32 bits.
    pub const INTEGER: Shape = Shape::Whole { least: i32::MIN as i64, most: i32::MAX as i64 };
    /// A weight of a preference.
    pub const WEIGHT: Shape = Shape::Whole { least: 1, most: 100 };
    /// A number of seconds, or another count of 64 bits.
    pub const LONG: Shape = Shape::Whole { least: 0, most: i64::MAX };
}
