//! The compact form of a record. It is the wire format of postcard 1.1 (version 1 of that format), written directly to
//! the end of a buffer. Integers of 16 bits and more, lengths and variant indexes are varints. Signed integers are
//! zigzag encoded. A struct is the sequence of its fields.
//!
//! Most of a record is small numbers. For these, a general serializer spends several times as much time in its layers
//! as on the bytes themselves. A test compares the bytes with postcard's.

use std::fmt;

use serde::Serialize;
use serde::ser::{
    self, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple, SerializeTupleStruct,
    SerializeTupleVariant, Serializer,
};

/// The output buffer.
pub struct Compact<'a>(pub &'a mut Vec<u8>);

/// The error type of [`Compact`], which has no variants, because every record has a compact form. A type without a
/// compact form, such as a sequence of unknown length, is a bug in this program, so no code has to pass errors on.
#[derive(Debug)]
pub enum NoCompactForm {}

impl fmt::Display for NoCompactForm {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for NoCompactForm {}

impl ser::Error for NoCompactForm {
    fn custom<T: fmt::Display>(message: T) -> NoCompactForm {
        panic!("a record has no compact form: {message}");
    }
}

/// The varint of any number below this limit fits in eight bytes.
const LARGEST_SPREAD: u64 = 1 << 56;

/// Encodes a number below [`LARGEST_SPREAD`] as a varint. Returns the varint as a word, and its length in bytes.
#[inline]
pub(super) fn spread(value: u64) -> (u64, usize) {
    let word = value & 0xfff_ffff | (value & 0xff_ffff_f000_0000) << 4;
    let word = word & 0x3fff_0000_3fff | (word & 0xfff_c000_0fff_c000) << 2;
    let word = word & 0x7f_007f_007f_007f | (word & 0x3f80_3f80_3f80_3f80) << 1;
    // The number of bits divided by seven, rounded up. For these numbers, 9/64 stands for 1/7, which needs no division.
    let length = ((64 - (value | 1).leading_zeros() as usize) * 9 + 64) / 64;
    // Every byte but the last says that another one follows.
    let more = 0x80_8080_8080_8080 >> (64 - 8 * length as u32);
    (word | more, length)
}

impl Compact<'_> {
    /// Appends a varint. The one-byte case is inlined, because most numbers are small.
    #[inline]
    pub(super) fn varint(&mut self, value: u64) {
        match value {
            0..0x80 => self.0.push(value as u8),
            _ => self.long_varint(value),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self, mut value: u64) {
        if value < LARGEST_SPREAD {
            let (word, length) = spread(value);
            return self.word(word, length);
        }
        let (mut bytes, mut length) = ([0; 10], 0);
        while value >= 0x80 {
            bytes[length] = value as u8 | 0x80;
            (value, length) = (value >> 7, length + 1);
        }
        bytes[length] = value as u8;
        self.0.extend_from_slice(&bytes[..=length]);
    }

    /// Appends the first `length` bytes of `word`, lowest byte first.
    #[inline]
    pub(super) fn word(&mut self, word: u64, length: usize) {
        let end = self.0.len() + length;
        self.0.extend_from_slice(&word.to_le_bytes());
        self.0.truncate(end);
    }

    #[inline]
    pub(super) fn zigzag(&mut self, value: i64) {
        self.varint((value << 1 ^ value >> 63) as u64);
    }

    fn length(&mut self, length: Option<usize>) {
        self.varint(length.expect("what a record holds has a known length") as u64);
    }
}

impl Serializer for &mut Compact<'_> {
    type Ok = ();
    type Error = NoCompactForm;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn serialize_bool(self, value: bool) -> Result<(), NoCompactForm> {
        self.serialize_u8(u8::from(value))
    }

    fn serialize_i8(self, value: i8) -> Result<(), NoCompactForm> {
        self.serialize_u8(value.cast_unsigned())
    }

