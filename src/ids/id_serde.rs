//! The serialized forms of ids: the name in JSON, and the number in the compact form.
//!
//! The name of an id depends on its log, but serde cannot pass a log to a field. So the names are lent to the thread
//! while one record is written or read. At all other times, an id has no JSON form.

use std::cell::RefCell;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Error as _, Serialize, Serializer};
use thiserror::Error;

use super::{FleetId, GpuId, JobId, NameTable, Names, NodeId};
use dryrack_nearest::nearest;

/// Why a name is not a valid id.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    #[error("no {kind} is named `{name}`{}", hint(.nearest))]
    Unknown { kind: &'static str, name: String, nearest: Option<String> },
    #[error("a {kind} named `{name}` was already declared")]
    Duplicate { kind: &'static str, name: String },
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or(String::new(), |name| format!("; did you mean `{name}`?"))
}

thread_local! {
    static LENT: RefCell<Option<LentNames>> = const { RefCell::new(None) };
}

struct LentNames {
    names: Names,
    fault: Option<NameError>,
}

/// Runs `work` while `names` are lent to the thread. Returns the result of `work` and the first name that could not be
/// resolved.
pub fn lend<T>(names: &mut Names, work: impl FnOnce() -> T) -> (T, Option<NameError>) {
    let lent = LentNames { names: std::mem::take(names), fault: None };
    LENT.with(|place| *place.borrow_mut() = Some(lent));
    let done = work();
    let lent = LENT.with(|place| place.borrow_mut().take()).expect("nothing in between takes them");
    *names = lent.names;
    (done, lent.fault)
}

fn with_lent<T>(work: impl FnOnce(&mut LentNames) -> T) -> Option<T> {
    LENT.with(|place| place.borrow_mut().as_mut().map(work))
}

const NOT_LENT: &str = "an id has a name only in a log";

trait Named: Copy {
    const KIND: &'static str;
    fn table(names: &mut Names) -> &mut NameTable;
    fn new(index: usize) -> Self;
    fn index(self) -> usize;
}

macro_rules! named {
    ($id:ident, $kind:literal, $table:ident) => {
        impl Named for $id {
            const KIND: &'static str = $kind;
            fn table(names: &mut Names) -> &mut NameTable {
                &mut names.$table
            }
            fn new(index: usize) -> $id {
                $id::new(index)
            }
            fn index(self) -> usize {
                $id::index(self)
            }
        }

        impl Serialize for $id {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                write(*self, serializer)
            }
        }

        impl<'de> Deserialize<'de> for $id {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$id, D::Error> {
                read(deserializer, find::<$id>)
            }
        }
    };
}

named!(NodeId, "node", nodes);
named!(JobId, "job", jobs);
named!(FleetId, "fleet", fleets);

/// The serialized form of an id where it is declared. When the form is read, the name must be new, and it gets the next
/// id.
pub mod declared {
    use super::{Deserializer, Named, Serializer};

    #[expect(private_bounds, reason = "the ids of this room and no others")]
    pub fn serialize<I: Named, S: Serializer>(id: &I, serializer: S) -> Result<S::Ok, S::Error> {
        super::write(*id, serializer)
    }

    #[expect(private_bounds, reason = "the ids of this room and no others")]
    pub fn deserialize<'de, I: Named, D: Deserializer<'de>>(deserializer: D) -> Result<I, D::Error> {
        super::read(deserializer, super::declare::<I>)
    }
}

fn write<I: Named, S: Serializer>(id: I, serializer: S) -> Result<S::Ok, S::Error> {
    if !serializer.is_human_readable() {
        return serializer.serialize_u32(id.index() as u32);
    }
    let written = with_lent(|lent| match I::table(&mut lent.names).get(id.index()) {
        Some(name) => serializer.serialize_str(name),
        None => Err(S::Error::custom(format_args!("{} {} was not declared", I::KIND, id.index()))),
    });
    written.unwrap_or_else(|| Err(S::Error::custom(NOT_LENT)))
}

fn read<'de, I: Named, D: Deserializer<'de>>(deserializer: D, take: Take<I>) -> Result<I, D::Error> {
    match deserializer.is_human_readable() {
        true => deserializer.deserialize_str(NameVisitor(take, I::KIND)),
        false => u32::deserialize(deserializer).map(|index| I::new(index as usize)),
    }
}

type Take<T> = fn(&mut Names, &str) -> Result<T, NameError>;

fn find<I: Named>(names: &mut Names, name: &str) -> Result<I, NameError> {
    let table = I::table(names);
    table.find(name).map(I::new).ok_or_else(|| NameError::Unknown {
        kind: I::KIND,
        name: name.to_string(),
        nearest: nearest(name, table.iter().map(|known| &**known)).map(str::to_string),
    })
}

fn declare<I: Named>(names: &mut Names, name: &str) -> Result<I, NameError> {
    let added = I::table(names).add(name.into());
    added.map(I::new).map_err(|_| NameError::Duplicate { kind: I::KIND, name: name.to_string() })
}

struct NameVisitor<T>(Take<T>, &'static str);

impl<T> Visitor<'_> for NameVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name of a {}", self.1)
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<T, E> {
        let taken = with_lent(|lent| {
            let taken = (self.0)(&mut lent.names, name);
            taken.map_err(|fault| E::custom(lent.fault.get_or_insert(fault)))
        });
        taken.unwrap_or_else(|| Err(E::custom(NOT_LENT)))
    }
}

impl Serialize for GpuId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return (self.node, self.index).serialize(serializer);
        }
        let written = with_lent(|lent| match lent.names.nodes.get(self.node.index()) {
            Some(name) => serializer.collect_str(&format_args!("{name}/{}", self.index)),
            None => Err(S::Error::custom(format_args!("node {} was not declared", self.node.index()))),
        });
        written.unwrap_or_else(|| Err(S::Error::custom(NOT_LENT)))
    }
}

impl<'de> Deserialize<'de> for GpuId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GpuId, D::Error> {
        if !deserializer.is_human_readable() {
            let (node, index) = Deserialize::deserialize(deserializer)?;
            return Ok(GpuId { node, index });
        }
        let (node, index) = deserializer.deserialize_str(GpuVisitor)?;
        Ok(GpuId { node, index })
    }
}

struct GpuVisitor;

impl Visitor<'_> for GpuVisitor {
    type Value = (NodeId, u16);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a GPU such as alpha/0")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(NodeId, u16), E> {
        let not_a_gpu = || E::custom(format_args!("expected a GPU such as alpha/0, found `{text}`"));
        let (node, index) = text.rsplit_once('/').ok_or_else(not_a_gpu)?;
        // `parse` also accepts `+0` and `00`, which are never written for an index.
        let index: u16 = index.parse().ok().filter(|known: &u16| known.to_string() == index).ok_or_else(not_a_gpu)?;
        NameVisitor(find::<NodeId>, NodeId::KIND).visit_str(node).map(|node| (node, index))
    }
}
