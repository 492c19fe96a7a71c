//! The table of faults: the area, the name, and what the program then does wrong.

macro_rules! faults {
    ($($area:literal { $($fault:ident: $wrong:literal,)* })*) => {
        /// A mistake that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $($(#[doc = $wrong] $fault,)*)*
        }

        impl Fault {
            pub const ALL: &[Fault] = &[$($(Fault::$fault,)*)*];

            /// The name by which `DRYRACK_PLANTED` chooses it.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Fault::$fault => stringify!($fault),)*)*
                }
            }

            pub const fn area(self) -> &'static str {
                match self {
                    $($(Fault::$fault => $area,)*)*
                }
            }

            /// What the program does wrong.
            pub const fn wrong(self) -> &'static str {
                match self {
                    $($(Fault::$fault => $wrong,)*)*
                }
            }
        }
    };
}

faults! {
    "ledger" {
        CpuIsNeverReleased: "the CPU of an attempt that has ended stays taken",
        BlockIsNeverReleased: "one block of a claim stays taken when the claim is released",
        ShareNeedsNoMemory: "a share of a GPU needs only free time of the GPU, and no free memory",
        QuotaIsNotGivenBack: "what a project held still counts against its quota after its release",
        RestrictedCoresAreLent: "tasks use the cores that are restricted to the GPUs of others",
    }
    "gangs" {
        SpreadGangSharesNodes: "the tasks of a gang that must be spread may share nodes",
        PackedGangByScore: "a packed gang takes the best nodes instead of those with room for most tasks",
        LostGangIsNotStopped: "the other nodes of a gang that has lost a node are not told to stop",
        FleetTooSmallForGang: "a fleet with room for one node is a candidate for a run of several nodes",
    }
    "lifecycle" {
        JobEndsAsItsFirstReplica: "a job has the outcome of its first replica that ended, and not the gravest",
        ConfirmedNodesAreKept: "an attempt that is not known to have stopped in time keeps the nodes that confirmed its stop",
        EarlyGpuFailureIsIgnored: "a GPU that fails before its attempt runs does not end the attempt",
        InstanceOfEndedRunIsKept: "an instance that is not up yet is not terminated when its run ends",
        OldestIsScaledDown: "scaling down removes the oldest of equally healthy replicas",
        ReplicasRoundedDown: "a service gets as many replicas as its requests fill completely",
        ScalesUpAsSlowlyAsDown: "the delay for fewer replicas also holds for more",
    }
    "cancellation" {
        CancelStopsOneReplica: "a cancelled job stops only its first replica",
        AnalysisIsNotAbandoned: "a cancelled analysis goes on",
        CancelledIsAnalysed: "a replica that was cancelled while it waited for its analysis is analysed",
        CancelledIsRetried: "another attempt follows when a cancelled attempt has stopped",
    }
    "readiness" {
        NotReadyIsReady: "a node that reports that it is not ready may be chosen",
        UnusableGpuIsTaken: "a GPU that has failed may be chosen",
        RepairedByTheFirst: "a node with two failures at a time is ready again when the first is repaired",
    }
    "heartbeats" {
        LostForEver: "a node that was presumed lost stays so when its heartbeats return",
        GraceFromTheMiss: "the grace period begins when a heartbeat is missed, and not with the last heartbeat",
        CheckAtTheExactTick: "a silence that ends at a check of nodes is noticed by that check, and not by the next one",
    }
    "utilization" {
        GapCountsAsIdle: "a GPU without samples counts as idle",
        MinimumIsIdle: "a reading that equals the minimum counts as idle",
        WindowMustBeExceeded: "an idle time of exactly the window is not enough",
        GraceOfPolicyIsIgnored: "readings count from the start of a run, whatever the grace of its policy",
        LateSampleIsDropped: "a sample that arrives after a newer one is not used",
        EachOddSampleIsReported: "each odd sample is reported, and not only the first of its kind in an attempt",
    }
    "back-off" {
        PauseDoesNotGrow: "every pause between attempts is as long as the first",
        OneRetryTooMany: "a limit of n retries allows n + 1",
        LongRunForgivesNothing: "failures before a long run still count",
        RunNeverForgetsItsFailures: "a run of dstack that was placed again still pauses as long as before",
    }
    "groups of pods" {
        EarlierFailuresAreForgotten: "the failures that the status of a Job states do not count",
        SuccessForgivesFailures: "a pod of a Job that succeeds forgives the failures before it",
        SuccessKeepsThePause: "a pod of a Job that succeeds does not end the pause of the others",
        FailedPodEndsAlone: "the pod whose failure is one too many ends, and the other pods of its Job do not",
        FailedJobEndsAlone: "the other Jobs of a JobSet do not end with the first one that fails",
        SetNeverRestarts: "a JobSet fails with its first failure, whatever its maxRestarts",
        RestartWaitsForNothing: "the pods of a JobSet that starts again do not wait until the last ones are gone",
        RestartKeepsFailures: "failures before the restart of a JobSet still count",
        PodOfGroupRestartsAlone: "if a pod of a group of a LeaderWorkerSet is lost, the others do not start again",
        NameIsFreeAtOnce: "a pod of a StatefulSet does not wait until the last one of its name is gone",
        StatefulPodsAtOnce: "the pods of a StatefulSet do not wait for the one before",
    }
    "timers" {
        TimersOfOneInstantReversed: "of two timers of one instant, the one that was set last fires first",
        PassesHaveNoJitter: "the passes of dstack and others come without jitter",
        OffsetOfPassesIsIgnored: "the first pass is not delayed by its offset",
    }
    "ties" {
        EqualEstimatesLastFirst: "of two jobs with equal estimates, the shortest-job-first order takes the later one first",
        EqualOffersLastFirst: "of two equal offers, the one that was declared last comes first",
        EqualFleetsLastFirst: "of two equally good fleets, the one that was declared last is chosen",
    }
    "backfill" {
        ShortJobsDelayTheHead: "EASY backfilling starts every job that fits, however long it is",
        EstimateFromTheStart: "the remaining time of a running job is its whole estimate",
        SlotEndsAreRoundedDown: "a reservation in the time slots of Slurm ends with the slot before its end",
    }
    "fair share" {
        HoldingsNeverDecay: "what a user holds counts in full, however long ago it was used",
        WeightsAreIgnored: "the usage of a user is not divided by the weight of the user",
        SlurmUsageNeverDecays: "the past usage of a Slurm association never decays",
    }
    "preemption" {
        MostValuableVictim: "the most valuable attempt is preempted first",
        ExemptTimeIsIgnored: "a Slurm job is preempted before its exempt time is over",
        CheckpointIsNotUsed: "a preempted attempt counts as if it had not run",
        EveryMomentIsACheckpoint: "an interrupted attempt loses no work, even if its last checkpoint is old",
    }
    "blocks" {
        BlocksNeedNotDivideCpus: "a host is split into a number of blocks that does not divide its CPUs",
        RestOfRamIsInTheBlocks: "RAM that cannot be divided evenly is not left out of the blocks",
        BlockOfUnusableGpuIsIdle: "a block whose GPU has failed counts as idle",
    }
    "offers" {
        LargestSliceFirst: "the offers with the largest slice come first",
        PricesInWholeCents: "offers whose prices differ by less than a cent count as equal",
        RegionWithoutBackend: "regions of the same name count as one place, even if they are of two backends",
        SpotIsOnDemand: "a job that asks for on-demand instances also gets spot instances",
    }
    "compatibility" {
        OsIsNotCompared: "a task is placed on a node with another operating system",
        OldDriverIsEnough: "a backend runs with a driver that is older than it needs",
        LabelValueIsNotCompared: "a node with the label, but with another value of it, is chosen",
        CapabilityMustBeExceeded: "a GPU with exactly the compute capability that a job asks for is refused",
    }
    "memory rounding" {
        PartOfMemoryIsRoundedDown: "the equal part of each GPU is rounded down, so that the parts are less than the whole",
        ShareOfMemoryIsRoundedUp: "a share of the memory of a GPU is rounded up, so that ten tenths do not fit",
        DownloadsShareNoBandwidth: "the downloads of one node take no longer than each of them alone",
    }
    "trace columns" {
        RequestedBeforeAllocated: "a job of an SWF log has the processors that it requested, and not those that it got",
        PartialRowsAreJobs: "a row of an SWF log about a part of a job counts as a job",
        KilledIsCompleted: "a job of a Helios log that was killed counts as completed",
        MebibytesAreMegabytes: "the memory in an openb list is read as megabytes",
        RequestedTresFirst: "a job of a Slurm accounting file has the resources that it requested, and not those that it got",
    }
    "metrics" {
        WaitQuantilesOfPlacedOnly: "the quantiles of waits leave out who was never placed",
        CostOnlyWhileReady: "a node costs nothing while it is not ready",
        EnergyOnlyWhileReady: "a node draws no power while it is not ready",
        QuantileRankIsRoundedDown: "a quantile is the value at the rank below",
        PreemptionIsAFailure: "a preemption counts as a failure that its job survived",
        SlowdownOfShortJobsIsUnbounded: "the bounded slowdown divides by the run time, however short it is",
    }
    "intervals" {
        TQuantileOfNine: "the quantile of Student's t of nine degrees of freedom is that of ten",
        VarianceOfThePopulation: "the variance is divided by the number of runs, and not by one less",
        ShareIsTwoSided: "the lower bound on a share is that of a two-sided interval",
    }
    "search" {
        SearchTakesTheLastOfEqual: "of alternatives that tell the search as much, the last is run first",
        SearchTestsNothing: "no alternative that is presumed to fail is run as a test",
    }
    "resumption" {
        InventedAlternative: "a plan resumes from a journal with an alternative that it does not have",
        JournalOfAnotherPlan: "a plan resumes from the journal of a plan with other inputs",
        ProfileIsNotHashed: "a plan resumes after the profile of its scenario has changed",
    }
    "digests and replays" {
        DigestWithoutTime: "the digest of a log leaves out the times",
        ReplayIgnoresHeld: "a replay does not compare the reasons for which jobs wait",
    }
    "windows of expectations" {
        UntilIncludesItsEnd: "a window `until` a time includes that time",
        AfterLeavesOutItsStart: "a window `after` a time begins just after that time",
        NeverHoldsWithoutSubject: "`never` passes for a subject that never existed",
        OneFailureIsAReproduction: "one failing expectation is taken for a whole reproduction",
        ShareIsRoundedToPercent: "the share of seeds is rounded to whole percents before it is compared",
    }
}
