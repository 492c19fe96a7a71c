"""Starts the driver of a released program: `python -I main.py PROGRAM FOLDER-OF-THE-RELEASE [records FILE...]`.

The process is made deterministic and isolated before anything of the release is imported: a fixed seed for hashes, no
user packages, no variable that changes what is imported, an empty home folder that is deleted at the end.
"""

import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# What upstream programs read of the environment is not part of the world that a scenario describes.
DROPPED = ("PYTHON", "GPUSTACK", "DSTACK", "HF_", "HUGGING", "TRANSFORMERS", "MODELSCOPE", "SENTRY", "DRYRACK_DATA",
           "http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def start_again():
    """The seed of hashes is read when Python starts, so it needs a new process image (the process id stays)."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)}
    kept.update(PYTHONHASHSEED="0", PYTHONNOUSERSITE="1", PYTHONSAFEPATH="1", PYTHONUTF8="1", TZ="UTC", LC_ALL="C.UTF-8")
    os.execve(sys.executable, [sys.executable, "-s", "-P"] + sys.argv, kept)


def load(name, path):
    """The driver of a program has the program's own name as a file, so it cannot be imported by name."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def main():
    if os.environ.get("PYTHONHASHSEED") != "0" or not sys.flags.safe_path or not sys.flags.no_user_site:
        start_again()
    program, release, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    sys.path.insert(0, release)
    shared = load("dryrack_driver", os.path.join(HERE, "driver.py"))
    shared.beside = lambda name: load("dryrack_" + name, os.path.join(HERE, name + ".py"))
    shared.prepare()
    driver = shared.guarded(lambda: load("dryrack_driver_of_" + program, os.path.join(HERE, program + ".py")).driver())
    shared.started()
    if rest[:1] == ["records"]:
        records = load("dryrack_records", os.path.join(HERE, "records.py"))
        shared.guarded(lambda: records.compare(driver, rest[1:]))
    else:
        shared.guarded(lambda: shared.serve(driver))


main()
