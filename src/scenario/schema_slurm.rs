//! The schema of the configuration of a Slurm cluster.

use super::schema::{Kind, Shape};

const TIME: Kind = Kind::Amount("90s, 1h30m or 250ms");
const NAMES: Kind = Kind::ListOf(&Kind::Text);
const WEIGHT: Kind = Kind::Whole;
const TRES: Kind = Kind::Named(&Kind::Whole);

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        name: "slurm",
        called: &[],
        required: &[],
        fields: &[
            ("partitions", Kind::ListOf(&Kind::Map("partition")), "Its partitions; all nodes are in one if not given"),
            ("qos", Kind::ListOf(&Kind::Map("qos")), "Its QOS, with their limits"),
            (
                "reservations",
                Kind::ListOf(&Kind::Map("advance_reservation")),
                "Nodes that are kept for some users for a time",
            ),
            ("priority", Kind::Map("multifactor"), "priority/multifactor; priority/basic if not given"),
        ],
    },
    Shape {
        name: "partition",
        called: &[],
        required: &["name"],
        fields: &[
            ("name", Kind::Text, "What jobs call it"),
            ("nodes", NAMES, "Names or patterns of its nodes; all nodes if not given"),
            ("default", Kind::Flag, "Whether jobs that name no partition are in this one"),
            ("priority_tier", Kind::Whole, "Its jobs come before those of a lower tier; 1 if not given"),
            ("priority_job_factor", Kind::Whole, "What it adds to priorities, relative to the largest; 1 if not given"),
            ("max_time", TIME, "Jobs with a longer time limit wait"),
            ("default_time", TIME, "The time limit of jobs that state none; max_time if not given"),
            ("max_nodes", Kind::Whole, "Jobs of more nodes wait"),
            ("min_nodes", Kind::Whole, "Jobs of fewer nodes wait"),
            ("allow_accounts", NAMES, "Only jobs of these accounts run; those of all accounts if not given"),
        ],
    },
    Shape {
        name: "qos",
        called: &[],
        required: &["name"],
        fields: &[
            ("name", Kind::Text, "What jobs call it"),
            ("priority", Kind::Whole, "What it adds to priorities, relative to the largest; 0 if not given"),
            ("max_wall", TIME, "Jobs with a longer time limit wait"),
            ("max_jobs_per_user", Kind::Whole, "So many jobs of a user run at a time"),
            ("max_jobs_per_account", Kind::Whole, "So many jobs of an account run at a time"),
            ("grp_jobs", Kind::Whole, "So many of its jobs run at a time"),
            ("max_tres_per_job", TRES, "What one job may ask for"),
            ("max_tres_per_user", TRES, "What the running jobs of a user may hold"),
            ("max_tres_per_account", TRES, "What the running jobs of an account may hold"),
            ("grp_tres", TRES, "What all its running jobs may hold"),
        ],
    },
    Shape {
        name: "advance_reservation",
        called: &[],
        required: &["name", "start", "duration"],
        fields: &[
            ("name", Kind::Text, "What jobs call it"),
            ("start", TIME, "When it begins"),
            ("duration", TIME, "How long it lasts"),
            ("nodes", NAMES, "Names or patterns of its nodes; all nodes if not given"),
            ("users", NAMES, "The users that may use it"),
            ("accounts", NAMES, "The accounts that may use it"),
        ],
    },
    Shape {
        name: "multifactor",
        called: &[],
        required: &[],
        fields: &[
            ("weight_age", WEIGHT, "Of the time that a job has waited"),
            ("weight_job_size", WEIGHT, "Of its nodes and cores"),
            ("weight_partition", WEIGHT, "Of its partition's priority_job_factor"),
            ("weight_qos", WEIGHT, "Of its QOS' priority"),
            ("weight_tres", Kind::Named(&Kind::Amount("1000")), "Of `cpu`, `node` and `gres/gpu` that it asks for"),
            ("max_age", TIME, "The wait from which on age counts no further; 7 days if not given"),
            ("favor_small", Kind::Flag, "Whether smaller jobs get more for their size"),
            (
                "calc_period",
                TIME,
                "How often priorities are computed again; 5 minutes if not given, 0s if never, as without slurmdbd",
            ),
            ("calc_offset", TIME, "When that is first; at the beginning if not given"),
        ],
    },
];
