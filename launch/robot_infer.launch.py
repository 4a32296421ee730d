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


"""Start the policy node and bring it up to active.

    ros2 launch robot_infer robot_infer.launch.py params_file:=/path/to/my.yaml namespace:=arm
"""

import os
import runpy
import sys

from ament_index_python.packages import get_package_share_directory
from launch import LaunchContext, LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    OpaqueFunction,
    RegisterEventHandler,
    SetEnvironmentVariable,
)
from launch.event_handlers import OnProcessStart
from launch.events import matches_action
from launch.logging import get_logger
from launch_ros.actions import LifecycleNode, Node
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from lifecycle_msgs.msg import Transition

SHARE = get_package_share_directory('robot_infer')
PROFILE_VARIABLES = ('FASTDDS_DEFAULT_PROFILES_FILE', 'FASTRTPS_DEFAULT_PROFILES_FILE')
LEVELS = ['debug', 'info', 'warn', 'error', 'fatal']
YES_NO = ['true', 'false']


def declared_arguments() -> list[DeclareLaunchArgument]:
    """Every argument of this file."""
    return [
        DeclareLaunchArgument(
            'namespace', default_value='', description='Namespace of the node and its topics.'),
        DeclareLaunchArgument(
            'params_file', default_value=os.path.join(SHARE, 'config', 'robot_infer.yaml'),
            description='ROS 2 parameter file; config/robot_infer.yaml lists every key.'),
        DeclareLaunchArgument(
            'instruction', default_value='', description='Instruction at start; the instruction '
            'topic replaces it. Empty leaves what params_file says.'),
        DeclareLaunchArgument(
            'autostart', default_value='true', choices=YES_NO,
            description='Configure and activate the node, also after a respawn.'),
        DeclareLaunchArgument(
            'guard', default_value='false', choices=YES_NO,
            description='Start a guard too: the node\'s actions go through it, and it sends the '
            'safe action when they do not come in time.'),
        DeclareLaunchArgument(
            'respawn', default_value='false', choices=YES_NO,
            description='Start the process again when it ends.'),
        DeclareLaunchArgument(
            'use_sim_time', default_value='false', choices=YES_NO,
            description='Take ROS time from /clock.'),
        DeclareLaunchArgument(
            'log_level', default_value='info', choices=LEVELS,
            description='Lowest level that is logged.'),
        DeclareLaunchArgument(
            'fastdds_profile', default_value=os.path.join(SHARE, 'config', 'fastdds.xml'),
            description='Fast DDS profile, without which large images are lost; used where the '
            'environment names none. Empty: no profile. Camera drivers need it too.'),
    ]


def generate_launch_description() -> LaunchDescription:
    """What `ros2 launch` runs."""
    return LaunchDescription([
        *declared_arguments(),
        OpaqueFunction(function=check_arguments),
        OpaqueFunction(function=start),
    ])


def check_arguments(context: LaunchContext) -> None:
    """Say so when an argument was given that this file does not have."""
    check = runpy.run_path(os.path.join(os.path.dirname(__file__), 'arguments.py'))['check']
    check(__file__, context.launch_configurations,
          [argument.name for argument in declared_arguments()], sys.argv,
          get_logger('robot_infer.launch').warning)


def start(context: LaunchContext) -> list[object]:
    """The node, and the transitions that bring it up."""
    value = context.launch_configurations
    if not os.path.isfile(value['params_file']):
        # launch_ros would only warn, and the node would run with its defaults.
        raise RuntimeError(f'params_file {value["params_file"]} does not exist')
    profile = value['fastdds_profile']
    actions: list[object] = []
    if profile and not any(os.environ.get(name) for name in PROFILE_VARIABLES):
        actions += [SetEnvironmentVariable(name, profile) for name in PROFILE_VARIABLES]
    parameters: list[object] = [
        value['params_file'], {'use_sim_time': value['use_sim_time'] == 'true'}]
    if value['instruction']:
        parameters.append({'instruction.text': value['instruction']})
    node = LifecycleNode(
        package='robot_infer', executable='robot_infer_node', name='robot_infer',
        namespace=value['namespace'], parameters=parameters, output='screen',
        arguments=['--ros-args', '--log-level', f'robot_infer:={value["log_level"]}'],
        remappings=[('action', 'action_raw')] if value['guard'] == 'true' else [],
        respawn=value['respawn'] == 'true', respawn_delay=2.0)
    if value['guard'] == 'true':
        actions.append(Node(
            package='robot_infer', executable='robot_infer_guard', name='robot_infer_guard',
            namespace=value['namespace'], parameters=parameters, output='screen',
            respawn=True, respawn_delay=0.1))
    if value['autostart'] == 'true':
        actions += [
            RegisterEventHandler(OnProcessStart(
                target_action=node,
                on_start=[_transition(node, Transition.TRANSITION_CONFIGURE)])),
            RegisterEventHandler(OnStateTransition(
                target_lifecycle_node=node, start_state='configuring', goal_state='inactive',
                entities=[_transition(node, Transition.TRANSITION_ACTIVATE)]))]
    return [*actions, node]


def _transition(node: LifecycleNode, transition_id: int) -> EmitEvent:
    return EmitEvent(event=ChangeState(
        lifecycle_node_matcher=matches_action(node), transition_id=transition_id))
