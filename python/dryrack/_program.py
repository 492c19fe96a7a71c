"""The program dryrack, which does all the work: where it is, and how it is called."""
from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Optional, Union

PathLike = Union[str, "os.PathLike[str]"]


class DryrackError(Exception):
    """The program could not do what was asked."""


class InvalidInput(DryrackError, ValueError):
    """A scenario, an option or another file is wrong. The text says where, what was expected, and what to write."""


def program() -> str:
    """The path of the program: the one that the variable `DRYRACK` names, the one that was installed with this package,
    or the first on `PATH`."""
    named = os.environ.get("DRYRACK")
    if named:
        found = shutil.which(named)
        if found is None:
            raise DryrackError(f"DRYRACK is {named}, which is not a program")
        return os.path.abspath(found)
    schemes = [sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user")]
    for scheme in schemes:
        installed = Path(sysconfig.get_path("scripts", scheme)) / "dryrack"
        if installed.is_file():
            return str(installed)
    found = shutil.which("dryrack")
    if found is None:
        raise DryrackError("the program `dryrack` was not found; install it, or set DRYRACK to its path")
    return os.path.abspath(found)


def call(arguments: Sequence[PathLike], folder: Optional[PathLike] = None) -> str:
    """What the program prints. Wrong input is an `InvalidInput`; an expectation that fails is not an error."""
    line = [program(), *(os.fspath(argument) for argument in arguments)]
    done = subprocess.run(line, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8")
    judge(done.returncode, done.stderr)
    return done.stdout


def judge(status: int, errors: str) -> None:
    """Raises the error that this exit status stands for (`dryrack help` lists them)."""
    if status == 2:
        raise InvalidInput(errors.strip())
    if status not in (0, 1):
        raise DryrackError(errors.strip() or f"the program ended with status {status}")


def version() -> str:
    """The version of the program, such as `0.1.0`."""
    return call(["--version"]).split()[1]
