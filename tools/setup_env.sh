#!/usr/bin/env bash
# Makes the environment that every make target runs in. May be interrupted and run again.
#   PYTHON=python3.11   the Python to build on (default: the first of 3.10 to 3.12 that is found)
#   VENV=.venv          where the environment goes
#
# What is already there is kept: a sourced ROS 2 is used as it is, and so are a torch (a Jetson's
# own, say) and an OpenCV that the base Python can import. Only what is missing is installed.
set -euo pipefail

repo=$(cd "$(dirname "$0")/.." && pwd)
venv=${VENV:-$repo/.venv}
cd "$repo"

# rclpy and the messages as wheels (ROS 2 Kilted, Fast DDS), for machines without ROS 2.
ros_wheels=(
    ros-rclpy==9.1.2 ros-rmw-fastrtps-cpp==9.3.3 ros-sensor-msgs==5.5.1 ros-std-srvs==5.5.1
    ros-diagnostic-msgs==5.5.1 ros-trajectory-msgs==5.5.1
)
# Without a local part, so that the CPU build 2.13.0+cpu is taken wherever one is offered.
torch=torch==2.13.0
# As in setup.py. CUDA builds of torch bring the triton that fits them.
triton=triton==3.7.1

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

usable() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' \
        >/dev/null 2>&1
}
imports() { "$1" -c "import $2" >/dev/null 2>&1; }

choose_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.10}; do
        if usable "$candidate"; then echo "$candidate"; return; fi
    done
    fail "expected Python 3.10, 3.11 or 3.12 with the venv module; got none of" \
        "'${PYTHON:-python3 python3.11 python3.12 python3.10}'." \
        "Install one (Debian, Ubuntu: apt install python3-venv) or set PYTHON."
}

python=$(choose_python)
ros=wheels
if [ -n "${ROS_DISTRO:-}" ] && imports "$python" rclpy; then
    ros=$ROS_DISTRO
elif [ -n "${ROS_DISTRO:-}" ]; then
    fail "ROS 2 $ROS_DISTRO is sourced, but $python cannot import rclpy. Set PYTHON to the Python" \
        'that ROS uses (on Ubuntu /usr/bin/python3), or open a shell without ROS to use the wheels.'
fi

flags=()
if [ "$ros" != wheels ] || imports "$python" torch; then flags=(--system-site-packages); fi
say "$("$python" --version) ($python), ROS 2: $ros, environment: $venv"
# An environment that an interrupt left half made has no working pip; made anew, it loses nothing.
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    "$python" -m venv --clear "${flags[@]}" "$venv"
fi
: > "$venv/COLCON_IGNORE"
python=$venv/bin/python
pip() { "$python" -m pip --disable-pip-version-check "$@"; }

constraints=$venv/constraints.txt
: > "$constraints"
if [ "$ros" != wheels ]; then
    # The messages of a distribution are compiled against its NumPy; its pytest plug-ins are old.
    "$python" - >> "$constraints" <<'EOF'
import numpy
print('numpy<2' if numpy.__version__.startswith('1.') else 'numpy>=2')
print('pytest<8')
EOF
elif ! imports "$python" rclpy; then
    say 'ROS 2 is not sourced: installing rclpy from wheels'
    pip install --quiet "${ros_wheels[@]}"
fi

if imports "$python" torch; then
    say "keeping torch $("$python" -c 'import torch; print(torch.__version__)')"
    "$python" -c 'import torch, sys; sys.exit(torch.__version__ < (2, 4))' ||
        say 'WARNING: torch 2.4 or newer is expected; install one, or things may fail.'
else
    say "installing $torch"
    pip install --quiet -c "$constraints" "$torch"
fi

say 'installing robot_infer (editable) and what it needs'
pip install --quiet --no-deps -e .
"$python" - > "$venv/requirements.txt" <<'EOF'
# What the package asks for, less what the base Python brings and must keep.
import importlib.metadata
import importlib.util

kept = {'torch': 'torch', 'opencv-python-headless': 'cv2'}
for requirement in importlib.metadata.requires('robot_infer'):
    requirement = requirement.split(';')[0].strip()
    name = requirement.split('>')[0].strip()
    if name.startswith('triton'):
        continue  # below: it must be the one of this torch
    if name not in kept or importlib.util.find_spec(kept[name]) is None:
        print(requirement)
EOF
pip install --quiet -c "$constraints" -r "$venv/requirements.txt"

# Checks the GPU kernels without a GPU (robot-infer kernels check, and their tests).
if imports "$python" triton; then
    say "keeping triton $("$python" -c 'import triton; print(triton.__version__)')"
elif "$python" -c 'import torch, sys; sys.exit(torch.version.cuda is not None)'; then
    say "installing $triton"
    pip install --quiet --no-deps "$triton" ||
        say 'WARNING: no triton for this computer: the GPU kernels cannot be checked here.'
else
    say 'WARNING: this CUDA build of torch has no triton, which the GPU kernels need: install' \
        'the version that belongs to it (pip show torch names it).'
fi

# `ros2 launch` looks below the prefix for what an editable install does not put there.
index=$venv/share/ament_index/resource_index/packages
mkdir -p "$venv/lib/robot_infer" "$venv/share/robot_infer" "$index"
: > "$index/robot_infer"
ln -sfn "$repo/package.xml" "$venv/share/robot_infer/package.xml"
for executable in robot_infer_node robot_infer_guard robot_infer_sim robot-infer; do
    ln -sfn "../../bin/$executable" "$venv/lib/robot_infer/$executable"
done
for folder in launch config; do
    rm -rf "$venv/share/robot_infer/$folder"
    ln -sfn "$repo/$folder" "$venv/share/robot_infer/$folder"
done

for module in rclpy torch cv2 numpy pydantic robot_infer robot_infer_kernels; do
    "$python" -c "import $module" || fail "$module cannot be imported; the lines above say why."
done
say 'done'
