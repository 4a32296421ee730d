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
import runpy
import sys

from ament_index_python.packages import get_package_share_directory
from launch import LaunchContext, LaunchDescription
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
from launch.logging import get_logger
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

SHARE = get_package_share_directory('robot_infer')


def declared_arguments() -> list[DeclareLaunchArgument]:
    """Every argument of this file."""
    return [
        DeclareLaunchArgument(
            'namespace', default_value='demo', description='Namespace of all nodes.'),
        DeclareLaunchArgument(
            'instruction', default_value='', description='Instruction at start, such as '
            '"move to the red cube"; empty waits for the instruction topic.'),
        DeclareLaunchArgument(
            'guard', default_value='false', choices=['true', 'false'],
            description='Let the actions go through a guard.'),
        DeclareLaunchArgument(
            'log_level', default_value='info', description='Lowest level that is logged.'),
        DeclareLaunchArgument(
            'seed', default_value='0', description='Which table and blocks are shown.'),
    ]


def generate_launch_description() -> LaunchDescription:
    """What `ros2 launch` runs."""
    passed_on = ('namespace', 'instruction', 'guard', 'log_level')
    return LaunchDescription([
        *declared_arguments(),
        OpaqueFunction(function=check_arguments),
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(os.path.join(SHARE, 'launch', 'robot_infer.launch.py')),
            launch_arguments={
                'params_file': os.path.join(SHARE, 'config', 'demo.yaml'),
                **{name: LaunchConfiguration(name) for name in passed_on}}.items()),
        # After the include, which has set the Fast DDS profile for every process that follows.
        OpaqueFunction(function=start_simulator),
    ])


def check_arguments(context: LaunchContext) -> None:
    """Say so when an argument was given that this file does not have."""
    check = runpy.run_path(os.path.join(os.path.dirname(__file__), 'arguments.py'))['check']
    check(__file__, context.launch_configurations,
          [argument.name for argument in declared_arguments()], sys.argv,
          get_logger('robot_infer.launch').warning)


def start_simulator(context: LaunchContext) -> list[object]:
    """The simulated robot; the launch ends with it."""
    value = context.launch_configurations
    simulator = Node(
        package='robot_infer', executable='robot_infer_sim', name='robot_infer_sim',
        namespace=value['namespace'], output='screen',
        parameters=[{'seed': int(value['seed'])}])
    end = RegisterEventHandler(OnProcessExit(
        target_action=simulator, on_exit=[EmitEvent(event=Shutdown(reason='the robot is gone'))]))
    return [simulator, end]
