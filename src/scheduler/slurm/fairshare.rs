//! Fair share: how much of the cluster the users of each account should get, and how much they have used.
//!
//! Accounts and users form a tree of associations. Each association has shares relative to its siblings, and a raw usage:
//! resources multiplied by time, of which old usage counts less. The factor of a user follows from the tree by one of
//! two algorithms, *Fair Tree* (the default since Slurm 19.05) and the classic one (`PriorityFlags=NO_FAIR_TREE`). The
//! formulas are those of the pages *Fair Tree Fairshare Algorithm* and *Classic Fairshare Algorithm* of Slurm's
//! documentation. What the pages leave open (when usage is charged, how it decays, how ties are merged) was read from
//! `sshare -l` of Slurm 22.05.8.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use dryrack_planted::planted;
use dryrack_units::SimDuration;

/// The user and the account that every Slurm has.
const ROOT: &str = "root";

/// An account (`sacctmgr add account`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// Name.
    pub name: Arc<str>,
    /// The account above it. The root account if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Arc<str>>,
    /// Its shares, relative to those of its siblings.
    #[serde(default = "one")]
    pub fairshare: u32,
    /// Its users, each with the user's shares.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub users: BTreeMap<Arc<str>, u32>,
}

fn one() -> u32 {
    1
}

/// How factors follow from usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareAlgorithm {
    FairTree,
    Classic,
}

/// A user in an account, or an account.
#[derive(Clone, Debug)]
struct Association {
    parent: Option<usize>,
    children: Vec<usize>,
    is_user: bool,
    shares: u32,
    /// Its shares relative to those of all its siblings.
    level_shares: f64,
    /// Its part of the whole cluster: the product of the relative shares from the root down to it.
    shares_norm: f64,
    usage: f64,
    factor: f64,
}

/// All associations with their usage. Number 0 is the root account.
#[derive(Clone, Debug)]
pub struct Associations {
    all: Vec<Association>,
    by_name: BTreeMap<(Arc<str>, Option<Arc<str>>), usize>,
    /// The account of each user's jobs that name none.
    default_accounts: BTreeMap<Arc<str>, Arc<str>>,
    users: u32,
}

impl Associations {
    /// The associations of these accounts, beside the user `root` of the root account. Accounts that are not below the
    /// root account are left out: they are errors of the configuration.
    pub fn of(accounts: &[Account]) -> Associations {
        let root = Association::new(None, 1, false);
        let mut tree =
            Associations { all: vec![root], by_name: BTreeMap::new(), default_accounts: BTreeMap::new(), users: 0 };
        let name: Arc<str> = Arc::from(ROOT);
        tree.by_name.insert((Arc::clone(&name), None), 0);
        tree.add(0, (&name, Some(&name)), 1);
        // Parents come first. An account can be listed before its parent.
        let mut left: Vec<&Account> = accounts.iter().collect();
        while !left.is_empty() {
            let before = left.len();
            left.retain(|account| {
                let parent = account.parent.as_ref().unwrap_or(&name);
                let Some(parent) = tree.by_name.get(&(Arc::clone(parent), None)).copied() else { return true };
                let own = tree.add(parent, (&account.name, None), account.fairshare);
                account.users.iter().for_each(|(user, shares)| {
                    tree.add(own, (&account.name, Some(user)), *shares);
                });
                false
            });
            if left.len() == before {
                break;
            }
        }
        for account in accounts {
            for user in account.users.keys() {
                tree.default_accounts.entry(Arc::clone(user)).or_insert_with(|| Arc::clone(&account.name));
            }
        }
        tree.default_accounts.entry(Arc::clone(&name)).or_insert(name);
        tree.set_shares(0, 1.0);
        tree
    }

    fn add(&mut self, parent: usize, (account, user): (&Arc<str>, Option<&Arc<str>>), shares: u32) -> usize {
        let own = self.all.len();
        self.all.push(Association::new(Some(parent), shares, user.is_some()));
        self.all[parent].children.push(own);
        self.by_name.insert((Arc::clone(account), user.cloned()), own);
        self.users += u32::from(user.is_some());
        own
    }

    fn set_shares(&mut self, of: usize, norm: f64) {
        self.all[of].shares_norm = norm;
        let children = self.all[of].children.clone();
        let sum: u64 = children.iter().map(|child| u64::from(self.all[*child].shares)).sum();
        for child in children {
            let own = f64::from(self.all[child].shares);
            let level = if sum == 0 { 0.0 } else { own / sum as f64 };
            self.all[child].level_shares = level;
            self.set_shares(child, norm * level);
        }
    }

    /// The account of a user's jobs that name none. `None` if no account has this user.
    pub fn default_account(&self, user: &str) -> Option<&Arc<str>> {
        self.default_accounts.get(user)
    }

    /// The association of a user in an account.
    pub fn find(&self, user: &str, account: &str) -> Option<usize> {
        self.by_name.get(&(Arc::from(account), Some(Arc::from(user)))).copied()
    }

