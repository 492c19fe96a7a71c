//! Random worlds: the command, and seeds that once failed.

use assert_cmd::assert::OutputAssertExt;

use crate::cli::{dryrack, empty, stderr, stdout};

trials! {
    Nothing: [
        random_worlds_run_from_the_command_line,
        random_worlds_are_held_against_other_runs,
        random_worlds_that_broke_once_hold,
        random_worlds_that_failed_a_check_hold,
        worlds_that_go_on_for_ever_are_not_judged,
    ]
}

fn random_worlds_run_from_the_command_line() {
    let dir = empty();
    let said = stdout(dir.path(), &["swarm", "--seeds", "1..3"], 0);
    assert!(said.starts_with("3 worlds, ") && said.ends_with(": 0 broke an invariant\n"), "{said}");
    dryrack(dir.path(), &["swarm", "--seeds", "3..2"]).assert().code(2);
    let limited = stderr(dir.path(), &["swarm", "--seeds", "1", "--max-records", "10"], 2);
    assert!(limited.contains("stops each world after 500,000 records"), "{limited}");
}

fn random_worlds_are_held_against_other_runs() {
    let dir = empty();
    let said = stdout(dir.path(), &["swarm", "--seeds", "1..2", "--check", "all"], 0);
    let (worlds, checks) = said.split_once('\n').expect("two lines");
    assert!(worlds.ends_with(": 0 broke an invariant"), "{said}");
    assert!(
        checks.starts_with("checks: ") && checks.contains("conservative 2, ") && checks.contains("cut 2, "),
        "{said}"
    );
    let one = stdout(dir.path(), &["swarm", "--seeds", "1..2", "--check", "queue"], 0);
    assert!(one.ends_with("\nchecks: queue 2\n"), "{one}");
    let none = stdout(dir.path(), &["swarm", "--seeds", "1..2", "--check", "none"], 0);
    assert_eq!(none, format!("{worlds}\nchecks: none\n"));
    let mixed = stderr(dir.path(), &["swarm", "--seeds", "1", "--check", "none", "--check", "queue"], 2);
    assert!(mixed.contains("`none` cannot be combined"), "{mixed}");
    let wrong = stderr(dir.path(), &["swarm", "--seeds", "1", "--check", "quue"], 2);
    assert!(wrong.contains("possible values: shifted, scaled, "), "{wrong}");
}

/// Seeds of random worlds that once broke an invariant or did not end, with the fault of each.
const WORLDS_THAT_BROKE: [(&str, &str); 23] = [
    ("52708", "a run began on a node that had not joined"),
    ("47969", "a run was stopped for the same room at each deadline, beside blocks of one host"),
    ("50752", "the same, on two nodes in turn that the head needed both"),
    ("51051", "the same, of three runs on one node"),
    ("8", "a run that was refused as it was submitted was ended for another reason"),
    ("162", "a run that was refused as it was submitted was looked at for a place"),
    ("2675", "a list of offers left out the one that was taken, because another would have filled the fleet"),
    ("4475", "a job of several replicas was said to wait in vain, as if it had one"),
    ("7497", "a backfilled job was explained by the first of several candidates, and one was drawn"),
    ("18956", "a run that nobody may look at was due for ever in one instant"),
    ("19716", "a question began the next round of a pass before a fact of the same instant"),
    ("32200", "a placement was explained by a later decision than the one that was written"),
    ("32420", "the same, under another release"),
    ("163887", "who came into a queue in the moment in which it ended was looked up for whom it could be stopped"),
    (
        "1001325",
        "a result that GPUStack 0.6.0 wrote to another job had fewer sets than that job, which the audit expected",
    ),
    ("1020446", "a Slurm cluster had quotas of projects, which no profile may have"),
    (
        "1097013",
        "a job was stopped for the room that a fleet must have beside the place of another one, and got that room again",
    ),
    ("1130917", "the promise of a place moved to the room of a job that was stopped for another one, and back"),
    ("1151784", "a result that GPUStack 0.6.0 wrote to another job had fewer sets than the job whose pace it set"),
    (
        "1230279",
        "a pass of Slurm that walks only over some jobs did not see that a placement in a fleet made room in the same pass",
    ),
    ("52", "a GPU that was picked could not be selected, because its node has too few for a demand without a pick"),
    ("9388195", "the promise of GPU memory did not keep the last share of the GPU from others"),
    ("12008100", "a job took a promised place that an evaluation did not find"),
];

