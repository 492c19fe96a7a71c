//! Visits every name in an object.

use serde_json::{Map, Value};

use super::well_known::value_of;
use crate::kinds::{KINDS, Kind};
use crate::read::Object;
use crate::shape::{Fields, Named, Shape};

/// Is given each name, and returns its replacement.
type Visitor<'v> = dyn FnMut(Named, &str) -> Option<String> + 'v;

/// Visits the names in an object, and replaces them.
pub fn names(object: &mut Object, visitor: &mut Visitor<'_>) {
    let known = object.kind.known();
    let own = if object.kind == Kind::Slice { Named::Pool } else { known.named };
    fields(&mut object.value, known.fields, own, visitor);
}

fn replace(value: &mut Value, named: Named, visitor: &mut Visitor<'_>) {
    let Value::String(text) = value else { return };
    if named == Named::Image {
        *text = with_tag(text);
    }
    if let Some(new) = visitor(named, text) {
        *text = new;
    }
}

/// The name of an image as the scheduler compares it: with a tag.
fn with_tag(image: &str) -> String {
    let has_tag = image.rfind(':').is_some_and(|colon| image.rfind('/').is_none_or(|slash| colon > slash));
    if has_tag || image.is_empty() { image.to_string() } else { format!("{image}:latest") }
}

fn fields(map: &mut Map<String, Value>, of: &'static Fields, own: Named, visitor: &mut Visitor<'_>) {
    // The fields beside it, before any of them is replaced.
    let beside = map.clone();
    for (key, value) in map.iter_mut() {
        if let Some(shape) = of.shape_of(key) {
            visit(value, shape, own, &beside, visitor);
        }
    }
}

fn visit(value: &mut Value, shape: &'static Shape, own: Named, beside: &Map<String, Value>, visitor: &mut Visitor<'_>) {
    let text_beside = |key: &str| beside.get(key).and_then(Value::as_str).unwrap_or_default();
    match shape {
        Shape::Name(named) => replace(value, *named, visitor),
        Shape::OwnName => replace(value, own, visitor),
        Shape::NameOfKind(key) => {
            let kind = KINDS.iter().find(|known| known.name == text_beside(key));
            replace(value, kind.map_or(Named::Workload, |known| known.named), visitor);
        }
        Shape::LabelValue(key) => {
            if let Some(named) = value_of(text_beside(key)) {
                replace(value, named, visitor);
            }
        }
        Shape::Parts => parts(value, visitor),
        Shape::Qualified => qualified(value, visitor),
        Shape::GroupVersion => group(value, visitor),
        Shape::List(item) => {
            value.as_array_mut().into_iter().flatten().for_each(|each| visit(each, item, own, beside, visitor));
        }
        Shape::Map(named, inner) => {
            keyed(value, |key| named.and_then(|named| renamed_key(named, key, visitor)));
            for (key, each) in value.as_object_mut().into_iter().flatten() {
                match (named, inner) {
                    (Some(Named::Attribute), Shape::Fields(_)) if is_serial(key) => {
                        each.as_object_mut()
                            .into_iter()
                            .flatten()
                            .for_each(|(_, text)| replace(text, Named::Serial, visitor));
                    }
                    _ => visit(each, inner, own, beside, visitor),
                }
            }
        }
        Shape::Labels => {
            for (key, each) in value.as_object_mut().into_iter().flatten() {
                if let Some(named) = value_of(key) {
                    replace(each, named, visitor);
                }
            }
            keyed(value, |key| visitor(Named::LabelKey, key));
        }
        Shape::Annotations => {
            for (key, each) in value.as_object_mut().into_iter().flatten() {
                if let Some(named) = value_of(key).filter(|named| *named != Named::LabelValue) {
                    replace(each, named, visitor);
                }
            }
        }
        Shape::Fields(of) => {
            if let Value::Object(map) = value {
                fields(map, of, own, visitor);
            }
        }
        // Expressions are changed after the names are known.
        Shape::Text
        | Shape::Expression
        | Shape::Word(_)
        | Shape::Whole { .. }
        | Shape::Bool
        | Shape::Quantity
        | Shape::Time
        | Shape::CountOrPercent
        | Shape::Examined(_) => {}
    }
}

/// Whether an attribute identifies one device.
fn is_serial(attribute: &str) -> bool {
    let name = attribute.to_ascii_lowercase();
    ["uuid", "serial", "pci", "address"].iter().any(|part| name.contains(part))
}

/// Replaces the keys of a map. Their order stays.
fn keyed(value: &mut Value, mut new: impl FnMut(&str) -> Option<String>) {
    if let Value::Object(map) = value {
        let old = std::mem::take(map);
        map.extend(old.into_iter().map(|(key, value)| (new(&key).unwrap_or(key), value)));
    }
}

fn renamed_key(named: Named, key: &str, visitor: &mut Visitor<'_>) -> Option<String> {
    if named != Named::Attribute {
        return visitor(named, key);
    }
    let (driver, rest) = key.split_once('/')?;
    Some(format!("{}/{rest}", visitor(Named::Driver, driver)?))
}

/// Names of parts, separated by `/`.
fn parts(value: &mut Value, visitor: &mut Visitor<'_>) {
    if let Value::String(text) = value {
        let new: Vec<String> =
            text.split('/').map(|part| visitor(Named::Part, part).unwrap_or_else(|| part.to_string())).collect();
        *text = new.join("/");
    }
}

/// A name that begins with a driver.
fn qualified(value: &mut Value, visitor: &mut Visitor<'_>) {
    if let Value::String(text) = value
        && let Some(new) = renamed_key(Named::Attribute, text, visitor)
    {
        *text = new;
    }
}

/// The group of a kind, before its version.
fn group(value: &mut Value, visitor: &mut Visitor<'_>) {
    if let Value::String(text) = value
        && let Some((group, version)) = text.split_once('/')
        && let Some(new) = visitor(Named::Group, group)
    {
        *text = format!("{new}/{version}");
    }
}
