#!/usr/bin/env bash
# Make .venv with mxtune in it. Options go on to pip, such as --group dev.
#
# A machine that has torch and triton keeps them: its builds know its GPU. Any other gets the CPU
# builds that constraints.txt names.
set -euo pipefail
cd "$(dirname "$0")"
python="${PYTHON:-python3}"

if "$python" -c "import torch, triton" 2>/dev/null; then
    own=(--system-site-packages)
    what=(-e .)
else
    own=()
    what=(-e ".[cpu,emulate]" --constraint constraints.txt)
fi

[ -x .venv/bin/python ] || "$python" -m venv "${own[@]}" .venv
.venv/bin/python -m pip install --quiet --upgrade "pip>=25.1" # the first with dependency groups
.venv/bin/python -m pip install --quiet "${what[@]}" "$@"
touch .venv/ready
[ $# -eq 0 ] || touch .venv/ready-to-test
