import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

import dryrack
from dryrack import outside

FIRST_FIT = f"python3 {ROOT / 'examples/outside/first_fit.py'}"


def first_fit(world: outside.World) -> Iterator[outside.Object]:
    """The first node with enough idle GPUs."""
    idle = {name: [gpu["index"] for gpu in node["gpus"] if not gpu["held_by"]] for name, node in world.nodes.items()}
    for run in world.waiting():
        wanted = world.job(run)["task"]["gpus"]["count"]
        for name, gpus in idle.items():
            if len(gpus) >= wanted:
                idle[name] = gpus[wanted:]
                yield outside.place(run, [outside.part(name, gpus=gpus[:wanted])])
                break


def test_a_dict_runs_and_its_tables_are_data_frames(two_jobs: dict[str, Any]) -> None:
    run = dryrack.run(two_jobs)
    assert run.ok and run.seconds == 7200 and run.profile == "first-fit" and run.seed == 1
    assert list(run.jobs["start"]) == [0, 3600] and list(run.jobs["end"]) == [3600, 7200]
    assert list(run.nodes["gpu_seconds"]) == [2 * 7200]
    assert run.metrics["queue_wait_mean_seconds"] == 1800 and run.metrics.isna()["cost"]
    assert list(run.expectations["passed"]) == [True, True]
    placed = run.events.query("name == 'placed'")
    assert list(placed["seconds"]) == [0, 3600] and list(placed["node"]) == ["alpha", "alpha"]
    assert list(placed["job"]) == ["train-0", "train-1"] and list(placed["attempt"]) == [1, 1]
    assert "too few GPUs are free" in run.explain("train-1", at="10m")
    assert "all expectations hold" in repr(run)


def test_a_job_that_never_starts_has_no_times(two_jobs: dict[str, Any]) -> None:
    # The second job waits at the end, which leaves the bound on its wait open, and has not ended.
    run = dryrack.run(two_jobs, until="30m")
    assert not run.ok and run.jobs["start"].isna().tolist() == [False, True]
    assert "2 of 2 expectations failed" in repr(run)


def test_a_file_runs_under_another_profile_with_other_fields(tmp_path: Path, two_jobs: dict[str, Any]) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(json.dumps(two_jobs))
    run = dryrack.run(file, profile="spread", seed=7, set={"nodes.alpha.count": 2}, out=tmp_path / "out")
    assert run.profile == "spread" and run.seed == 7 and run.seconds == 3600
    assert (tmp_path / "out/events.jsonl").is_file() and run.log == tmp_path / "out/events.jsonl"


def test_paths_in_a_dict_begin_in_its_folder_which_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job,submit_s,duration_s,gpus\na,0,60,1\nb,0,60,1\n")
    scenario = {"scenario": "A list", "nodes": [{"name": "n", "machine": "a100-80g-x1"}],
                "trace": {"format": "csv", "file": "jobs.csv"}}
    run = dryrack.run(scenario, folder=tmp_path)
    assert run.seconds == 120 and [file.name for file in tmp_path.iterdir()] == ["jobs.csv"]
    with pytest.raises(dryrack.InvalidInput, match="jobs.csv"):
        dryrack.run(scenario)


def test_the_files_of_a_run_go_with_it_or_are_saved(tmp_path: Path, two_jobs: dict[str, Any]) -> None:
    run = dryrack.run(two_jobs)
    log, saved = run.log, run.save(tmp_path / "kept")
    assert log.is_file()
    del run
    assert not log.parent.exists() and (saved / "events.jsonl").is_file() and (saved / "jobs.csv").is_file()


def test_a_function_decides_as_a_program_does(busy: dict[str, Any]) -> None:
    busy["jobs"] = busy["jobs"][:1]
    function, program = dryrack.run(busy, scheduler=first_fit), dryrack.run(busy, scheduler=FIRST_FIT)
    assert list(function.jobs["start"]) == list(program.jobs["start"])
    assert list(function.jobs["gpus"]) == list(program.jobs["gpus"])
    assert function.digest == dryrack.run(busy, scheduler=first_fit).digest
    said = function.events.query("name == 'outside'")["data"].iloc[0]
    assert said["joined"] == {"name": "first_fit", "version": "in Python"}
    assert "decision is the same" in function.diff(program)


def test_what_a_function_raises_is_raised(two_jobs: dict[str, Any]) -> None:
    def broken(world: outside.World) -> list[outside.Object]:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        dryrack.run(two_jobs, scheduler=broken)


def test_a_wrong_decision_fails_by_name(two_jobs: dict[str, Any]) -> None:
    def wrong(world: outside.World) -> list[outside.Object]:
        return [outside.place(run, [outside.part("beta", gpus=[0, 1])]) for run in world.waiting()]

    run = dryrack.run(two_jobs, scheduler=wrong)
    refused = run.events.query("name == 'outside'")["data"]
    assert not run.ok and any("unknown_node" in str(said) for said in refused)


def test_questions_of_the_scenario_go_to_a_function(two_jobs: dict[str, Any]) -> None:
    asked = []

    def evaluate(world: outside.World, job: outside.Object) -> outside.Object:
        asked.append(job["name"])
        return {"fits": False, "text": "no room"}

    two_jobs["expect"] = [{"name": "asked", "evaluate": "train-0", "is": "unfit", "at": "30m"}]
    run = dryrack.run(two_jobs, scheduler=first_fit, evaluate=evaluate)
    assert run.ok and asked == ["train-0"]


def test_wrong_input_is_told_where(two_jobs: dict[str, Any]) -> None:
    two_jobs["jbos"] = []
    for call in (dryrack.check, dryrack.run, lambda it: dryrack.run(it, scheduler=first_fit)):
        with pytest.raises(dryrack.InvalidInput, match="did you mean `jobs`") as wrong:
            call(two_jobs)
        assert "unknown key `jbos`" in str(wrong.value)
    with pytest.raises(dryrack.InvalidInput, match="no profile is named `spred`"):
        dryrack.check({**two_jobs, "jbos": None, "profile": "spred"})


def test_the_program_is_found_or_its_absence_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert dryrack.version() == dryrack.__version__ and "easy" in dryrack.profiles()
    monkeypatch.setenv("DRYRACK", str(tmp_path / "none"))
    with pytest.raises(dryrack.DryrackError, match="DRYRACK is .*none, which is not a program"):
        dryrack.program()
