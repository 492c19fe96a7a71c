//! The schema of the configuration of a Slurm cluster.

use super::schema_shape::{Kind, Shape};

const TIME: Kind = Kind::Amount("90s, 1h30m or 250ms");
const NAMES: Kind = Kind::ListOf(&Kind::Text);
const WEIGHT: Kind = Kind::Whole;
const WEIGHTS: Kind = Kind::Named(&Kind::Amount("1000"));
const PREEMPT_TYPE: Kind = Kind::Words(|| vec!["partition_prio", "qos"]);
const PREEMPT_MODE: Kind = Kind::Words(|| vec!["off", "requeue", "cancel"]);
const CLUSTER_PREEMPT_MODE: Kind = Kind::Words(|| vec!["requeue", "cancel"]);
const TRES: Kind = Kind::Named(&Kind::Whole);

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        name: "slurm",
        called: &[],
        required: &[],
        fields: &[
            (
                "partitions",
                Kind::ListOf(&Kind::Map("partition")),
                "Partitions of the cluster; if absent, all nodes are in one partition",
            ),
            ("qos", Kind::ListOf(&Kind::Map("qos")), "QOS of the cluster, with their limits"),
            (
                "reservations",
                Kind::ListOf(&Kind::Map("advance_reservation")),
                "Advance reservations of nodes for users or accounts",
            ),
            (
                "accounts",
                Kind::ListOf(&Kind::Map("slurm_account")),
                "Accounts with their users and shares, for weight_fairshare",
            ),
            ("priority", Kind::Map("multifactor"), "Weights of priority/multifactor; default: priority/basic"),
            ("preempt_type", PREEMPT_TYPE, "What decides which jobs preempt which; default: nobody is preempted"),
            ("preempt_mode", CLUSTER_PREEMPT_MODE, "What becomes of preempted jobs; default: requeue"),
            ("preempt_exempt_time", TIME, "How long a job runs before it can be preempted; default: 0s"),
            ("job_requeue", Kind::Flag, "Whether jobs are requeued that do not say it themselves; default: true"),
            ("cred_expire", TIME, "Lifetime of credentials; a requeued job waits a second longer; default: 2 minutes"),
        ],
    },
    Shape {
        name: "partition",
        called: &[],
        required: &["name"],
        fields: &[
            ("name", Kind::Text, "Name of the partition"),
            ("nodes", NAMES, "Names or patterns of its nodes; default: all nodes"),
            ("default", Kind::Flag, "Whether jobs that name no partition go to this one"),
            ("priority_tier", Kind::Whole, "Tier of the partition; jobs of a higher tier go first; default: 1"),
            (
                "priority_job_factor",
                Kind::Whole,
                "Part of a job's priority that the partition adds, relative to the largest; default: 1",
            ),
            ("max_time", TIME, "Longest time limit; jobs with a longer one wait"),
            (
                "default_time",
                TIME,
                "Time limit of jobs that state none; default: max_wall of the QOS, or else max_time",
            ),
            ("max_nodes", Kind::Whole, "Most nodes of a job; jobs with more nodes wait"),
            ("min_nodes", Kind::Whole, "Least nodes of a job; jobs with fewer nodes wait"),
            ("allow_accounts", NAMES, "Accounts whose jobs may run; default: all accounts"),
            (
                "tres_billing_weights",
                WEIGHTS,
                "How much each `cpu`, `node` and `gres/gpu` counts as usage; default: each core counts 1",
            ),
            ("allow_qos", NAMES, "QOS whose jobs may run; default: all QOS"),
            ("qos", Kind::Text, "QOS whose limits apply to all jobs of the partition"),
            ("preempt_mode", PREEMPT_MODE, "What becomes of preempted jobs of the partition"),
            ("grace_time", TIME, "How long a job that is to be preempted may still run; default: 0s"),
        ],
    },
    Shape {
        name: "qos",
        called: &[],
        required: &["name"],
        fields: &[
            ("name", Kind::Text, "Name of the QOS"),
            (
                "priority",
                Kind::Whole,
                "Part of a job's priority that the QOS adds, relative to the largest; default: 0",
            ),
            ("max_wall", TIME, "Longest time limit; jobs with a longer one wait"),
            ("max_jobs_per_user", Kind::Whole, "Most running jobs of a user"),
            ("max_jobs_per_account", Kind::Whole, "Most running jobs of an account"),
            ("grp_jobs", Kind::Whole, "Most running jobs of the QOS"),
            ("max_tres_per_job", TRES, "Most resources that a job can ask for"),
            ("max_tres_per_user", TRES, "Most resources that the running jobs of a user can hold"),
            ("max_tres_per_account", TRES, "Most resources that the running jobs of an account can hold"),
            ("grp_tres", TRES, "Most resources that all running jobs of the QOS can hold"),
            (
                "over_part_qos",
                Kind::Flag,
                "Whether its limits come before those of the partition's QOS; default: false",
            ),
            ("preempt", NAMES, "QOS whose jobs the jobs of this one preempt"),
            ("preempt_mode", PREEMPT_MODE, "What becomes of preempted jobs of the QOS"),
            ("grace_time", TIME, "How long a job that is to be preempted may still run; default: 0s"),
            ("preempt_exempt_time", TIME, "How long a job of the QOS runs before it can be preempted"),
        ],
    },
    Shape {
        name: "advance_reservation",
        called: &[],
        required: &["name", "start", "duration"],
        fields: &[
            ("name", Kind::Text, "Name of the reservation"),
            ("start", TIME, "Time at which the reservation begins"),
            ("duration", TIME, "Length of the reservation"),
            ("nodes", NAMES, "Names or patterns of its nodes; default: all nodes"),
            ("users", NAMES, "Users who may use the reservation"),
            ("accounts", NAMES, "Accounts that may use the reservation"),
        ],
    },
    Shape {
        name: "slurm_account",
        called: &[],
        required: &["name"],
        fields: &[
            ("name", Kind::Text, "Name of the account"),
            ("parent", Kind::Text, "Account above it; default: root"),
            ("fairshare", Kind::Whole, "Shares of the account, relative to its siblings; default: 1"),
            ("users", Kind::Named(&Kind::Whole), "Users of the account, each with the user's shares"),
        ],
    },
    Shape {
        name: "multifactor",
        called: &[],
        required: &[],
        fields: &[
            ("weight_age", WEIGHT, "Weight of the time that a job has waited"),
            ("weight_fairshare", WEIGHT, "Weight of how little the user has used, relative to the user's shares"),
            ("weight_job_size", WEIGHT, "Weight of the job's nodes and cores"),
            ("weight_partition", WEIGHT, "Weight of the partition's priority_job_factor"),
            ("weight_qos", WEIGHT, "Weight of the QOS's priority"),
            ("weight_tres", WEIGHTS, "Weights of `cpu`, `node` and `gres/gpu` in the job's request"),
            ("max_age", TIME, "Waiting time after which the age factor stops to grow; default: 7 days"),
            ("favor_small", Kind::Flag, "Whether smaller jobs get a higher size factor"),
            ("decay_half_life", TIME, "Time in which past usage loses half of its weight; default: 7 days; 0s: never"),
            ("no_fair_tree", Kind::Flag, "Whether the classic fair share is used instead of Fair Tree"),
            (
                "calc_period",
                TIME,
                "Interval at which priorities are recomputed; default: 5 minutes; 0s: never, as without slurmdbd",
            ),
            ("calc_offset", TIME, "Time of the first recomputation; default: the start of the run"),
        ],
    },
];