/// The same for worlds of pods.
const PODS_THAT_BROKE: [(&str, &str); 14] = [
    ("2415", "a further replica took the claim of the first pod, which ended with either of them"),
    ("2873", "a refusal was shared by jobs with the same flavors, and explained by the demand without flavors"),
    ("3765", "a node stated cores that are restricted to GPUs, and pods without GPUs got them"),
    ("52913", "pods were preempted and replaced in turn for ever at one instant"),
    ("4027784", "a pod that tolerates a taint for no time was evicted and replaced for ever at one instant"),
    ("92894", "two workloads of Kueue preempt each other for ever, as they would under Kueue"),
    ("185921", "the same, with fair sharing"),
    ("210230", "a workload of Kueue preempts another one again and again, which `lives` took for a fault"),
    ("117933", "a job was stopped for the room that a fleet must have, and got that room again"),
    ("73147", "the refusal of a pod was forgotten once another pod of its job was refused"),
    ("73157", "the same in a job whose pods are spread"),
    ("9982668", "under fair sharing, a workload of Kueue preempts others of its queue for ever"),
    ("15525468", "pods of a gang that never find nodes together wait for each other for a second, for ever"),
    ("14021668", "two workloads of Kueue preempt each other in turn for ever, each before it runs"),
];

/// The same for worlds of Slurm.
const SLURM_THAT_BROKE: [(&str, &str); 6] = [
    ("106908", "the nodes of one of two partitions of a job were selectable, and it was placed in the other"),
    ("7", "a job that never fits was said to be unfit if nodes were kept for others"),
    ("69", "a place was explained as if nodes of completing jobs were free"),
    ("237", "a job that picks its GPUs got other GPUs if nodes were kept for others"),
    ("1018", "a job without a time limit that had ended counted as running for a year, so that the run did not end"),
    ("9208524", "jobs were preempted again and again for a job that a limit on nodes then denied"),
];

/// The same for worlds with custom stages.
const STAGES_THAT_BROKE: [(&str, &str); 11] = [
    ("107", "the fleet on which preemption is tried did not follow the clock"),
    ("172", "a question moved the clock, so that a job was judged earlier"),
    ("204", "a decision that takes longer than a minute moved the clock, which led to the same decision, for ever"),
    ("289", "the same with a filter, long after all its times were tried"),
    ("425", "backfilling kept which jobs would start, although a filter refuses emptier nodes"),
    ("503", "more room was thought to be never worse for a job that preempts others"),
    ("693", "a reservation was kept, although a filter refuses emptier nodes"),
    ("1203", "in time slots, a job was left out that would start"),
    ("13006581", "a job was preempted again and again for one that a filter refused as soon as the node was empty"),
    ("13018503", "the same, at one instant"),
    ("2057", "a question at a whole minute took the step of the clock"),
];

/// The same for worlds under profiles that nobody has written.
const PROFILES_THAT_BROKE: [(&str, &str); 9] = [
    ("4258", "a run that was cancelled before its host was told to start it kept its place for ever"),
    ("11997", "picked GPUs that bring their cores together were judged one by one"),
    ("9110748", "a promise did not keep instances unused in a fleet whose instances are split otherwise than it says"),
    ("9250472", "a promised place was given up because the rule for gangs did not find it again"),
    ("9168818", "room that a job was stopped for was given up, because stopping took far longer than its deadline"),
    ("9281676", "the same, for a job in three parts"),
    ("9399075", "a cloud accepted a request for an instance that had been given up in the same instant"),
    (
        "15460738",
        "the promise to a gang of unequal tasks kept cores that are restricted to GPUs for a task without GPUs",
    ),
    ("13020609", "a gang that fits a fleet with more nodes than its maximum was said never to fit, without a reason"),
];

fn random_worlds_that_broke_once_hold() {
    let of_any = WORLDS_THAT_BROKE.map(|broke| ("any", broke));
    let of_pods = PODS_THAT_BROKE.map(|broke| ("pods", broke));
    let of_slurm = SLURM_THAT_BROKE.map(|broke| ("slurm", broke));
    let of_stages = STAGES_THAT_BROKE.map(|broke| ("stages", broke));
    let of_profiles = PROFILES_THAT_BROKE.map(|broke| ("profiles", broke));
    let all = of_any.into_iter().chain(of_pods).chain(of_slurm).chain(of_stages).chain(of_profiles);
    for (world, (seed, what)) in all {
        let said = stdout(empty().path(), &["swarm", "--world", world, "--seeds", seed], 0);
        assert!(said.ends_with(": 0 broke an invariant\n"), "{seed}, {what}: {said}");
    }
}

