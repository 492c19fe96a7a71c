#!/usr/bin/env python3
"""Writes the lock files of this folder from `uv.lock` files: exact versions, and the sums of what may be installed.

    lock.py base NAME UV_LOCK [--only FILE] [--also NAME...]  > NAME.txt
    lock.py release PROGRAM VERSION BASE UV_LOCK PACKAGE...   >> releases.txt

`--only` names a file that lists packages, one a line: those that the drivers were seen to import. A sum is kept for
CPython 3.11 on Linux (x86-64, Arm) and on macOS (Arm), since that is what the environments run on.
"""

import sys
import tomllib

PYTHON = "cp311"


def fits(wheel):
    name = wheel["url"].rsplit("/", 1)[1].removesuffix(".whl")
    python, abi, platform = name.rsplit("-", 3)[1:]
    pythons = python.split(".")
    by_python = PYTHON in pythons or "py3" in pythons or (
        abi == "abi3" and any(tag.startswith("cp3") and int(tag[3:] or 0) <= 11 for tag in pythons))
    by_abi = abi in ("none", "abi3", PYTHON) or PYTHON in abi.split(".")
    by_platform = platform == "any" or (
        ("manylinux" in platform or platform.startswith("linux")) and ("x86_64" in platform or "aarch64" in platform)) or (
        "macosx" in platform and ("arm64" in platform or "universal2" in platform))
    return by_python and by_abi and by_platform


def line(package):
    sums = [wheel["hash"] for wheel in package.get("wheels", []) if fits(wheel)]
    if not sums:
        sums = [package["sdist"]["hash"]]
    return " ".join([f"{package['name']}=={package['version']}"] + [f"--hash={one}" for one in sorted(sums)])


def packages(path):
    with open(path, "rb") as file:
        return {package["name"]: package for package in tomllib.load(file)["package"] if "registry" in package["source"]}


def main(args):
    if args[0] == "base":
        locked, rest = packages(args[2]), args[3:]
        names = set(locked)
        if "--only" in rest:
            names = set(open(rest[rest.index("--only") + 1]).read().split())
        if "--also" in rest:
            names |= set(rest[rest.index("--also") + 1:])
        for name in sorted(names & set(locked)):
            print(line(locked[name]))
    else:
        program, version, base, path, *wanted = args[1:]
        locked = packages(path)
        print(f"[{program} {version} on {base}]")
        for name in [program, *wanted]:
            if name in locked:
                print(line(locked[name]))


main(sys.argv[1:])