    /// Adds usage to an association and to all accounts above it.
    pub fn charge(&mut self, association: usize, usage: f64) {
        let mut next = Some(association);
        while let Some(own) = next {
            self.all[own].usage += usage;
            next = self.all[own].parent;
        }
    }

    /// Multiplies all past usage with a number from 0 to 1.
    pub fn decay(&mut self, kept: f64) {
        let kept = if planted!(SlurmUsageNeverDecays) { 1.0 } else { kept };
        self.all.iter_mut().for_each(|own| own.usage *= kept);
    }

    /// The usage of an association so far.
    pub fn usage(&self, association: usize) -> f64 {
        self.all[association].usage
    }

    /// The factor of an association, from 0 to 1, as it was last computed.
    pub fn factor(&self, association: usize) -> f64 {
        self.all[association].factor
    }

    /// The number of associations.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Takes over the usage of the associations that are in both trees.
    pub fn take_usage_of(&mut self, before: &Associations) {
        for (name, old) in before.by_name.iter().filter(|(_, old)| before.all[**old].is_user) {
            if let Some(own) = self.by_name.get(name).copied() {
                self.charge(own, before.all[*old].usage);
            }
        }
    }

    /// Computes the factors of all users from the present usage.
    pub fn compute(&mut self, algorithm: ShareAlgorithm) {
        match algorithm {
            ShareAlgorithm::FairTree => {
                let mut ranks = Ranks { left: self.users, last: self.users };
                self.rank(&self.all[0].children.clone(), &mut ranks, false);
            }
            ShareAlgorithm::Classic => self.set_classic(0, 1.0),
        }
    }

    /// How an association stands among its siblings: its shares divided by its part of their usage. Infinite if it has
    /// used nothing.
    fn level_fs(&self, association: usize) -> f64 {
        let own = &self.all[association];
        let siblings = self.all[own.parent.expect("it is below the root")].usage;
        if own.shares == 0 {
            0.0
        } else if own.usage <= 0.0 {
            f64::INFINITY
        } else {
            own.level_shares / (own.usage / siblings)
        }
    }

    /// Ranks the users below these associations, the best first. Users of equal standing share a rank. The children of
    /// accounts of equal standing are ranked as siblings. On a tie of users and accounts, the users are first.
    fn rank(&mut self, siblings: &[usize], ranks: &mut Ranks, is_tied: bool) {
        let mut sorted: Vec<(f64, usize)> = siblings.iter().map(|own| (self.level_fs(*own), *own)).collect();
        sorted.sort_by(|(one, a), (other, b)| {
            let is_account = |own: &usize| !self.all[*own].is_user;
            other.total_cmp(one).then(is_account(a).cmp(&is_account(b))).then(a.cmp(b))
        });
        let mut before = None;
        let mut rest = &sorted[..];
        while let Some(((level, first), _)) = rest.split_first() {
            let ties = if before.is_none() { is_tied } else { before == Some(*level) };
            before = Some(*level);
            if self.all[*first].is_user {
                if !ties {
                    ranks.last = ranks.left;
                }
                self.all[*first].factor = f64::from(ranks.last) / f64::from(self.users);
                ranks.left -= 1;
                rest = &rest[1..];
            } else {
                let equal = rest.partition_point(|(other, _)| other.total_cmp(level).is_eq());
                let children: Vec<usize> =
                    rest[..equal].iter().flat_map(|(_, own)| self.all[*own].children.iter().copied()).collect();
                self.rank(&children, ranks, ties);
                rest = &rest[equal..];
            }
        }
    }

    /// The classic factor is 2 to the power of minus the effective usage divided by the shares. The effective usage
    /// counts a part of the usage of the accounts above.
    fn set_classic(&mut self, of: usize, effective: f64) {
        let total = self.all[0].usage;
        let children = self.all[of].children.clone();
        for child in children {
            let own = &self.all[child];
            let norm = if total > 0.0 { own.usage / total } else { 0.0 };
            let above = if of == 0 { norm } else { norm + (effective - norm) * own.level_shares };
            let of_child = if total > 0.0 { above } else { 0.0 };
            self.all[child].factor = match own.shares_norm > 0.0 {
                true => libm::exp2(-(of_child / own.shares_norm)),
                false => 0.0,
            };
            self.set_classic(child, of_child);
        }
    }
}

/// The ranks that are still to be given, and the rank that was given last.
struct Ranks {
    left: u32,
    last: u32,
}

impl Association {
    fn new(parent: Option<usize>, shares: u32, is_user: bool) -> Association {
        Association {
            parent,
            children: Vec::new(),
            is_user,
            shares,
            level_shares: 1.0,
            shares_norm: 1.0,
            usage: 0.0,
            factor: 0.0,
        }
    }
}

/// What remains of usage after each second. Slurm computes it with ln 2 = 0.693.
fn kept_each_second(half_life: SimDuration) -> f64 {
    if half_life.is_zero() { 1.0 } else { (1.0 - 0.693 / half_life.as_secs_f64()).max(0.0) }
}

