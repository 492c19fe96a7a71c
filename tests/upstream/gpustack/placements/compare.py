#!/usr/bin/env python3
"""Draws requests, asks the released packages themselves, and compares every answer with dryrack's.

    python3 compare.py [--count 5000] [--seed 1] [--versions 0.6.0 0.7.1 2.3.0] [--evaluations] [--folder FOLDER]

Makes an environment for each version in FOLDER (about a minute and up to 0.9 GB each), which is used again if it is there.
Fails unless at least 999 in 1,000 answers are identical.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import venv

HERE = pathlib.Path(__file__).resolve().parent
# The evaluator of 0.6 and 0.7 needs it, and their packages do not say so.
UNDECLARED = ["cachetools"]


def environment(folder, version):
    place = folder / f"v{version}"
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"gpustack=={version}", *UNDECLARED], check=True)
    return python


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--count", type=int, default=5000)
    asked.add_argument("--seed", default="1")
    asked.add_argument("--versions", nargs="+", default=["0.6.0", "0.7.1", "2.3.0"])
    asked.add_argument("--evaluations", action="store_true", help="evaluations before deployment, of 0.6 and 0.7")
    asked.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "gpustack-placements")
    asked.add_argument("--dryrack", default="dryrack")
    asked = asked.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    op = "evaluate" if asked.evaluations else "place"
    requests = asked.folder / f"{op}-{asked.seed}.jsonl"
    with requests.open("w") as out:
        draw = [sys.executable, HERE / "draw.py", "--seed", asked.seed, "--count", str(asked.count), "--op", op]
        subprocess.run(draw, stdout=out, check=True)
    answered = []
    for version in asked.versions:
        python = environment(asked.folder, version)
        records = asked.folder / f"{op}-{asked.seed}-{version}.jsonl"
        with requests.open() as given, records.open("w") as out:
            subprocess.run([python, HERE / "ask.py"], stdin=given, stdout=out, stderr=subprocess.DEVNULL,
                           env={"PYTHONHASHSEED": "0", "PATH": "/usr/bin:/bin", "HOME": str(asked.folder)}, check=True)
        answered.append(records)
    ended = [subprocess.run([asked.dryrack, "conform", "--at-least", "99.9%", records]).returncode for records in answered]
    sys.exit(max(ended))


if __name__ == "__main__":
    main()
