#!/bin/sh
# Draws matching cases, asks the released packages and holds their answers against dryrack's.
#
#   tests/upstream/dstack/matching/run.sh [--cases 500] [--seed 1] [--keep FOLDER]
#
# The packages are installed with pip into FOLDER (a temporary one if not given), about 250 MB each; a FOLDER that has them
# already is used as it is. Needs Python 3.11.
set -eu
cases=500 seed=1 keep=
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
"$python" "$here/draw.py" --seed "$seed" --cases "$cases" > "$work/cases.jsonl"
for version in 0.19.9 0.19.10 0.22.5; do
  venv="$work/v-$version"
  if [ ! -x "$venv/bin/python" ]; then
    "$python" -m venv "$venv"
    "$venv/bin/pip" install -q "dstack[server]==$version"
  fi
  "$venv/bin/python" "$here/ask.py" < "$work/cases.jsonl" > "$work/answers-$version.jsonl" 2> "$work/errors-$version"
done
"$python" "$here/join.py" "$work/cases.jsonl" "$work"/answers-*.jsonl > "$work/records.jsonl"
${DRYRACK:-dryrack} conform "$work/records.jsonl"
[ -n "$keep" ] || rm -r "$work"
