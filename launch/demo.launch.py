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


"""The simulated robot and the policy node, in the namespace demo, away from any real robot.

    ros2 launch robot_infer demo.launch.py
    ros2 topic pub --once /demo/instruction std_msgs/msg/String '{data: move to the red cube}'
"""

import os

from ament_index_python.packages import get_package_share_directory
from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    IncludeLaunchDescription,
    OpaqueFunction,
    RegisterEventHandler,
)
from launch.event_handlers import OnProcessExit
from launch.events import Shutdown
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

SHARE = get_package_share_directory('robot_infer')


def generate_launch_description() -> LaunchDescription:
    """What `ros2 launch` runs."""
    names = ('namespace', 'instruction', 'log_level')
    return LaunchDescription([
        DeclareLaunchArgument(
            'namespace', default_value='demo', description='Namespace of both nodes.'),
        DeclareLaunchArgument(
            'instruction', default_value='', description='Instruction at start, such as '
            '"move to the red cube"; empty waits for the instruction topic.'),
        DeclareLaunchArgument(
            'log_level', default_value='info', description='Lowest level that is logged.'),
        DeclareLaunchArgument(
            'seed', default_value='0', description='Which table and blocks are shown.'),
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(os.path.join(SHARE, 'launch', 'robot_infer.launch.py')),
            launch_arguments={
                'params_file': os.path.join(SHARE, 'config', 'demo.yaml'),
                **{name: LaunchConfiguration(name) for name in names}}.items()),
        # After the include, which has set the Fast DDS profile for every process that follows.
        OpaqueFunction(function=_simulator),
    ])


def _simulator(context) -> list[object]:
    value = context.launch_configurations
    simulator = Node(
        package='robot_infer', executable='robot_infer_sim', name='robot_infer_sim',
        namespace=value['namespace'], output='screen',
        parameters=[{'seed': int(value['seed'])}])
    end = RegisterEventHandler(OnProcessExit(
        target_action=simulator, on_exit=[EmitEvent(event=Shutdown(reason='the robot is gone'))]))
    return [simulator, end]
