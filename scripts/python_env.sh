#!/usr/bin/env bash
# scripts/python_env.sh: a virtual environment in build/venv with the real TensorBoard, which the tests read event
# files back with. Nothing that is built or run outside the tests needs Python. Costs nothing when it is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=build/venv
package=tensorboard==2.21.0  # about 180 MB with what it needs
stamp=$venv/installed

[ "$(cat $stamp 2>/dev/null)" != "$package" ] || exit 0
scripts/apt_install.sh python3 python3-venv
echo "making $venv with $package"
rm -rf $venv
mkdir -p build
python3 -m venv $venv
$venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input "$package"
echo "$package" >$stamp
