//! Runs `it/diagnostics.rs` until the harness does.

#[path = "it/diagnostics.rs"]
mod diagnostics;

#[test]
fn broken_files_are_told_what_to_type_next() {
    for path in diagnostics::broken_files() {
        diagnostics::a_broken_file_is_told_what_to_type_next(&path);
    }
}

#[test]
fn a_wrong_override_is_shown_on_the_command_line() {
    diagnostics::a_wrong_override_is_shown_on_the_command_line();
}

#[test]
fn an_override_changes_the_file_as_if_it_had_been_written_there() {
    diagnostics::an_override_changes_the_file_as_if_it_had_been_written_there();
}

#[test]
fn what_is_no_scenario_at_all_ends_in_one_clear_error() {
    diagnostics::what_is_no_scenario_at_all_ends_in_one_clear_error();
}

#[path = "it/fuzzed.rs"]
mod fuzzed;
#[path = "it/traced.rs"]
mod traced;

#[test]
fn no_text_makes_the_reader_panic() {
    fuzzed::no_text_makes_the_reader_panic(2_000);
}

#[test]
fn openb_becomes_pods_on_its_own_nodes() {
    if let Some(data) = std::env::var_os("DRYRACK_DATA") {
        traced::openb_becomes_pods_on_its_own_nodes(std::path::Path::new(&data));
    }
}
