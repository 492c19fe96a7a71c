#!/bin/sh
# Draws sequences, steps the released package through them and holds what it decided against dryrack's control plane.
#
#   tests/upstream/dstack/sequences/run.sh [--cases 100] [--seed 1] [--keep FOLDER]
#
# The package is installed with pip into FOLDER (a temporary one if not given), about 250 MB; a FOLDER that has it already
# is used as it is. Needs Python 3.11.
set -eu
cases=100 seed=1 keep=
while [ $# -gt 0 ]; do
  case "$1" in
    --cases) cases="$2"; shift 2 ;;
    --seed) seed="$2"; shift 2 ;;
    --keep) keep="$2"; shift 2 ;;
    *) echo "run.sh: what is $1?" >&2; exit 2 ;;
  esac
done
here="$(cd "$(dirname "$0")" && pwd)"
work="${keep:-$(mktemp -d)}"
mkdir -p "$work"
python="${PYTHON:-python3.11}"
venv="$work/v-0.22.5"
if [ ! -x "$venv/bin/python" ]; then
  "$python" -m venv "$venv"
  "$venv/bin/pip" install -q "dstack[server]==0.22.5"
fi
"$venv/bin/python" "$here/step.py" --seed "$seed" --cases "$cases" > "$work/records.jsonl" 2> "$work/errors"
${DRYRACK:-dryrack} conform "$work/records.jsonl"
[ -n "$keep" ] || rm -r "$work"
