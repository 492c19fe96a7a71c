//! The fields of scenario files, as data: what a field may be.

/// The allowed values of a key.
pub(super) enum Kind {
    Text,
    /// A number with a unit, or a plain number, as in the example.
    Amount(&'static str),
    Whole,
    Flag,
    /// One of these words.
    Words(fn() -> Vec<&'static str>),
    /// Any text. Editors suggest these words.
    Offered(fn() -> Vec<&'static str>),
    /// The kind of map with this name.
    Map(&'static str),
    ListOf(&'static Kind),
    /// One value, or a list of them.
    Some(&'static Kind),
    /// A map with arbitrary keys and these values.
    Named(&'static Kind),
    Either(&'static [Kind]),
    /// Any value, as for parameters and axes.
    Any,
    /// Not a key: inserts all of these fields.
    Also(&'static [Field]),
}

/// A key, its allowed values, and its description.
pub(super) type Field = (&'static str, Kind, &'static str);

/// One kind of map.
pub(super) struct Shape {
    pub name: &'static str,
    /// The names of this map in diagnostics. A map with several forms has several names.
    pub called: &'static [&'static str],
    pub required: &'static [&'static str],
    pub fields: &'static [Field],
}

impl Shape {
    /// Its keys, sorted.
    #[cfg(test)]
    pub fn keys(&self) -> Vec<&'static str> {
        let mut keys: Vec<&str> = self.all_fields().map(|(key, ..)| *key).collect();
        keys.sort_unstable();
        keys
    }

    /// All fields of this map, with shared fields inserted.
    pub fn all_fields(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().flat_map(|field| match &field.1 {
            Kind::Also(shared) => shared.iter(),
            _ => std::slice::from_ref(field).iter(),
        })
    }
}