/// Random worlds that once failed a check, with the fault of each.
const WORLDS_THAT_FAILED_A_CHECK: [(&str, &str, &[&str], &str); 25] = [
    (
        "any",
        "lives",
        &["11005899", "8022203"],
        "the check took an old reason of a job that never fits for a false one, and a deadline for a fault",
    ),
    ("any", "lives", &["678"], "a job that was no longer the head kept a reason of the head that was over"),
    ("any", "lives", &["1442"], "the same in a partition of Slurm"),
    (
        "any",
        "lives",
        &["1008805", "1025363", "1026568"],
        "equal jobs kept a reason that was over, each judged at its own time",
    ),
    ("any", "lives", &["1078707", "1083960"], "a fleet must have room for all replicas of a job, which was no rule"),
    (
        "any",
        "never-ready",
        &["1003018"],
        "the reasons of earlier refusals decided which of several equal jobs were judged",
    ),
    ("any", "metrics", &["1469825"], "a replica stayed behind those that their quota had taken out of the queue"),
    ("any", "metrics", &["1385819"], "a replica that retries when the run ends was counted"),
    ("slurm", "lives", &["136"], "the QOS of one partition denied a job that was behind another one elsewhere"),
    ("any", "scaled", &["1022890"], "the policy of a job was not doubled"),
    ("slurm", "lives", &["203", "342"], "a job waited for ever behind one that was too large for its partition"),
    ("slurm", "lives", &["101"], "a job that was passed over for a reservation kept this reason when it was over"),
    ("any", "victims", &["1302"], "by the rule, a stopped job was passed by one behind it in the order"),
    ("pods", "lives", &["423", "839", "1207", "1544", "1830"], "queues that were stopped or strict were no rules"),
    ("pods", "lives", &["4003"], "pods wait for the last of those that Kueue admitted, which was no rule"),
    ("pods", "lives", &["55511"], "admitted workloads keep their quota while they wait, which was no rule"),
    ("pods", "lives", &["72732"], "jobs still named a stopped queue of Kueue after it was open again"),
    (
        "pods",
        "lives",
        &["122644", "130804", "169820", "183625"],
        "workloads behind the head of a strict queue keep their last condition, which was no rule",
    ),
    ("pods", "lives", &["124616"], "a workload is queued when the dependencies of its job are satisfied, not before"),
    (
        "pods",
        "lives",
        &["164260"],
        "the condition of a workload is about all its pods, also if fewer could be admitted",
    ),
    (
        "pods",
        "lives",
        &["220752"],
        "workloads behind the head of a strict queue keep their last condition also if quota is raised, which was no rule",
    ),
    ("pods", "shifted", &["223", "750", "959", "1550"], "changes of queues did not come later"),
    ("pods", "scaled", &["736", "865", "1521"], "changes of queues were not doubled, and a second was"),
    ("pods", "scaled", &["63325"], "a limit of Tiresias is reached after a rounded time, which was not expected"),
    ("pods", "scale-down", &["717"], "pods beyond those that Kueue admitted were no rule"),
];

fn random_worlds_that_failed_a_check_hold() {
    for (world, check, seeds, what) in WORLDS_THAT_FAILED_A_CHECK {
        for seed in seeds {
            let args = ["swarm", "--world", world, "--check", check, "--seeds", seed];
            let said = stdout(empty().path(), &args, 0);
            assert!(said.ends_with(&format!(": 0 broke an invariant\nchecks: {check} 1\n")), "{seed}, {what}: {said}");
        }
    }
}

/// Runs that Kueue or an incomplete gang would not end either. The check took their limit of records for a fault.
fn worlds_that_go_on_for_ever_are_not_judged() {
    for seed in ["12000028", "12001908"] {
        let said = stdout(empty().path(), &["swarm", "--world", "pods", "--seeds", seed, "--check", "lives"], 0);
        assert!(said.ends_with(": 0 broke an invariant\nchecks: none\n"), "{seed}: {said}");
    }
}
