"""Rehearse a GPU cluster before it runs.

    import dryrack

    run = dryrack.run({
        "scenario": "Two jobs on one node",
        "nodes": [{"name": "alpha", "machine": "a100-80g-x2"}],
        "jobs": [{"name": "train", "count": 2, "gpus": 2, "duration": "1h"}],
        "expect": ["max(queue_wait) <= 1h"],
    })
    run.ok        # whether all expectations hold
    run.jobs      # a data frame with a row for each task of a job
    run.metrics   # such as run.metrics["queue_wait_mean_seconds"]

`run` also takes the path of a scenario file, and a Python function that decides in place of the profile. The modules:

- `dryrack.outside`: what such a function gets and gives
- `dryrack.gym`: an environment of gymnasium, for those who learn schedulers
"""
from . import outside
from ._program import DryrackError, InvalidInput, program, version
from ._run import Run, check, profiles, run

__all__ = ["DryrackError", "InvalidInput", "Run", "check", "outside", "profiles", "program", "run", "version"]
__version__ = version()
