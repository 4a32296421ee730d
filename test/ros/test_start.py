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

"""Ctrl-C is quiet, status 0, at whatever moment of a node's life it comes, and however often."""

from __future__ import annotations

import os
import sys

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from robot_infer.sim.children import Child, ros_environment

INTERRUPT = 'import os, signal, sys\ndef interrupt(): os.kill(os.getpid(), signal.SIGINT)\n'
IMPORTING = INTERRUPT + """
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == 'rclpy':
            interrupt()
sys.meta_path.insert(0, Finder())
from robot_infer.ros.start import guard
sys.exit(guard())
"""
MAKING = INTERRUPT + """
from robot_infer.ros.node import PolicyNode
from robot_infer.ros.spin import run
class Interrupted(PolicyNode):
    def __init__(self, arguments):
        {before}
        super().__init__(arguments)
        {after}
sys.exit(run(Interrupted, None))
"""
SPINNING = INTERRUPT + """
from robot_infer.ros.node import PolicyNode
from robot_infer.ros.spin import run
class Interrupted(PolicyNode):
    def __init__(self, arguments):
        super().__init__(arguments)
        self.create_timer(0.01, interrupt)
    def end(self):
        interrupt()
        super().end()
sys.exit(run(Interrupted, None))
"""


@pytest.mark.parametrize('program', [
    IMPORTING, MAKING.format(before='interrupt()', after=''),
    MAKING.format(before='', after='interrupt()'), SPINNING,
], ids=['importing', 'making the node', 'made', 'spinning, and again at the end'])
def test_an_interrupt_is_quiet_at_any_moment(domain_id, tmp_path, program):
    child = Child('node', [sys.executable, '-c', program],
                  {**ros_environment(domain_id), 'ROS_LOG_DIR': str(tmp_path)})
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert child.stop() == 0, '\n'.join(child.last_lines(60))
    assert not child.lines_with('Traceback', 'Error', 'Exception'), child.last_lines(60)
