//! Serde support for trees: other crates can read their own types from a tree, and errors still have a span.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::diagnostic::Span;
use super::tree::{Entry, Node, Tree};

/// Why a tree does not match a type, with the innermost known place.
#[derive(Debug)]
pub struct Misfit {
    pub span: Option<Span>,
    pub message: String,
    /// The word that is not in `known`, if the error is an unknown word.
    pub word: Option<String>,
    pub known: &'static [&'static str],
    /// Whether a value is missing, as opposed to being wrong.
    pub is_missing: bool,
}

impl Misfit {
    fn new(message: String) -> Misfit {
        Misfit { span: None, message, word: None, known: &[], is_missing: false }
    }

    fn at(mut self, span: Span) -> Misfit {
        self.span.get_or_insert(span);
        self
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Misfit {}

impl Error for Misfit {
    fn custom<T: fmt::Display>(message: T) -> Misfit {
        Misfit::new(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Misfit {
        let plain = |word: &str| word.replace("a sequence", "a list").replace("sequence", "a list");
        Misfit::new(format!("expected {}, found {}", plain(&expected.to_string()), plain(&found.to_string())))
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Misfit {
        Misfit { word: Some(field.to_string()), known, ..Misfit::new(format!("unknown key `{field}`")) }
    }

    fn unknown_variant(variant: &str, known: &'static [&'static str]) -> Misfit {
        let message = format!("`{variant}` is not a known value");
        Misfit { word: Some(variant.to_string()), known, ..Misfit::new(message) }
    }

    fn missing_field(field: &'static str) -> Misfit {
        Misfit { is_missing: true, ..Misfit::new(format!("lacks `{field}`")) }
    }
}

impl Tree {
    fn parsed<T: std::str::FromStr>(&self, expected: &str) -> Result<T, Misfit> {
        let found = self.scalar().and_then(|text| text.parse().ok());
        found.ok_or_else(|| {
            let found = self.scalar().map_or(self.kind().to_string(), |text| format!("`{text}`"));
            Misfit::new(format!("expected {expected}, found {found}")).at(self.span)
        })
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident $kind:ty: $expected:literal;)*) => {
        $(fn $method<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Misfit> {
            let value: $kind = self.parsed($expected)?;
            visitor.$visit(value).map_err(|misfit: Misfit| misfit.at(self.span))
        })*
    };
}

impl<'t> Deserializer<'t> for &'t Tree {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let result = match &self.node {
            _ if self.is_nothing() => visitor.visit_unit(),
            Node::Scalar { text, .. } => visitor.visit_borrowed_str(text),
            Node::List(items) => visitor.visit_seq(Items(items.iter())),
            Node::Map(entries) => visitor.visit_map(Entries { entries: entries.iter(), value: None }),
        };
        result.map_err(|misfit| misfit.at(self.span))
    }

    parsed! {
        deserialize_bool visit_bool bool: "true or false";
        deserialize_i8 visit_i8 i8: "a whole number";
        deserialize_i16 visit_i16 i16: "a whole number";
        deserialize_i32 visit_i32 i32: "a whole number";
        deserialize_i64 visit_i64 i64: "a whole number";
        deserialize_u8 visit_u8 u8: "a whole number";
        deserialize_u16 visit_u16 u16: "a whole number";
        deserialize_u32 visit_u32 u32: "a whole number";
        deserialize_u64 visit_u64 u64: "a whole number";
        deserialize_f32 visit_f32 f32: "a number";
        deserialize_f64 visit_f64 f64: "a number";
    }

    fn deserialize_option<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.is_nothing() {
            true => visitor.visit_none(),
            false => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'t>>(self, _: &'static str, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'t>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let variant = match &self.node {
            Node::Scalar { text, .. } => Variant { name: text, span: self.span, content: None },
            Node::Map(entries) => match entries.as_slice() {
                [entry] => Variant { name: &entry.key, span: entry.key_span, content: Some(&entry.value) },
                _ => return Err(Misfit::new("expected a word, or a map with one key".to_string()).at(self.span)),
            },
            Node::List(_) => return Err(Misfit::new("expected a word, found a list".to_string()).at(self.span)),
        };
        visitor.visit_enum(variant).map_err(|misfit| misfit.at(self.span))
    }

    forward_to_deserialize_any! {
        <V: Visitor<'t>>
        i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
        ignored_any
    }
}

