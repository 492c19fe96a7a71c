#!/bin/sh
# Draws services and the requests that come to them, steps the released package through them and holds how many replicas
# each had, and where, against dryrack's control plane.
#
#   tests/upstream/dstack/services/run.sh [--cases 40] [--seed 1] [--keep FOLDER]
#
# The package is installed into FOLDER, a temporary one if not given.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
. "$here/../venv.sh"
read_arguments 40 "$@"
"$(python_of 0.22.5)" "$here/step.py" --seed "$seed" --cases "$cases" > "$work/services.jsonl" 2> "$work/errors"
${DRYRACK:-dryrack} conform "$work/services.jsonl"
