//! The only integration crate. It has its own harness, because a trial must be reported as not run if its data is
//! missing, and libtest cannot do this.

mod attained;
mod backfilling;
mod browser;
mod cli;
mod clouds;
mod clusters;
mod conform;
mod deployments;
mod determinism;
mod diagnostics;
mod explained;
mod fit;
mod futures;
mod fuzzed;
mod grammar;
mod hunted;
mod imports;
mod imports_fuzzed;
mod keepers;
mod library;
mod lists;
mod literature;
mod live;
mod minimized;
mod mistakes;
mod never_runs;
mod offers;
mod on_slurm;
mod openb;
mod oracle;
mod outside;
mod plans;
mod policy;
mod policy_oracle;
mod probes;
mod questions;
mod quotas;
mod released;
mod report;
mod reported;
mod requeued;
mod rlscheduler;
mod run_sequences;
mod runner;
mod schema;
mod selection;
mod sequences;
mod slurm;
mod slurm_sites;
mod small_world;
mod streamed;
mod swf_samples;
mod theory;
mod tidy;
mod traced;

use libtest_mimic::{Arguments, Trial};

/// What a trial needs in order to run.
enum Needs {
    Nothing,
    /// Traces or recorded decisions: the folder that `DRYRACK_DATA` names, or `../shared` if it exists.
    Data,
    /// Time: runs only if a filter names `slow`.
    Time,
    /// The data and minutes of time: a separate set, which runs only if a filter names it.
    Means,
    /// A machine with little other load: a separate set, which runs only if a filter names it.
    RealTime,
    /// Minutes of time: a set of its own, which runs only if a filter names it.
    Coverage,
    /// Slurm, and a machine with little other load.
    SlurmInRealTime,
    /// Slurm and minutes of time: a separate set, which runs only if a filter names it.
    SlurmInMinutes,
    /// The package index, the data and minutes of time: a separate set, which runs only if a filter names it.
    Index,
    /// Slurm and munge, as Debian packages them, and root.
    Slurm,
    /// Python 3, for schedulers in other processes.
    Python,
    /// Like `Time`, and Python 3.
    SlowPython,
    /// The XML checker of libxml2.
    Xmllint,
    /// A browser.
    Chromium,
    /// Like `Time`, and permission to create file systems.
    SmallDisks,
}

/// Trials named by module and function.
macro_rules! trials {
    ($($needs:ident: $module:ident { $($trial:ident,)* })*) => {
        vec![$($(
            trial(concat!(stringify!($module), "::", stringify!($trial)), Needs::$needs, $module::$trial),
        )*)*]
    };
}

