# Copyright 2026 The robot_infer authors
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.


"""The package as colcon, pip and ros2 will find it.

That it builds and runs in all four ways (colcon build, with --symlink-install, pip install, pip
install -e) is shown by `make check-package`, which needs the package index; here stands what can
be told from the files, and one wheel built for real.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path
import re
import subprocess
import sys
from xml.etree import ElementTree
import zipfile

import pytest

import robot_infer

ROOT = Path(__file__).parents[2]
HEADER = '# Copyright 2026 The robot_infer authors\n#\n# Licensed under the Apache License'


@pytest.fixture(scope='module')
def tracked() -> list[Path]:
    """Files that git knows or would take."""
    listed = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard'], cwd=ROOT,
                            capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip('this is not a git checkout')
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


@pytest.fixture(scope='module')
def wheel(tmp_path_factory, tracked) -> zipfile.ZipFile:
    """The wheel of this checkout, built with the setuptools that is here, without the network."""
    pytest.importorskip('setuptools', reason='setuptools is not in this environment')
    sources, out = tmp_path_factory.mktemp('sources'), tmp_path_factory.mktemp('wheel')
    for path in tracked:
        copy = sources / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, copy) if path.stat().st_dev == sources.stat().st_dev else \
            copy.write_bytes(path.read_bytes())
    built = subprocess.run(
        [sys.executable, '-m', 'pip', 'wheel', '--no-deps', '--no-build-isolation', '-w', out,
         sources], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-2000:]
    (path,) = out.glob('*.whl')
    return zipfile.ZipFile(path)


def test_the_manifest_is_one_that_colcon_takes_for_ament_python():
    """catkin_pkg drops an invalid manifest without a word, and colcon then makes no hooks."""
    root = ElementTree.parse(ROOT / 'package.xml').getroot()
    assert root.tag == 'package' and root.get('format') == '3'
    assert root.findtext('name') == 'robot_infer'
    assert root.findtext('version') == robot_infer.__version__
    assert root.findtext('export/build_type') == 'ament_python'
    assert root.findtext('license') == 'Apache-2.0'
    mail = root.find('maintainer').get('email')
    assert re.fullmatch(r'[-a-zA-Z0-9_.+]+@[-a-zA-Z0-9]+(\.[-a-zA-Z0-9]+)*\.[a-zA-Z]{2,}', mail)
    assert (ROOT / 'resource' / 'robot_infer').is_file()


def test_the_wheel_holds_every_module_the_kernels_and_the_demo_policy(wheel, tracked):
    names = set(wheel.namelist())
    for path in tracked:
        relative = path.relative_to(ROOT).as_posix()
        if relative.startswith('robot_infer/'):
            assert relative in names
        elif relative.startswith('kernels/'):
            assert relative.replace('kernels/', 'robot_infer_kernels/', 1) in names
    assert any(name.endswith('demo_policy/model.safetensors') for name in names)
    assert {name.split('/')[0] for name in names} == {
        'robot_infer', 'robot_infer_kernels', f'robot_infer-{robot_infer.__version__}.data',
        f'robot_infer-{robot_infer.__version__}.dist-info'}


def test_the_wheel_installs_what_ros_looks_for(wheel):
    share = f'robot_infer-{robot_infer.__version__}.data/data/share'
    names = set(wheel.namelist())
    assert f'{share}/ament_index/resource_index/packages/robot_infer' in names
    for name in ('package.xml', 'launch/robot_infer.launch.py', 'launch/demo.launch.py',
                 'launch/arguments.py', 'config/robot_infer.yaml', 'config/demo.yaml',
                 'config/fastdds.xml'):
        assert f'{share}/robot_infer/{name}' in names


def test_the_executables_are_functions_that_exist(wheel):
    name = f'robot_infer-{robot_infer.__version__}.dist-info/entry_points.txt'
    lines = wheel.read(name).decode().splitlines()
    scripts = dict(line.split(' = ') for line in lines if ' = ' in line)
    assert set(scripts) == {
        'robot_infer_node', 'robot_infer_guard', 'robot_infer_sim', 'robot-infer', 'plan'}
    pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')
    for target in scripts.values():
        module, function = target.split(':')
        assert callable(getattr(__import__(module, fromlist=[function]), function))


def test_every_python_file_has_the_licence_header_and_a_docstring(tracked):
    for path in tracked:
        if path.suffix == '.py' and 'setup' not in path.name:
            text = path.read_text()
            assert text.startswith(HEADER), path
            assert ast.get_docstring(ast.parse(text)), f'{path} does not say what lives there'


def test_imports_of_ros_stay_in_the_rooms_that_may_have_them(tracked):
    """The engine knows no ROS, and the node knows no torch."""
    ros = re.compile(r'^\s*(from|import) (rclpy|\w+_msgs)\b', re.MULTILINE)
    torch = re.compile(r'^\s*(from|import) torch\b', re.MULTILINE)
    for path in tracked:
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(('robot_infer/', 'kernels/')) or path.suffix != '.py':
            continue
        # Bags are replayed without ROS; only what plays to a node or records from one needs it.
        if not name.startswith(('robot_infer/ros/', 'robot_infer/sim/', 'robot_infer/replay/dds_',
                                'robot_infer/replay/live.py', 'robot_infer/replay/record.py')):
            assert not ros.search(path.read_text()), f'{name} imports ROS'
        if name.startswith(('robot_infer/ros/', 'robot_infer/control/')):
            assert not torch.search(path.read_text()), f'{name} imports torch'
