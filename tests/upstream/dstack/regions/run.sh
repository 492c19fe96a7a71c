#!/bin/sh
# Draws fleets of a cloud with instances in several regions, asks the released package where each node of a run goes, and
# holds that against dryrack's.
#
#   tests/upstream/dstack/regions/run.sh [--cases 100] [--seed 1] [--keep FOLDER]
#
# The package is installed into FOLDER, a temporary one if not given.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
. "$here/../venv.sh"
read_arguments 100 "$@"
"$(python_of 0.22.5)" "$here/ask.py" --seed "$seed" --cases "$cases" > "$work/regions.jsonl" 2> "$work/errors"
${DRYRACK:-dryrack} conform "$work/regions.jsonl"
