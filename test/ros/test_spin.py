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


"""Spinning: what a callback raises is told, ends nothing, and cannot flood the log."""

from __future__ import annotations

import sys
import time

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

from robot_infer.sim.children import Child, ros_environment

_FAILING = """
import rclpy
from robot_infer.ros.spin import spin
rclpy.init()
node = rclpy.create_node('failing')
turns = []
def fail():
    turns.append(1)
    if len(turns) == 5:
        print('five turns', flush=True)
    raise ValueError('at every turn')
node.create_timer(0.001, fail)
spin(node)
"""


def test_a_callback_that_always_fails_is_told_ten_times_a_second_at_most(domain_id) -> None:
    child = Child('failing', [sys.executable, '-c', _FAILING], ros_environment(domain_id))
    try:
        began = time.monotonic()
        while not child.lines_with('five turns'):
            assert child.exit_status is None and time.monotonic() < began + 60.0
            time.sleep(0.01)
        began = time.monotonic()
        told = len(child.lines_with('ValueError: at every turn'))
        while len(child.lines_with('ValueError: at every turn')) < told + 8:
            assert child.exit_status is None and time.monotonic() < began + 60.0
            time.sleep(0.01)
        assert time.monotonic() - began > 0.6, 'eight failures, and seven pauses between them'
    finally:
        child.stop()
