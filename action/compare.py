#!/usr/bin/env python3
"""Runs scenarios before and after a change, and writes a comment on what differs.

The base is checked out beside the working tree, and its decisions are stored as a baseline. Then the scenarios of the
working tree are held against it. The exit status is that of `dryrack test` for the working tree: 1 if an expectation
fails. A decision that differs is no failure, unless `--fail-on-change true` says so.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MARK = "<!-- dryrack -->"
# The numbers of changes and of failures that are told at length.
SHOWN = 20


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dryrack", default="dryrack", help="the program")
    parser.add_argument("--base", required=True, help="the version before the change, as git names it")
    parser.add_argument("--build", default="", help="a command that builds the scheduler in both versions")
    parser.add_argument("--out", required=True, type=Path, help="a folder for report.json and comment.md")
    parser.add_argument("--fail-on-change", default="false", choices=["true", "false"])
    parser.add_argument("scenarios", nargs="+", help="scenario files and folders, from the root of the repository")
    return parser.parse_args()


def git(*args):
    return subprocess.run(["git", *args], check=True, capture_output=True, text=True).stdout.strip()


def build(command, folder):
    if command:
        subprocess.run(command, shell=True, check=True, cwd=folder)


def store_baseline(asked, baseline):
    """Stores the decisions of the base. Returns what it has no decisions for, as a sentence; empty if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        tree = os.path.join(folder, "base")
        git("clone", "--quiet", "--shared", "--no-checkout", ".", tree)
        git("-C", tree, "checkout", "--quiet", "--detach", git("rev-parse", f"{asked.base}^{{commit}}"))
        there = [path for path in asked.scenarios if os.path.exists(os.path.join(tree, path))]
        if not there:
            baseline.mkdir(parents=True, exist_ok=True)
            return "The base has no scenarios."
        build(asked.build, tree)
        command = [asked.dryrack, "test", *there, "--baseline", baseline, "--update-baseline", "--quiet"]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            baseline.mkdir(parents=True, exist_ok=True)
            said = (done.stderr or done.stdout).strip().splitlines()
            return f"The base cannot be run: `{said[0] if said else done.returncode}`"
        return ""


def text(line):
    """A line in a cell of a table."""
    return "nothing more" if line is None else line.replace("|", "\\|").replace("<", "&lt;")


def changes(report, changed_files):
    """A table of the runs that decide otherwise, and below it why each does."""
    differing = [run for run in report.get("baseline", []) if run["change"]["is"] in ("decision", "log_only", "gone")]
    decided = [run for run in differing if run["change"]["is"] == "decision"]
    lines = []
    if decided:
        lines += ["| scenario | before | now |", "| --- | --- | --- |"]
    for run in decided[:SHOWN]:
        change, name = run["change"], run["run"].removeprefix("./")
        lines.append(f"| `{name}` | {text(change['was'])} | {text(change['now'])} |")
    if len(decided) > SHOWN:
        lines.append(f"\nand {len(decided) - SHOWN} more.")
    for run in decided[:SHOWN]:
        change, name = run["change"], run["run"].removeprefix("./")
        own = [f"decision {change['number']}, line {change['line']} of the file", *change["why"]]
        if change["others"]:
            own.append(f"and {change['others']} later decision{'s differ' if change['others'] > 1 else ' differs'}")
        if run["file"].removeprefix("./") in changed_files:
            own.append("the scenario itself has changed too")
        lines += ["", f"<details><summary>Why, in <code>{name}</code></summary>", "", "```text", *own, "```", "", "</details>"]
    others = {"log_only": "the same decisions, but another log", "gone": "is no longer there"}
    for run in differing:
        if run["change"]["is"] in others:
            lines.append(f"\n`{run['run'].removeprefix('./')}`: {others[run['change']['is']]}.")
    return differing, lines


def failures(report):
    """The runs that fail, with what was expected and what happened."""
    failed, lines = 0, []
    for file in report["files"]:
        for run in file["runs"]:
            if run["status"] in ("passed", "not_run"):
                continue
            failed += 1
            if failed > SHOWN:
                continue
            name = file["file"].removeprefix("./") + (f" [{run['cell']}]" if run["cell"] else "")
            lines += ["", f"**`{name}`** {run['scenario']}", "", "```text"]
            for found in run["failures"]:
                lines += [f"{found['place']}  {found['name']}", f"  expected  {found['expected']}"]
                lines += [f"  happened  {found['happened']}", *(f"  {line}" for line in found["why"])]
            if not run["failures"]:
                lines.append(run["text"].strip())
            if run["repeat"]:
                lines.append(f"repeat with: {run['repeat']}")
            lines.append("```")
    if failed > SHOWN:
        lines.append(f"\nand {failed - SHOWN} more.")
    return failed, lines


def comment(report, changed_files, note):
    differing, of_changes = changes(report, changed_files)
    failed, of_failures = failures(report)
    runs = sum(len(file["runs"]) for file in report["files"])
    counted = f"{len(differing)} of {runs} runs {'decides' if len(differing) == 1 else 'decide'} otherwise than before"
    head = counted if differing else f"all {runs} runs decide as before"
    if note:
        head = f"{runs} runs, compared with nothing"
    if failed:
        head += f"; {failed} {'fails' if failed == 1 else 'fail'}"
    new = [run["run"].removeprefix("./") for run in report.get("baseline", []) if run["change"]["is"] == "new"]
    parts = [MARK, f"### dryrack: {head}", ""]
    if note:
        parts += [note, ""]
    parts += of_changes
    if new and not note:
        parts += ["", f"New: {', '.join(f'`{name}`' for name in new[:SHOWN])}."]
    if of_failures:
        parts += ["", "#### Failures", *of_failures]
    return len(differing), failed, "\n".join(parts).rstrip() + "\n"


def main():
    asked = arguments()
    asked.out = asked.out.resolve()
    asked.out.mkdir(parents=True, exist_ok=True)
    if os.sep in asked.dryrack:
        asked.dryrack = str(Path(asked.dryrack).expanduser().resolve())
    os.chdir(git("rev-parse", "--show-toplevel"))
    report_file, comment_file = asked.out / "report.json", asked.out / "comment.md"
    with tempfile.TemporaryDirectory() as folder:
        baseline = Path(folder) / "baseline"
        note = store_baseline(asked, baseline)
        build(asked.build, ".")
        command = [asked.dryrack, "test", *asked.scenarios, "--baseline", baseline, "--json", report_file, "--format"]
        # The annotations for GitHub are on the standard output.
        report_file.unlink(missing_ok=True)
        done = subprocess.run([*command, "github"])
    if not report_file.exists():
        sys.exit(done.returncode or 2)
    report = json.loads(report_file.read_text())
    changed_files = set(git("diff", "--name-only", asked.base).splitlines())
    changed, failed, body = comment(report, changed_files, note)
    comment_file.write_text(body)
    for variable, line in [
        ("GITHUB_OUTPUT", f"changed={changed}\nfailed={failed}\ncomment={comment_file}\n"),
        ("GITHUB_STEP_SUMMARY", body),
    ]:
        if os.environ.get(variable):
            with open(os.environ[variable], "a") as file:
                file.write(line)
    is_failure = failed or done.returncode not in (0, 1) or (changed and asked.fail_on_change == "true")
    sys.exit((done.returncode if done.returncode > 1 else 1) if is_failure else 0)


if __name__ == "__main__":
    main()