struct Items<'t>(std::slice::Iter<'t, Tree>);

impl<'t> SeqAccess<'t> for Items<'t> {
    type Error = Misfit;
    fn next_element_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<Option<S::Value>, Misfit> {
        self.0.next().map(|item| seed.deserialize(item)).transpose()
    }
}

struct Entries<'t> {
    entries: std::slice::Iter<'t, Entry>,
    value: Option<&'t Tree>,
}

impl<'t> MapAccess<'t> for Entries<'t> {
    type Error = Misfit;

    fn next_key_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<Option<S::Value>, Misfit> {
        let Some(entry) = self.entries.next() else { return Ok(None) };
        self.value = Some(&entry.value);
        seed.deserialize(Key(entry)).map(Some).map_err(|misfit: Misfit| misfit.at(entry.key_span))
    }

    fn next_value_seed<S: DeserializeSeed<'t>>(&mut self, seed: S) -> Result<S::Value, Misfit> {
        let value = self.value.take().ok_or_else(|| Misfit::new("a key without a value".to_string()))?;
        seed.deserialize(value).map_err(|misfit| misfit.at(value.span))
    }
}

/// A key of a map. It is text, which some types read as a whole number.
struct Key<'t>(&'t Entry);

macro_rules! parsed_key {
    ($($method:ident $visit:ident $kind:ty;)*) => {
        $(fn $method<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Misfit> {
            match self.0.key.parse::<$kind>() {
                Ok(number) => visitor.$visit(number),
                Err(_) => Err(Misfit::new(format!("expected a whole number as a key, found `{}`", self.0.key))),
            }
        })*
    };
}

impl<'t> Deserializer<'t> for Key<'t> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_borrowed_str(&self.0.key)
    }

    fn deserialize_enum<V: Visitor<'t>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_enum(Variant { name: &self.0.key, span: self.0.key_span, content: None })
    }

    fn deserialize_newtype_struct<V: Visitor<'t>>(self, _: &'static str, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    parsed_key! {
        deserialize_i64 visit_i64 i64;
        deserialize_u64 visit_u64 u64;
    }

    forward_to_deserialize_any! {
        <V: Visitor<'t>>
        bool i8 i16 i32 i128 u8 u16 u32 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Variant<'t> {
    name: &'t str,
    span: Span,
    content: Option<&'t Tree>,
}

impl<'t> EnumAccess<'t> for Variant<'t> {
    type Error = Misfit;
    type Variant = Variant<'t>;
    fn variant_seed<S: DeserializeSeed<'t>>(self, seed: S) -> Result<(S::Value, Variant<'t>), Misfit> {
        let name = seed.deserialize(self.name.into_deserializer());
        let name = name.map_err(|misfit: Misfit| misfit.at(self.span))?;
        Ok((name, self))
    }
}

impl<'t> Variant<'t> {
    fn content(&self) -> Result<&'t Tree, Misfit> {
        let missing = || Misfit::new(format!("`{0}` needs a value: `{{{0}: …}}`", self.name)).at(self.span);
        self.content.ok_or_else(missing)
    }
}

impl<'t> VariantAccess<'t> for Variant<'t> {
    type Error = Misfit;

    fn unit_variant(self) -> Result<(), Misfit> {
        match self.content {
            None => Ok(()),
            Some(content) => Err(Misfit::new(format!("`{}` takes no value", self.name)).at(content.span)),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'t>>(self, seed: S) -> Result<S::Value, Misfit> {
        let content = self.content()?;
        seed.deserialize(content).map_err(|misfit| misfit.at(content.span))
    }

    fn tuple_variant<V: Visitor<'t>>(self, _: usize, visitor: V) -> Result<V::Value, Misfit> {
        self.content()?.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'t>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Misfit> {
        self.content()?.deserialize_any(visitor)
    }
}
