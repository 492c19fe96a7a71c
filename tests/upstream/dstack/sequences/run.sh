#!/bin/sh
# Draws sequences, steps the released package through them and holds what it decided against dryrack's control plane.
#
#   tests/upstream/dstack/sequences/run.sh [--cases 100] [--seed 1] [--keep FOLDER]
#
# The package is installed into FOLDER, a temporary one if not given.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
. "$here/../venv.sh"
read_arguments 100 "$@"
"$(python_of 0.22.5)" "$here/step.py" --seed "$seed" --cases "$cases" > "$work/records.jsonl" 2> "$work/errors"
${DRYRACK:-dryrack} conform "$work/records.jsonl"