fn main() {
    let mut trials = trials! {
        Nothing: reported {
            each_small_file_is_answered_rightly,
            a_plan_in_which_nothing_is_random_claims_nothing_of_other_seeds,
            what_was_backfilled_and_each_replica_is_explained,
        }
        Nothing: minimized {
            a_report_is_minimized_under_the_profile_that_shows_it,
            what_cannot_be_minimized_is_said_and_nothing_is_written,
            profiles_are_compared_to_the_first_decision_that_differs,
            what_cannot_be_compared_is_said,
            a_table_of_reports_says_how_releases_are_installed,
        }
        Python: hunted {
            a_node_that_is_not_ready_is_found_and_written_to_a_file,
            a_program_that_keeps_to_a_property_is_left_alone,
            what_cannot_be_hunted_is_said,
            a_report_is_reproduced_under_a_program,
            a_failure_of_a_program_is_minimized_under_that_program,
            the_world_of_a_seed_is_minimized_by_itself,
            profiles_are_asked_what_a_program_decides_in_random_worlds,
        }
        Python: minimized {
            programs_are_compared_with_profiles,
        }
        Nothing: library {
            the_examples_run,
            the_public_names_are_those_of_the_list,
            what_is_built_is_what_a_file_says,
        }
        Nothing: never_runs {
            what_is_missing_is_named,
            only_what_bounds_waiting_fails,
            what_waits_or_was_given_up_could_run,
            what_still_waits_at_the_end_breaks_a_bound_that_it_has_waited_beyond,
            a_list_of_nothing_but_gpus_asks_for_their_type,
            sizes_that_differ_are_told_apart,
            a_file_that_expects_nothing_fails_if_a_job_can_never_run,
            a_trace_is_held_against_the_nodes_of_a_scenario_before_it_runs,
            without_estimates_a_profile_says_what_it_decides_as,
            where_instances_are_made_the_wait_for_a_start_is_told,
            a_wait_is_blamed_on_what_is_short_where_it_can_end,
            what_draws_is_random_even_where_all_seeds_give_the_same_run,
        }
        Nothing: probes {
            what_is_found_is_ready_to_run_with_the_use_of_others,
            a_gpu_that_slurm_gave_to_nobody_is_shown_as_free,
            what_is_not_there_is_said_by_name,
            a_machine_is_found_beneath_another_root,
            a_recording_goes_on_while_a_probe_hangs_and_gpus_vanish,
            what_is_left_of_a_recording_that_was_killed_is_a_recording,
            a_recording_that_finds_no_room_ends_whole,
            a_policy_on_watch_says_when_it_would_fire_and_why,
            the_policies_of_a_scenario_are_watched_too,
        }
        SmallDisks: probes {
            slow_a_disk_that_is_full_costs_what_had_no_room_and_no_more,
        }
        Nothing: released {
            a_release_that_cannot_be_meant_is_said_and_nothing_is_done,
            an_empty_cache_lists_nothing_and_all_that_can_be_installed,
            a_python_that_will_not_do_is_said,
        }
        Index: released {
            released_for_real_reports_are_bisected_to_the_release_that_mended_them,
            released_for_real_ray_plans_nodes_and_gangs,
            released_for_real_what_is_installed_answers_and_decides_as_recorded,
            released_for_real_what_was_hunted_is_shown_by_the_release,
            released_for_real_an_index_out_of_reach_leaves_nothing,
            released_for_real_an_answer_that_nobody_stated_ends_the_driver_by_name,
        }
        Nothing: imports {
            what_gpustack_keeps_is_a_scenario_that_runs,
            what_gpustack_answers_is_a_scenario_that_runs,
            nothing_that_somebody_named_is_left_after_anonymizing,
            the_wrong_file_is_told_what_was_expected,
        }
        Nothing: imports_fuzzed {
            what_is_imported_of_damaged_records_is_accepted_or_its_fault_is_named,
            a_column_whose_name_is_no_text_is_named,
            a_value_that_no_scenario_can_hold_is_told_by_its_column,
        }
        Time: imports_fuzzed {
            slow_what_is_imported_of_1000_damaged_records_is_accepted_or_its_fault_is_named,
        }
        Nothing: backfilling {
            what_is_kept_decides_as_the_plain_computation,
            slots_are_planned_as_by_the_plain_computation,
        }
        Time: backfilling {
            slow_what_is_kept_decides_as_the_plain_computation_in_3000_worlds,
            slow_slots_are_planned_as_by_the_plain_computation_in_300_worlds,
        }
        Nothing: questions {
            each_replica_is_explained_by_its_own_decision,
            offers_are_those_that_the_run_saw,
            what_can_be_picked_is_what_the_run_does_with_the_pick,
            who_waits_for_its_analysis_is_told_behind_whom,
            whoever_is_preempted_is_told_for_whom,
            a_share_that_is_missing_is_told_as_a_share,
            who_is_over_a_quota_is_not_said_to_fit,
            a_broken_never_is_explained_by_who_broke_it,
            answers_agree_with_the_log_in_all_scenarios,
        }
        Nothing: cli {
            help_and_version_are_data,
            a_wrong_flag_and_a_wrong_file_are_bad_input,
            a_run_of_too_many_records_is_stopped_and_says_what_grew,
            a_folder_without_scenarios_selects_nothing,
            the_catalog_is_listed_for_people_and_programs,
            a_log_is_printed_one_transition_to_a_line,
            a_log_is_filtered_by_job_node_reason_and_time,
            a_wrong_name_is_answered_with_the_nearest,
            a_replay_of_an_honest_log_is_silent,
            a_flipped_byte_in_an_event_is_found_and_named,
            an_event_that_is_no_record_any_more_is_named_with_what_belongs_there,
            a_changed_input_is_found_by_the_digest,
            a_log_that_is_cut_off_is_refused,
            equal_logs_do_not_differ,
            the_first_difference_of_two_logs_is_shown,
            a_waiting_job_is_told_why_not,
            a_placed_job_is_told_why_here,
            a_reader_that_goes_away_is_no_failure,
            waits_are_plotted_the_same_twice,
            a_scenario_that_holds_is_ok_and_its_report_is_reproduced,
            the_cause_of_a_report_of_dstack_is_the_option_that_its_fix_changed,
            the_cause_of_a_report_is_found_and_an_option_that_nothing_tells_apart_is_an_error,
            a_failure_says_where_what_and_how_to_see_it_again,
            a_broken_file_does_not_hide_the_others,
            a_run_leaves_its_files_and_they_agree_with_what_it_says,
            random_worlds_run_from_the_command_line,
        random_worlds_that_broke_once_hold,
            traces_are_listed_and_a_wrong_name_is_answered,
            colours_are_where_they_are_wanted,
            a_scenario_whose_trace_is_not_here_is_not_run,
            what_was_not_run_for_want_of_data_is_told_in_one_line,
            no_scenario_of_ours_is_warned_of,
            a_trace_that_should_be_here_and_is_not_is_a_failure,
            what_was_odd_in_a_trace_is_said,
            two_profiles_are_compared_option_by_option,
        }
        Nothing: streamed {
            a_streamed_run_decides_and_measures_as_one_whose_jobs_are_made_before,
            a_trace_is_streamed_as_it_is_read,
            what_cannot_be_had_of_a_streamed_run_is_refused,
        }
        Nothing: clouds {
            random_worlds_take_every_edge_of_instances_for_every_reason_that_there_is,
        }
        Slurm: clusters {
            a_slurm_job_array_leaves_what_one_process_leaves,
        }
        Nothing: explained {
            what_passed_the_head_is_explained,
        }
        Nothing: on_slurm {
            decisions_of_others_lead_where_the_same_ones_here_do,
            nothing_that_is_decided_outside_is_trusted,
            what_slurm_cannot_be_asked_for_is_refused_where_it_is_written,
        }
        Time: on_slurm {
            slow_a_slurm_that_hangs_or_is_gone_ends_the_run_with_its_reason,
        }
        SlurmInMinutes: on_slurm {
            slurm_limit_of_a_minute_is_held_by_slurm,
        }
        SlurmInRealTime: on_slurm {
            live_for_real_a_slurm_runs_what_was_rehearsed,
            live_for_real_what_slurm_is_told_and_what_it_loses,
            live_for_real_thirty_jobs_are_started_by_slurm_as_predicted,
        }
        SlowPython: outside {
            slow_a_program_that_never_comes_to_rest_ends_the_run,
        }
        Python: outside {
            a_question_does_not_take_the_place_of_a_decision,
            what_is_merely_refused_has_its_name_in_the_log_and_the_run_goes_on,
            a_place_that_is_not_safe_is_carried_out_and_reported_unless_the_file_says_otherwise,
            every_command_carries_out_what_is_not_safe,
            a_failed_process_ends_the_run_with_a_named_fault,
            the_errors_of_a_failed_process_are_shown,
            a_program_that_cannot_be_started_is_bad_input,
            a_fresh_process_takes_over_as_often_as_is_allowed,
            a_process_killed_at_every_tenth_message_leaves_a_whole_log,
            two_runs_with_the_same_program_give_the_same_log,
            thinking_is_charged_to_the_clock_if_the_file_says_so,
            faults_in_the_file_are_pointed_at,
            commands_that_start_no_program_refuse_such_a_file,
            the_example_decides_as_the_profile_first_fit_does,
            every_message_is_as_the_schema_says,
            all_of_the_protocol_is_used,
            the_transcript_of_the_page_is_of_a_real_run,
            the_page_names_every_fault,
        }
        Nothing: clusters {
            a_job_array_is_printed_before_it_is_submitted,
            an_indexed_job_is_as_the_schema_of_kubernetes_has_it,
        }
        Nothing: slurm {
            a_real_slurm_starts_jobs_as_its_profile_predicts,
            clocks_of_slurm_go_by_what_passes_take,
        }
        Time: slurm {
            slow_every_recording_of_slurm_is_met,
            slow_a_clock_that_is_told_from_what_it_started_is_the_one_that_was_drawn,
            slow_clocks_are_found_again_from_what_they_started,
        }
        Nothing: futures {
            another_node_from_a_time_on_is_what_it_would_be_on_paper,
            another_profile_judges_anew_who_waits,
            a_node_that_leaves_ends_what_it_has_begun,
            what_cannot_be_otherwise_is_told_so,
            random_worlds_branch_and_replay,
            two_alternatives_are_paired_by_seed_and_job,
            an_alternative_that_the_plan_does_not_have_is_told,
        }
        Time: futures {
            slow_many_random_worlds_branch_and_replay,
        }
        Nothing: theory {
            the_formulas_are_those_of_the_textbook,
            intervals_hold_the_mean_wait_of_theory,
        }
        Nothing: requeued {
            a_table_of_dates_begins_with_its_first_job,
            an_archive_is_not_taken_for_the_first_file_in_it,
            a_list_without_times_comes_in_an_order_and_stays,
        }
        Nothing: attained {
            drawn_lists_end_when_the_program_would_end_them,
        }
        Nothing: rlscheduler {
            drawn_lists_start_when_the_program_would_start_them,
        }
        Coverage: theory {
            theory_coverage,
        }
        Nothing: sequences {
            every_recorded_sequence_is_met_by_the_profile_of_its_release,
            every_recorded_service_has_as_many_replicas_as_its_release_gave_it,
            a_profile_without_the_faults_of_its_release_does_not_meet_them,
        }
        Nothing: offers {
            a_job_is_refused_only_where_nothing_would_do,
        }
        Nothing: conform {
            each_recorded_firing_time_is_met_to_the_second,
            each_recorded_state_of_a_run_is_met_through_the_control_plane,
            each_recorded_placement_of_a_model_is_met,
            a_listed_defect_is_mended_in_the_default_profile,
            each_recorded_match_and_each_region_is_met,
            each_recorded_attempt_of_kube_scheduler_is_met,
            a_wrong_world_of_kubernetes_is_told,
            answers_are_held_against_the_profile_of_one_version_or_against_any,
            a_recorded_decision_tells_an_option_apart,
            a_wrong_record_is_told_with_its_line_and_nothing_is_counted,
            each_recorded_cycle_of_kueue_is_met,
            a_changed_quota_shows_in_the_cycles_of_kueue,
        }
        Data: conform {
            every_public_attempt_of_kube_scheduler_is_met,
        }
        Nothing: live {
            what_cannot_be_run_for_real_is_refused_whole,
            shares_that_promise_too_much_are_told_what_to_state,
            every_process_of_a_run_ends_with_it,
            control_c_ends_everything_and_leaves_a_whole_log,
            whoever_is_killed_leaves_no_process,
            a_prediction_that_was_changed_afterwards_is_found_out,
            a_header_that_was_written_afterwards_is_found_out_as_far_as_a_log_can_show,
            a_log_is_judged_under_the_profile_that_it_holds,
            delays_that_are_fitted_on_a_recording_explain_it,
        }
        Nothing: keepers {
            a_keeper_killed_as_its_child_is_born_leaves_nobody,
        }
        Time: keepers {
            slow_500_keepers_killed_as_their_children_are_born_leave_nobody,
        }
        RealTime: live {
            live_for_real_every_committed_scenario_runs_and_its_log_replays,
        }
        Nothing: fit {
            where_a_model_fits_and_with_what_memory_is_as_computed_on_paper,
            a_gguf_model_takes_its_layers_and_what_is_fixed,
            what_runs_at_a_time_is_in_the_way_then_and_not_before,
            each_change_that_is_named_helps,
            a_model_that_cannot_be_asked_about_is_told_so,
            what_a_release_would_overcommit_does_not_fit,
            to_reserve_more_can_be_the_change_that_helps,
            a_file_without_a_profile_is_asked_under_gpustack,
            sglang_is_asked_in_its_own_words,
        }
        Nothing: deployments {
            the_default_profile_keeps_what_releases_break,
            a_pick_of_all_that_is_left_is_placed_as_automatically,
            the_page_of_gpustack_lists_every_scenario,
        }
        Time: deployments {
            slow_deployments_keep_their_properties_over_many_worlds,
        }
        Nothing: mistakes {
            a_path_that_is_not_there_is_answered_with_the_nearest_that_is,
            a_profile_or_a_part_is_not_taken_for_a_scenario,
            a_profile_file_is_found_where_it_was_typed,
            a_negative_value_is_told_what_was_expected,
            a_name_like_no_other_is_answered_with_those_there_are,
            a_plot_has_a_curve_for_each_name_and_is_an_svg,
            the_files_of_a_run_are_replaced_together,
            what_finds_no_room_is_told_with_the_name_of_the_file,
            a_file_whose_lines_end_in_carriage_returns_has_lines,
            a_release_without_a_profile_is_answered_with_those_beside_it,
            what_is_typed_at_length_is_answered_briefly,
            what_is_no_file_of_its_own_is_not_replaced_by_one,
            a_carried_trace_is_found_from_any_folder,
        }
        Nothing: policy {
            every_form_of_the_page_of_usage_and_policies_holds,
            a_policy_is_rehearsed_on_a_recording_alone,
            each_column_is_named_as_the_recording_names_it,
            a_sweep_tries_every_minimum_with_every_window,
            a_wrong_policy_or_recording_is_told_where,
        }
        Nothing: policy_oracle {
            the_machine_agrees_with_its_definition_on_random_series,
            it_is_neither_early_nor_late_at_any_interval_up_to_the_window,
        }
        Time: policy_oracle {
            slow_the_machine_agrees_with_its_definition_on_100_000_random_series,
        }
        Nothing: run_sequences {
            an_idle_fleet_is_free_again_after_any_sequence,
        }
        Time: run_sequences {
            slow_an_idle_fleet_is_free_again_after_100_000_random_sequences,
        }
        Nothing: quotas {
            each_job_begins_when_room_order_and_quotas_let_it,
        }
        Nothing: schema {
            the_committed_schema_is_the_one_that_is_printed,
            every_scenario_is_valid_under_the_schema,
            the_schema_refuses_what_is_plainly_wrong,
        }
        Nothing: runner {
            each_cell_of_a_matrix_is_a_test_of_its_own,
            scenarios_are_selected_by_tag_path_and_title,
            a_part_of_the_seeds_is_counted_and_the_first_otherwise_is_named,
            jobs_that_come_by_chance_are_judged_seed_by_seed,
            github_shows_each_failure_at_its_line,
            tap_has_a_point_for_each_run,
            junit_is_the_same_twice_and_has_every_verdict,
            a_baseline_names_the_first_decision_that_a_change_altered,
            a_baseline_tells_what_is_not_there_any_more,
            a_change_of_a_file_runs_it_again,
        }
        Nothing: plans {
            a_sweep_is_the_same_however_it_was_run,
            a_sweep_goes_on_from_wherever_it_was_cut,
            a_search_finds_what_the_whole_grid_has,
            a_search_says_what_it_proved,
            the_alternatives_are_shown_with_the_cheapest_that_will_do_first,
            a_plan_of_picked_nodes_runs_and_its_hash_depends_on_the_pick,
            a_plan_that_is_wrong_is_told_where,
            all_values_that_are_wrong_are_told,
            a_fleet_without_prices_has_no_cheapest,
            what_runs_show_is_made_small,
            a_mix_may_do_without_a_machine,
            what_was_run_under_another_profile_is_not_gone_on_with,
            runs_that_the_plan_does_not_have_are_refused,
            a_budget_of_time_ends_a_plan_that_goes_on_later,
            slow_fifty_kills_change_nothing,
        }
        Chromium: browser {
            a_report_of_a_run_is_whole_and_its_timeline_zooms,
            a_report_of_a_plan_is_whole,
            a_report_without_its_script_stands_there_whole,
        }
        Xmllint: runner {
            junit_is_accepted_by_the_schema_of_jenkins,
        }
        Nothing: diagnostics {
            a_wrong_override_is_shown_on_the_command_line,
            an_override_changes_the_file_as_if_it_had_been_written_there,
            what_is_no_scenario_at_all_ends_in_one_clear_error,
            an_override_of_a_composed_file_is_shown_on_the_command_line,
            a_composed_file_is_the_same_as_one_written_out,
        }
        Nothing: fuzzed {
            no_text_makes_the_reader_panic,
        }
        Nothing: grammar {
            every_example_of_the_reference_holds,
            every_example_of_the_other_pages_is_read,
            a_log_with_judgements_is_audited_and_replayed,
            every_word_of_the_grammar_has_an_example,
            metrics_are_held_against_their_bounds,
            an_order_is_of_first_instants,
            reasons_cancellations_and_judgements_are_told,
        }
        Nothing: selection {
            what_is_offered_fits_and_what_is_refused_does_not_in_some_random_worlds,
            what_is_offered_fits_and_what_is_refused_does_not_in_all_scenarios,
            what_is_offered_for_a_model_is_placed_and_what_is_refused_is_not_in_random_worlds,
        }
        Nothing: lists {
            a_log_is_the_same_after_it_was_converted_twice,
            a_list_comes_through_a_pipe_too,
            a_list_is_scaled_by_its_gaps_and_sampled_by_its_lines,
            a_check_fails_where_a_job_could_never_run,
            a_list_of_ones_own_needs_three_columns,
            all_faults_of_a_list_are_told_and_no_half_of_it_is_left,
        }
        Nothing: report {
            metrics_are_what_arithmetic_on_paper_gives,
            what_gpus_really_did_is_what_arithmetic_on_paper_gives,
            fragmentation_is_what_arithmetic_on_paper_gives,
            what_was_before_the_warm_up_counts_nowhere,
            the_page_of_metrics_defines_each,
            a_timeline_is_a_trace_of_what_ran_where,
            a_timeline_is_what_readers_of_traces_ask,
            the_files_of_a_report_are_what_arithmetic_on_paper_gives_and_the_same_twice,
            tables_are_what_arithmetic_on_paper_gives,
            a_summary_of_a_small_fleet_shows_each_gpu,
            a_summary_of_a_large_fleet_shows_how_full_it_was,
            a_run_of_nothing_has_metrics_too,
        }
    };
    trials.extend(diagnostics::broken_files().into_iter().map(|file| {
        let name = format!("diagnostics::{}", file.file_stem().expect("a file").to_string_lossy());
        trial(&name, Needs::Nothing, move || diagnostics::a_broken_file_is_told_what_to_type_next(&file))
    }));
    for (name, test) in tidy::ALL.into_iter().chain(oracle::ALL) {
        trials.push(trial(name, Needs::Nothing, move || test().unwrap_or_else(|fault| panic!("{fault}"))));
    }
    for (name, test) in determinism::FAST {
        trials.push(trial(name, Needs::Nothing, test));
    }
    for (name, test) in determinism::SLOW.into_iter().chain(selection::SLOW) {
        trials.push(trial(name, Needs::Time, test));
    }
    let of_data = openb::ALL.into_iter().chain(swf_samples::ALL).chain(traced::ALL).chain(lists::ALL);
    for (name, test) in of_data.chain(conform::KUEUE) {
        trials.push(trial(name, Needs::Data, move || test(&data().expect("it is here")).expect(name)));
    }
    for (name, test) in literature::FAST {
        trials.push(trial(name, Needs::Data, move || test(&data().expect("it is here")).expect(name)));
    }
    for (name, test) in literature::SLOW {
        trials.push(trial(name, Needs::Means, move || test(&data().expect("it is here")).expect(name)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn trial(name: &str, needs: Needs, run: impl FnOnce() + Send + 'static) -> Trial {
    let is_here = match needs {
        Needs::Nothing => true,
        Needs::Data => data().is_some(),
        Needs::Time => is_wanted("slow"),
        Needs::Means => is_wanted("literature_means") && data().is_some(),
        Needs::RealTime => is_wanted("live_for_real"),
        Needs::Index => is_wanted("released_for_real") && data().is_some(),
        Needs::Coverage => is_wanted("theory_coverage"),
        Needs::SlurmInRealTime => is_wanted("live_for_real") && clusters::slurm_is_here(),
        Needs::SlurmInMinutes => is_wanted("slurm_limit") && clusters::slurm_is_here(),
        Needs::Slurm => clusters::slurm_is_here(),
        Needs::Python => outside::python_is_here(),
        Needs::SlowPython => is_wanted("slow") && outside::python_is_here(),
        Needs::Xmllint => runner::xmllint_is_here(),
        Needs::SmallDisks => is_wanted("slow") && probes::small_disks_are_here(),
        Needs::Chromium => browser::chromium_is_here(),
    };
    // If the data is required, its absence is a failure, so that the gap is not overlooked.
    let is_required =
        std::env::var_os("DRYRACK_REQUIRE_DATA").is_some_and(|value| value == "1") && matches!(needs, Needs::Data);
    let absent = !is_here && is_required;
    let runner = move || {
        if absent {
            return Err("the folder that DRYRACK_DATA names does not exist".into());
        }
        run();
        Ok(())
    };
    Trial::test(name, runner).with_ignored_flag(!is_here && !is_required)
}

fn is_wanted(set: &str) -> bool {
    std::env::args().any(|typed| typed.contains(set))
}

/// The folder of traces and recorded decisions.
pub fn data() -> Option<std::path::PathBuf> {
    let named = std::env::var_os("DRYRACK_DATA").map(std::path::PathBuf::from);
    let folder = named.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../shared").into());
    folder.join("traces").is_dir().then_some(folder)
}
