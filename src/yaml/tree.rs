//! YAML as a tree that remembers the place of each part.

use super::diagnostic::Span;

/// A value in a file.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The range from its first byte to its last. The span of a block ends where the next item begins.
    pub span: Span,
    pub node: Node,
}

#[derive(Clone, Debug)]
pub enum Node {
    Scalar {
        text: String,
        /// Whether it is quoted or a block scalar. Such a scalar never counts as empty.
        quoted: bool,
    },
    List(Vec<Tree>),
    Map(Vec<Entry>),
}

/// One key of a map with its value. The keys of a map are unique.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    pub key_span: Span,
    pub value: Tree,
}

impl Tree {
    pub fn map(span: Span) -> Tree {
        Tree { span, node: Node::Map(Vec::new()) }
    }

    /// Whether the value is empty: `key:`, `~` or `null`.
    pub fn is_nothing(&self) -> bool {
        match &self.node {
            Node::Scalar { text, quoted: false } => matches!(text.as_str(), "" | "~" | "null"),
            Node::Scalar { .. } | Node::List(_) | Node::Map(_) => false,
        }
    }

    /// The kind of value in words, for messages such as "found a list".
    pub fn kind(&self) -> &'static str {
        match &self.node {
            _ if self.is_nothing() => "nothing",
            Node::Scalar { .. } => "a single value",
            Node::List(_) => "a list",
            Node::Map(_) => "a map",
        }
    }

    pub fn scalar(&self) -> Option<&str> {
        match &self.node {
            Node::Scalar { text, .. } if !self.is_nothing() => Some(text),
            _ => None,
        }
    }

    pub fn get(&self, key: &str) -> Option<&Tree> {
        match &self.node {
            Node::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value),
            Node::Scalar { .. } | Node::List(_) => None,
        }
    }

    /// Sets the place of the whole tree.
    pub fn place(&mut self, span: Span) {
        self.span = span;
        match &mut self.node {
            Node::Scalar { .. } => {}
            Node::List(items) => items.iter_mut().for_each(|item| item.place(span)),
            Node::Map(entries) => entries.iter_mut().for_each(|entry| {
                entry.key_span = span;
                entry.value.place(span);
            }),
        }
    }

    /// The number of nodes in the tree, including this one and the keys of maps.
    pub fn size(&self) -> usize {
        match &self.node {
            Node::Scalar { .. } => 1,
            Node::List(items) => 1 + items.iter().map(Tree::size).sum::<usize>(),
            Node::Map(entries) => 1 + entries.iter().map(|entry| 1 + entry.value.size()).sum::<usize>(),
        }
    }

    /// The same data as JSON. A plain scalar has the type of YAML's core schema; a quoted scalar is text.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.node {
            _ if self.is_nothing() => Json::Null,
            Node::Scalar { text, quoted: true } => Json::String(text.clone()),
            Node::Scalar { text, quoted: false } => match text.as_str() {
                "true" => Json::Bool(true),
                "false" => Json::Bool(false),
                other => serde_json::from_str(other)
                    .ok()
                    .filter(Json::is_number)
                    .unwrap_or_else(|| Json::String(other.to_string())),
            },
            Node::List(items) => Json::Array(items.iter().map(Tree::to_json).collect()),
            Node::Map(entries) => entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect(),
        }
    }

    /// The number of levels, including this one.
    pub(super) fn depth(&self) -> usize {
        match &self.node {
            Node::Scalar { .. } => 1,
            Node::List(items) => 1 + items.iter().map(Tree::depth).max().unwrap_or(0),
            Node::Map(entries) => 1 + entries.iter().map(|entry| entry.value.depth()).max().unwrap_or(0),
        }
    }

    /// Merges `over` into this tree. Maps are merged key by key; any other value is replaced.
    pub fn overlaid(self, over: Tree) -> Tree {
        match (self.node, over.node) {
            (Node::Map(mut below), Node::Map(above)) => {
                for entry in above {
                    match below.iter_mut().find(|known| known.key == entry.key) {
                        Some(known) => {
                            let kept = std::mem::replace(&mut known.value, Tree::map(entry.key_span));
                            known.value = kept.overlaid(entry.value);
                            known.key_span = entry.key_span;
                        }
                        None => below.push(entry),
                    }
                }
                Tree { span: over.span, node: Node::Map(below) }
            }
            (_, node) => Tree { span: over.span, node },
        }
    }

    /// Whether both trees have equal data, even at different places.
    pub fn is_alike(&self, other: &Tree) -> bool {
        match (&self.node, &other.node) {
            (Node::Scalar { text, .. }, Node::Scalar { text: other_text, .. }) => {
                (self.is_nothing() && other.is_nothing())
                    || (self.is_nothing() == other.is_nothing() && text == other_text)
            }
            (Node::List(items), Node::List(others)) => {
                items.len() == others.len() && items.iter().zip(others).all(|(one, two)| one.is_alike(two))
            }
            (Node::Map(entries), Node::Map(others)) => {
                entries.len() == others.len()
                    && entries.iter().zip(others).all(|(one, two)| one.key == two.key && one.value.is_alike(&two.value))
            }
            _ => false,
        }
    }
}
