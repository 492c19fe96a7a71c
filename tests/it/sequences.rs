//! Recorded state sequences of released software are matched state by state: of the GPUStack scheduler, recorded with
//! its own store, and of dstack services.

use std::path::Path;

use dryrack_conform::{Account, Profiles, conform};

trials! {
    Nothing: [
        every_recorded_sequence_is_met_by_the_profile_of_its_release,
        every_recorded_service_has_as_many_replicas_as_its_release_gave_it,
        a_profile_without_the_faults_of_its_release_does_not_meet_them,
    ]
}

fn account(profiles: &mut Profiles) -> Account {
    let mut account = Account::default();
    for version in ["0.6.0", "0.6.1", "0.7.1"] {
        let file = format!("{}/tests/data/gpustack/sequences-{version}.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
        conform(Path::new(&file), profiles, &mut account).expect("a file of records");
    }
    account
}

fn every_recorded_sequence_is_met_by_the_profile_of_its_release() {
    let account = account(&mut Profiles::default());
    let told: Vec<String> =
        account.differences.iter().map(|one| format!("{} {}: {}", one.version, one.id, one.text)).collect();
    assert!(told.is_empty(), "{} of {} differ:\n{}", told.len(), account.all.asked, told.join("\n"));
    assert_eq!((account.records, account.all.asked), (153, 153), "all that was recorded was asked");
}

fn every_recorded_service_has_as_many_replicas_as_its_release_gave_it() {
    let file = format!("{}/tests/data/dstack/services.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let held = |profiles: &mut Profiles| {
        let mut account = Account::default();
        conform(Path::new(&file), profiles, &mut account).expect("a file of records");
        account
    };
    let account = held(&mut Profiles::default());
    let told: Vec<&str> = account.differences.iter().map(|one| one.text.as_str()).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
    assert_eq!((account.records, account.all.asked), (25, 25), "all that was recorded was asked");
    let mended = dryrack_profile::load_profile("dstack", Path::new("")).expect("a profile of ours");
    let mended = held(&mut Profiles::fixed(mended));
    assert!(mended.all.identical < mended.all.asked / 2, "{:?}", mended.all);
}

fn a_profile_without_the_faults_of_its_release_does_not_meet_them() {
    let mended = dryrack_profile::load_profile("gpustack", Path::new("")).expect("a profile of ours");
    let account = account(&mut Profiles::fixed(mended));
    assert!(account.all.identical < account.all.asked / 2, "{:?}", account.all);
}
