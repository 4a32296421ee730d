#!/usr/bin/env bash
# Installs the package in every way a user may and runs it from each, in scratch environments:
#   colcon build · colcon build --symlink-install · pip install . · pip install -e .
# The heavy dependencies are borrowed from the environment of PYTHON (default: .venv), so this
# takes about a minute. Usage: tools/check_package.sh [PYTHON]
set -euo pipefail

repo=$(cd "$(dirname "$0")/.." && pwd)
python=${1:-$repo/.venv/bin/python}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
log=$scratch/log

site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# The rclpy wheels find their libraries by restarting Python with these; borrowers need them said.
LD_LIBRARY_PATH=$("$python" -c 'import os; print(os.environ.get("LD_LIBRARY_PATH", ""))')
export LD_LIBRARY_PATH _ROS_WHEELS_BOOTSTRAP_COMPLETE=1
unset PYTHONPATH AMENT_PREFIX_PATH

die() { echo "FAILED: $1"; [ -e "$log" ] && tail -n 25 "$log"; exit 1; }

# environment NAME: a scratch environment that sees the packages of PYTHON behind its own.
environment() {
    "$python" -m venv "$scratch/$1"
    echo "$site" > "$("$scratch/$1/bin/python" -c \
        'import sysconfig; print(sysconfig.get_path("purelib"))')/borrowed.pth"
}

# sources NAME: a copy of the files git knows or would take.
sources() {
    mkdir -p "$scratch/$1"
    (cd "$repo" && git ls-files -co --exclude-standard -z | while IFS= read -r -d '' file; do
        if [ -e "$file" ]; then printf '%s\0' "$file"; fi
    done | tar cf - --null -T -) | tar xf - -C "$scratch/$1"
}

# works NAME PYTHON SCRIPTS: imports come from outside the checkout, and every executable starts.
works() {
    (cd "$scratch" && "$2" - "$repo" <<'EOF') >"$log" 2>&1 || die "$1: imports"
import pathlib, sys
import robot_infer, robot_infer_kernels, robot_infer.config, robot_infer.cli
import robot_infer.ros.node, robot_infer.sim.node
for module in (robot_infer, robot_infer_kernels):
    assert not pathlib.Path(module.__file__).resolve().is_relative_to(sys.argv[1]), module
from robot_infer_kernels.cpu import build, native
there, words = native.describe()
assert there or not build.find_compiler(), words
assets = pathlib.Path(robot_infer.__file__).parent / 'assets'
assert any(path.suffix == '.safetensors' for path in assets.rglob('*')), f'no demo policy in {assets}'
EOF
    for executable in robot-infer robot_infer_node robot_infer_guard robot_infer_sim; do
        [ -x "$3/$executable" ] || die "$1: $3/$executable is missing"
    done
    (cd "$scratch" && "$3/robot-infer" version) >"$log" 2>&1 || die "$1: robot-infer version"
    for executable in robot_infer_node robot_infer_guard robot_infer_sim; do
        (cd "$scratch" && runs "$3/$executable") >"$log" 2>&1 || die "$1: $executable"
    done
    echo "ok: $1"
}

# runs EXECUTABLE: it says that it is ready within half a minute, and SIGTERM ends it, status 0.
runs() {
    local pid tries=0
    : >"$scratch/output"  # before it is waited for: the program before said that it was ready
    "$1" >>"$scratch/output" 2>&1 &
    pid=$!
    until grep -qE 'waiting for the configure|simulated robot ready|ready: takes over' "$scratch/output"; do
        tries=$((tries + 1))
        if [ $tries -gt 300 ] || ! kill -0 $pid; then cat "$scratch/output"; return 1; fi
        sleep 0.1
    done
    kill -TERM $pid
    wait $pid || { cat "$scratch/output"; return 1; }
}

environment colcon
"$scratch/colcon/bin/pip" install -q 'colcon-common-extensions==0.3.0' 'colcon-ros==0.5.0' \
    >"$log" 2>&1 || die 'colcon could not be installed'
for way in plain symlink-install; do
    sources "$way/src/robot_infer"
    cd "$scratch/$way"
    kind=$("$scratch/colcon/bin/python" -m colcon list 2>"$log")
    [[ $kind == *'(ros.ament_python)'* ]] || die "colcon list says: $kind"
    flags=(); [ "$way" = plain ] || flags=(--symlink-install)
    "$scratch/colcon/bin/python" -m colcon build "${flags[@]}" >"$log" 2>&1 || die "colcon $way"
    (
        set +u; . install/setup.bash; set -u
        [ -f install/robot_infer/share/robot_infer/config/robot_infer.yaml ] || die "$way: config"
        [ -f install/robot_infer/share/robot_infer/launch/robot_infer.launch.py ] || die "$way: launch"
        works "colcon build ($way)" "$scratch/colcon/bin/python" \
            "$PWD/install/robot_infer/lib/robot_infer"
    ) || exit 1
done

environment pip
sources pip-src
"$scratch/pip/bin/pip" install -q --no-deps "$scratch/pip-src" >"$log" 2>&1 || die 'pip install .'
rm -r "$scratch/pip-src"
works 'pip install .' "$scratch/pip/bin/python" "$scratch/pip/bin"

environment editable
sources editable-src
"$scratch/editable/bin/pip" install -q --no-deps -e "$scratch/editable-src" >"$log" 2>&1 \
    || die 'pip install -e .'
works 'pip install -e .' "$scratch/editable/bin/python" "$scratch/editable/bin"
