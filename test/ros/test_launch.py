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


"""The launch files, run for real where ROS 2's launch is installed.

No package index carries launch, so without a ROS 2 installation these tests say that they did not
run. What can be told without it (the files are valid Python) is tested everywhere.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
import shutil
import signal
import subprocess
import time

import pytest

LAUNCH = Path(__file__).parents[2] / 'launch'
FILES = sorted(LAUNCH.glob('*.launch.py'))
PATIENCE_S = 60.0


@pytest.fixture
def ros2():
    """The ros2 command, with launch_ros and our executables."""
    pytest.importorskip('launch_ros', reason='launch files were not run: ROS 2\'s launch is not '
                        'on this machine, and no package index carries it')
    command = shutil.which('ros2')
    if command is None:
        pytest.skip('launch files were not run: there is no ros2 command')
    return command


@pytest.fixture
def launch(ros2, domain_id, tmp_path):
    """Start `ros2 launch`; ended by SIGINT (SIGTERM would leave the nodes behind)."""
    from robot_infer.sim.children import ros_environment

    running = []

    def start(*arguments: str) -> subprocess.Popen:
        environment = {name: value for name, value in ros_environment(domain_id).items()
                       if 'PROFILES_FILE' not in name}
        running.append(subprocess.Popen(
            [ros2, 'launch', 'robot_infer', *arguments], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env={**environment, 'ROS_LOG_DIR': str(tmp_path)}))
        return running[-1]
    yield start
    for process in running:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_S)


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.name)
def test_the_file_is_valid_python_with_an_entry(path):
    names = compile(path.read_text(), str(path), 'exec').co_names
    assert 'generate_launch_description' in names


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.name)
def test_every_argument_is_described(ros2, path):
    from launch.actions import DeclareLaunchArgument

    spec = importlib.util.spec_from_file_location(path.name.replace('.', '_'), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    arguments = [entity for entity in module.generate_launch_description().entities
                 if isinstance(entity, DeclareLaunchArgument)]
    assert arguments and all(len(argument.description) > 10 for argument in arguments)


def test_the_node_comes_up_in_its_namespace_and_ends_with_the_launch(
        launch, make_robot, checkpoint, tmp_path):
    params = tmp_path / 'params.yaml'
    params.write_text(
        f'/**:\n  ros__parameters:\n    policy:\n      checkpoint: {checkpoint}\n')
    process = launch('robot_infer.launch.py', f'params_file:={params}', 'namespace:=arm',
                     'instruction:=move to the red cube')
    robot = make_robot('arm/robot_infer')
    robot.wait_status(state='active', instruction='move to the red cube')
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output


def test_the_demo_drives_its_robot(launch, make_robot):
    launch('demo.launch.py', 'instruction:=move to the red cube')
    robot = make_robot('demo/robot_infer')
    robot.wait_status(state='active', source='chunk')


@pytest.mark.parametrize('file, argument, words', [
    ('robot_infer.launch.py', 'autostrat:=false', 'autostrat (did you mean autostart?)'),
    ('robot_infer.launch.py', 'guardd:=true', 'guardd (did you mean guard?)'),
    ('robot_infer.launch.py', 'autostart:=maybe', 'autostart'),
    ('robot_infer.launch.py', 'params_file:=/nowhere/at/all.yaml', '/nowhere/at/all.yaml'),
    ('demo.launch.py', 'params_file:=my.yaml', 'no argument params_file')])
def test_a_wrong_argument_is_reported(launch, file, argument, words):
    process = launch(file, argument)
    give_up = time.monotonic() + PATIENCE_S
    output = ''
    os.set_blocking(process.stdout.fileno(), False)
    while words not in output:
        assert time.monotonic() < give_up, output
        output += process.stdout.read() or ''
        time.sleep(0.05)
