//! A watch: the changes of one kind of object, one line of JSON each.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use super::fault::Fault;
use super::key::ObjectKey;
use super::path::Query;
use super::read::text_in;
use super::selector::Selector;
use super::shared::Shared;
use super::store::Store;
use super::table::{Change, Stored};

/// How many changes are written at once.
const MOST_AT_ONCE: usize = 16;

/// How long a watch lasts if the client states no time.
const LONGEST: Duration = Duration::from_secs(3600);

/// What a watch selects, and how far it has come.
pub(crate) struct Watch {
    number: u64,
    table: usize,
    version: String,
    key: ObjectKey,
    selector: Selector,
    start: u64,
    delivered: u64,
    has_bookmarks: bool,
    lasts: Duration,
    news: watch::Receiver<u64>,
    /// Lines about the state at the start.
    first: Vec<String>,
}

impl Watch {
    /// Opens a watch of a kind, or of one object if the name is not empty.
    pub(crate) fn open(
        store: &mut Store,
        table: usize,
        version: &str,
        key: ObjectKey,
        query: &Query,
    ) -> Result<Watch, Fault> {
        let kind = Arc::clone(&store.tables[table].resource.kind);
        let selector = Selector::parse(&kind, query.label_selector.as_deref(), query.field_selector.as_deref())?;
        let asked = query.version()?;
        if let Some(asked) = asked.filter(|asked| *asked > store.version) {
            return Err(Fault::FutureVersion { asked, current: store.version });
        }
        if let Some(asked) = asked.filter(|asked| !store.tables[table].reaches(*asked)) {
            return Err(Fault::Expired(format!("too old resource version: {asked}")));
        }
        store.numbers += 1;
        let number = store.numbers;
        let present = asked.is_none() || query.send_initial_events;
        let start = if present { store.version } else { asked.unwrap_or(store.version) };
        let news = store.tables[table].open(number, start);
        let has_bookmarks = query.bookmarks;
        let lasts = query.timeout_seconds.map_or(LONGEST, |seconds| Duration::from_secs(seconds).min(LONGEST));
        let mut watch = Watch {
            number,
            table,
            version: version.to_owned(),
            key,
            selector,
            start,
            delivered: start,
            has_bookmarks,
            lasts,
            news,
            first: Vec::new(),
        };
        if present {
            let objects: Vec<Arc<Stored>> = store.tables[table].objects.values().map(Arc::clone).collect();
            let selected = objects.iter().filter(|stored| watch.selects(&stored.value));
            watch.first = selected.map(|stored| watch.line(store, "ADDED", stored)).collect();
        }
        if query.send_initial_events {
            let bookmark = watch.bookmark(store, true);
            watch.first.push(bookmark);
        }
        Ok(watch)
    }

    fn selects(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let is = |field: &str, asked: &str| asked.is_empty() || metadata[field].as_str() == Some(asked);
        is("namespace", &self.key.namespace) && is("name", &self.key.name) && self.selector.selects(object)
    }

    fn line(&self, store: &Store, kind: &str, stored: &Stored) -> String {
        format!("{{\"type\":\"{kind}\",\"object\":{}}}\n", text_in(store, self.table, &self.version, stored))
    }

    /// A change as the client sees it: an object that the selector no longer selects is deleted for it.
    fn line_of(&self, store: &Store, change: &Change) -> Option<String> {
        let selected =
            |stored: &Option<Arc<Stored>>| stored.as_ref().filter(|stored| self.selects(&stored.value)).map(Arc::clone);
        match (selected(&change.old), selected(&change.new)) {
            (None, None) => None,
            (None, Some(new)) => Some(self.line(store, "ADDED", &new)),
            (Some(_), Some(new)) => Some(self.line(store, "MODIFIED", &new)),
            (Some(old), None) => {
                let mut value = (*old.value).clone();
                value["metadata"]["resourceVersion"] = Value::from(change.version.to_string());
                let last = Stored { text: Arc::from(value.to_string()), value: Arc::new(value), ..*old };
                Some(self.line(store, "DELETED", &last))
            }
        }
    }

    fn bookmark(&self, store: &Store, ends_initial_events: bool) -> String {
        let resource = &store.tables[self.table].resource;
        let mut metadata = json!({"resourceVersion": self.delivered.to_string(), "creationTimestamp": null});
        if ends_initial_events {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let api_version = resource.api_version(&self.version);
        let object = json!({"kind": &*resource.kind, "apiVersion": api_version, "metadata": metadata});
        format!("{}\n", json!({"type": "BOOKMARK", "object": object}))
    }

    /// The next lines, and whether the watch then ends.
    fn next(&mut self, store: &Store) -> (String, bool) {
        let mut lines = std::mem::take(&mut self.first).concat();
        let changes = store.tables[self.table].after(self.delivered, MOST_AT_ONCE);
        for change in &changes {
            lines.extend(self.line_of(store, change));
            self.delivered = change.version;
        }
        let ends = changes.len() < MOST_AT_ONCE && store.tables[self.table].ends(self.start, self.delivered);
        if ends && self.has_bookmarks {
            lines.push_str(&self.bookmark(store, false));
        }
        (lines, ends)
    }

    /// Writes changes until the client leaves, its time is over, or it leaves an event unread for too long.
    pub(crate) async fn run(mut self, shared: Arc<Shared>, out: mpsc::Sender<Bytes>) {
        let end = Instant::now() + self.lasts;
        loop {
            let (mut lines, mut ends, unread) = {
                let store = shared.lock();
                let (lines, ends) = self.next(&store);
                (lines, ends, store.limits.unread)
            };
            if !ends && lines.is_empty() {
                tokio::select! {
                    news = self.news.changed() => ends = news.is_err(),
                    () = out.closed() => ends = true,
                    () = tokio::time::sleep_until(end) => {
                        ends = true;
                        if self.has_bookmarks {
                            lines = self.bookmark(&shared.lock(), false);
                        }
                    }
                }
            }
            if !lines.is_empty() && !matches!(timeout(unread, out.send(Bytes::from(lines))).await, Ok(Ok(()))) {
                ends = true;
            }
            if ends {
                break;
            }
        }
        shared.lock().tables[self.table].close(self.number);
        shared.notify();
    }
}
