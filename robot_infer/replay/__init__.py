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

"""Bags: what a robot saw and did, recorded, and replayed through the same runtime and engine.

    files, bag, messages     a rosbag2 bag as a stream of messages, without ROS
    sources, feed            which topic feeds what, and the feeding
    run, recorder            the replay in bag time, and what is kept of it
    compare, late, export    errors against recorded actions; why steps were late; files for others
    schedule, reenact, match runs that are followed: their times, their chunks again, their actions
    outcome, both_ways       a replay from request to outcome; the same bag over DDS beside it
    command, record          `robot-infer replay`, `robot-infer record`
    dds_recorder, dds_player the only two that know ROS; live starts the node they speak to
"""
