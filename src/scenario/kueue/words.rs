//! Trees of objects, made of parts of other trees.

use dryrack_yaml::{Entry, Fields, Node, Span, Tree};

pub fn scalar(text: &str, span: Span) -> Tree {
    Tree { span, node: Node::Scalar { text: text.to_string(), quoted: true } }
}

pub fn map(span: Span, parts: Vec<(&str, Tree)>) -> Tree {
    let entry = |(key, value): (&str, Tree)| Entry { key: key.to_string(), key_span: value.span, value };
    Tree { span, node: Node::Map(parts.into_iter().map(entry).collect()) }
}

/// The tree as it is. A plain scalar keeps the type that YAML gives it.
pub fn copied(tree: &Tree) -> Tree {
    tree.clone()
}

pub fn entries(tree: &Tree) -> &[Entry] {
    match &tree.node {
        Node::Map(entries) => entries,
        Node::Scalar { .. } | Node::List(_) => &[],
    }
}

/// The names of short entries.
pub fn flat(trees: &[Tree]) -> impl Iterator<Item = String> + '_ {
    trees.iter().filter_map(|tree| tree.get("name")?.scalar().map(str::to_string))
}

/// The names of the manifests of a kind.
pub fn named_of<'t>(trees: &'t [Tree], kind: &'static str) -> impl Iterator<Item = String> + 't {
    of_kind(trees, kind).filter_map(|tree| tree.get("metadata")?.get("name")?.scalar().map(str::to_string))
}

fn of_kind<'t>(trees: &'t [Tree], kind: &'static str) -> impl Iterator<Item = &'t Tree> {
    let own =
        trees.iter().chain(trees.iter().filter_map(|tree| tree.get("items")).flat_map(|items| match &items.node {
            Node::List(items) => items.as_slice(),
            Node::Scalar { .. } | Node::Map(_) => &[],
        }));
    own.filter(move |tree| tree.get("kind").and_then(Tree::scalar) == Some(kind))
}

/// The ClusterQueue of the LocalQueue with this name.
pub fn target_of<'t>(trees: &'t [Tree], name: &str) -> Option<&'t Tree> {
    let is_it = |tree: &&Tree| tree.get("metadata").and_then(|it| it.get("name")).and_then(Tree::scalar) == Some(name);
    of_kind(trees, "LocalQueue").find(is_it)?.get("spec")?.get("clusterQueue")
}

/// An object of Kueue's API that is being made.
pub struct Object {
    kind: &'static str,
    span: Span,
    metadata: Vec<Entry>,
    spec: Vec<Entry>,
}

impl Object {
    /// An object with the name in the fields.
    pub fn new(kind: &'static str, fields: &Fields<'_>) -> Object {
        let name = fields.get("name").cloned();
        let span = name.as_ref().map_or(fields.place(), |name| name.span);
        let name = name.into_iter().map(|value| Entry { key: "name".to_string(), key_span: span, value });
        Object { kind, span, metadata: name.collect(), spec: Vec::new() }
    }

    pub fn bare(kind: &'static str, name: &str, span: Span) -> Object {
        let name = Entry { key: "name".to_string(), key_span: span, value: scalar(name, span) };
        Object { kind, span, metadata: vec![name], spec: Vec::new() }
    }

    /// Sets a field of the spec.
    pub fn set(&mut self, key: &str, key_span: Span, value: Tree) {
        self.spec.push(Entry { key: key.to_string(), key_span, value });
    }

    pub fn list(&mut self, key: &str, span: Span, items: Vec<Tree>) {
        self.set(key, span, Tree { span, node: Node::List(items) });
    }

    /// Copies a field into the spec under the name that it has in the API.
    pub fn copy(&mut self, fields: &Fields<'_>, word: &str, key: &str) {
        if let Some(tree) = fields.get(word) {
            self.set(key, fields.key_span(word), copied(tree));
        }
    }

    pub fn in_namespace(&mut self, fields: &Fields<'_>) {
        if let Some(tree) = fields.get("namespace") {
            let key_span = fields.key_span("namespace");
            self.metadata.push(Entry { key: "namespace".to_string(), key_span, value: copied(tree) });
        }
    }

    /// Makes the object a change at this time.
    pub fn patches_at(&mut self, at: &Tree) {
        let at = scalar(at.scalar().unwrap_or_default(), at.span);
        let span = at.span;
        let annotations = map(span, vec![("dryrack/at", at), ("dryrack/patch", scalar("true", span))]);
        self.metadata.push(Entry { key: "annotations".to_string(), key_span: span, value: annotations });
    }

    pub fn finish(self) -> Tree {
        let Object { kind, span, metadata, spec } = self;
        let part = |entries| Tree { span, node: Node::Map(entries) };
        map(
            span,
            vec![
                ("apiVersion", scalar("kueue.x-k8s.io/v1beta2", span)),
                ("kind", scalar(kind, span)),
                ("metadata", part(metadata)),
                ("spec", part(spec)),
            ],
        )
    }
}
