//! Classes of pods with the same namespace and labels. Selectors are matched once for each class, not for each pod.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::PodInfo;
use crate::object::Labels;

/// The number of a class. It is used again once the class has no pods.
pub type ClassId = u32;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodClass {
    pub namespace: Arc<str>,
    pub labels: Labels,
    pub is_being_deleted: bool,
}

/// The classes of all pods that are on nodes.
#[derive(Debug, Default)]
pub struct PodClasses {
    ids: HashMap<Arc<PodClass>, ClassId, FixedState>,
    /// Each class with its number of pods. A class without pods is None.
    classes: Vec<Option<(Arc<PodClass>, usize)>>,
    unused: Vec<ClassId>,
}

impl PodClasses {
    /// Counts a pod that is put on a node.
    pub fn enter(&mut self, pod: &PodInfo) -> ClassId {
        let class = PodClass {
            namespace: Arc::clone(&pod.namespace),
            labels: pod.labels().clone(),
            is_being_deleted: pod.is_being_deleted(),
        };
        if let Some(id) = self.ids.get(&class) {
            if let Some((_, pods)) = &mut self.classes[*id as usize] {
                *pods += 1;
            }
            return *id;
        }
        let id = self.unused.pop().unwrap_or_else(|| {
            self.classes.push(None);
            (self.classes.len() - 1) as ClassId
        });
        let class = Arc::new(class);
        self.classes[id as usize] = Some((Arc::clone(&class), 1));
        self.ids.insert(class, id);
        id
    }

    /// Counts a pod that is taken off a node.
    pub fn leave(&mut self, id: ClassId) {
        let Some((class, pods)) = &mut self.classes[id as usize] else { return };
        *pods -= 1;
        if *pods == 0 {
            self.ids.remove(class);
            self.classes[id as usize] = None;
            self.unused.push(id);
        }
    }

    /// The answer of a question for each class, by number.
    pub fn map<A: Default>(&self, ask: impl Fn(&PodClass) -> A) -> Vec<A> {
        self.classes.iter().map(|class| class.as_ref().map_or_else(A::default, |(class, _)| ask(class))).collect()
    }
}