/// What remains of usage after this many seconds.
pub fn kept(half_life: SimDuration, seconds: u64) -> f64 {
    libm::pow(kept_each_second(half_life), seconds as f64)
}

/// All errors in the accounts, each as the end of a sentence about the configuration.
pub(super) fn faulty(accounts: &[Account]) -> Vec<String> {
    let mut faults = Vec::new();
    for (place, account) in accounts.iter().enumerate() {
        let name = &account.name;
        if accounts[..place].iter().any(|other| other.name == *name) {
            faults.push(format!("has two accounts named `{name}`"));
        }
        if &**name == ROOT || name.is_empty() {
            faults.push(format!("has an account `{name}`; the root account is there by itself"));
        }
        let mut above = account.parent.as_ref();
        for _ in 0..=accounts.len() {
            let Some(parent) = above.filter(|parent| &***parent != ROOT) else { break };
            match accounts.iter().find(|other| other.name == *parent) {
                Some(found) => above = found.parent.as_ref(),
                None => {
                    if account.parent.as_ref() == Some(parent) {
                        faults.push(format!("has an account `{name}` whose parent `{parent}` does not exist"));
                    }
                    above = None;
                }
            }
        }
        if above.is_some_and(|above| &**above != ROOT) {
            faults.push(format!("has an account `{name}` that is below itself"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The accounts of `tests/slurm/fairshare.accounts`, as the trial had them.
    fn accounts() -> Vec<Account> {
        let account = |name: &str, parent: Option<&str>, fairshare, users: &[(&str, u32)]| Account {
            name: Arc::from(name),
            parent: parent.map(Arc::from),
            fairshare,
            users: users.iter().map(|(user, shares)| (Arc::from(*user), *shares)).collect(),
        };
        vec![
            account("lab", Some("physics"), 2, &[("daemon", 1), ("root", 3)]),
            account("physics", None, 30, &[]),
            account("biology", None, 10, &[("man", 1), ("mail", 5)]),
            account("lattice", Some("physics"), 1, &[("games", 1)]),
        ]
    }

    const USERS: [(&str, &str); 6] = [
        ("root", "root"),
        ("mail", "biology"),
        ("man", "biology"),
        ("daemon", "lab"),
        ("root", "lab"),
        ("games", "lattice"),
    ];

    fn factors(usage: [f64; 6], algorithm: ShareAlgorithm) -> [f64; 6] {
        let mut tree = Associations::of(&accounts());
        for ((user, account), usage) in USERS.iter().zip(usage) {
            let own = tree.find(user, account).expect("it exists");
            tree.charge(own, usage);
        }
        tree.compute(algorithm);
        USERS.map(|(user, account)| tree.factor(tree.find(user, account).expect("it exists")))
    }

    /// NormUsage and FairShare of `sshare -l` of Slurm 22.05.8, at two computations.
    #[test]
    fn fair_tree_ranks_users_as_slurm_does() {
        let expected = [0.166667, 0.5, 0.333333, 0.833333, 1.0, 0.666667];
        for usage in [
            [0.311622, 0.196145, 0.137274, 0.173564, 0.0, 0.181395],
            [0.174975, 0.264285, 0.178339, 0.210945, 0.0, 0.171456],
        ] {
            let found = factors(usage, ShareAlgorithm::FairTree);
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-6, "{found} and {expected}");
            }
        }
    }

    /// NormUsage and FairShare of `sshare -l` with `PriorityFlags=NO_FAIR_TREE`, at a computation when no job ran.
    #[test]
    fn classic_factors_are_those_of_slurm() {
        let usage = [0.195488, 0.255058, 0.182990, 0.208198, 0.0, 0.158266];
        let expected = [0.003866, 0.249110, 0.021385, 0.263611, 0.640334, 0.523613];
        for (found, expected) in factors(usage, ShareAlgorithm::Classic).iter().zip(expected) {
            assert!((found - expected).abs() < 5e-6, "{found} and {expected}");
        }
    }

    #[test]
    fn users_who_have_used_nothing_share_the_best_rank() {
        for algorithm in [ShareAlgorithm::FairTree, ShareAlgorithm::Classic] {
            assert!(factors([0.0; 6], algorithm).iter().all(|factor| (factor - 1.0).abs() < 1e-12));
        }
    }

    #[test]
    fn users_that_are_in_both_trees_keep_their_usage() {
        let mut before = Associations::of(&accounts());
        for (number, (user, account)) in USERS.iter().enumerate() {
            let own = before.find(user, account).expect("it exists");
            before.charge(own, number as f64);
        }
        let mut fewer = accounts();
        fewer.retain(|account| &*account.name != "biology");
        let mut after = Associations::of(&fewer);
        after.take_usage_of(&before);
        let usage = |user, account| after.find(user, account).map(|own| after.usage(own));
        let of_users = USERS.map(|(user, account)| usage(user, account));
        assert_eq!(of_users, [Some(0.0), None, None, Some(3.0), Some(4.0), Some(5.0)]);
    }
}