    fn serialize_i16(self, value: i16) -> Result<(), NoCompactForm> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), NoCompactForm> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), NoCompactForm> {
        self.zigzag(value);
        Ok(())
    }

    fn serialize_u8(self, value: u8) -> Result<(), NoCompactForm> {
        self.0.push(value);
        Ok(())
    }

    fn serialize_u16(self, value: u16) -> Result<(), NoCompactForm> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), NoCompactForm> {
        self.serialize_u64(value.into())
    }

    #[inline]
    fn serialize_u64(self, value: u64) -> Result<(), NoCompactForm> {
        self.varint(value);
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), NoCompactForm> {
        self.0.extend_from_slice(&value.to_le_bytes());
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Result<(), NoCompactForm> {
        self.0.extend_from_slice(&value.to_le_bytes());
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), NoCompactForm> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), NoCompactForm> {
        self.serialize_bytes(value.as_bytes())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), NoCompactForm> {
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), NoCompactForm> {
        self.serialize_u8(0)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), NoCompactForm> {
        self.0.push(1);
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), NoCompactForm> {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), NoCompactForm> {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, index: u32, _: &'static str) -> Result<(), NoCompactForm> {
        self.serialize_u32(index)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), NoCompactForm> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), NoCompactForm> {
        self.varint(index.into());
        value.serialize(self)
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Self, NoCompactForm> {
        self.length(length);
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, NoCompactForm> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, NoCompactForm> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, NoCompactForm> {
        self.varint(index.into());
        Ok(self)
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Self, NoCompactForm> {
        self.length(length);
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, NoCompactForm> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, NoCompactForm> {
        self.varint(index.into());
        Ok(self)
    }
}

/// Implements a serializer for a compound value. The compact form of such a value is the sequence of its parts.
macro_rules! parts {
    ($($of:ident :: $part:ident ($($name:ty)?);)*) => {
        $(impl $of for &mut Compact<'_> {
            type Ok = ();
            type Error = NoCompactForm;

            fn $part<T: Serialize + ?Sized>(&mut self, $(_: $name,)? value: &T) -> Result<(), NoCompactForm> {
                value.serialize(&mut **self)
            }

            fn end(self) -> Result<(), NoCompactForm> {
                Ok(())
            }
        })*
    };
}

parts! {
    SerializeSeq::serialize_element();
    SerializeTuple::serialize_element();
    SerializeTupleStruct::serialize_field();
    SerializeTupleVariant::serialize_field();
    SerializeStruct::serialize_field(&'static str);
    SerializeStructVariant::serialize_field(&'static str);
}

impl SerializeMap for &mut Compact<'_> {
    type Ok = ();
    type Error = NoCompactForm;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), NoCompactForm> {
        key.serialize(&mut **self)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NoCompactForm> {
        value.serialize(&mut **self)
    }

    fn end(self) -> Result<(), NoCompactForm> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Serialize;

    use super::Compact;

    #[derive(Serialize)]
    enum Kind {
        Unit,
        New(i32),
        Tuple(u16, i64),
        Struct { share: f64, few: Option<u8> },
    }

    #[derive(Serialize)]
    struct Marker;

    fn compact(value: &impl Serialize) -> Vec<u8> {
        let mut bytes = Vec::new();
        value.serialize(&mut Compact(&mut bytes)).unwrap();
        bytes
    }

    #[test]
    fn whatever_a_record_may_hold_has_the_bytes_that_postcard_gives_it() {
        let edges = |bits: u32| [0, 1, 127, 128, 16_383, 16_384, (1 << (bits - 1)) - 1, u64::MAX >> (64 - bits)];
        // The smallest and the largest number for each length of a varint.
        let ends = (0..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit]);
        for value in [8, 16, 32, 64].into_iter().flat_map(edges).chain(ends) {
            let (wide, narrow) = ((value, value as u32, value as u16, value as u8), (value as i64, value as i32));
            let rest = (value as i16, value as i8, value as f32, value as f64, value % 2 == 0);
            assert_eq!(compact(&(wide, narrow, rest)), postcard::to_allocvec(&(wide, narrow, rest)).unwrap());
        }
        let kinds = [Kind::Unit, Kind::New(-3), Kind::Tuple(300, -1 << 40), Kind::Struct { share: -0.5, few: Some(7) }];
        let map: BTreeMap<&str, Vec<char>> = [("", vec![]), ("two", vec!['a', 'é', '😀'])].into();
        let all = (kinds, map, Marker, (), Some("text"), None::<u64>);
        assert_eq!(compact(&all), postcard::to_allocvec(&all).unwrap());
    }
}
