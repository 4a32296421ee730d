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

"""`robot-infer record OUT`: what a policy sees and does, into a bag that `replay` takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
import signal
import sys
import time
from typing import TYPE_CHECKING

import click

from robot_infer.command import run_command
from robot_infer.config import Config
from robot_infer.errors import ConfigError
from robot_infer.replay.sources import INSTRUCTION_TOPIC, STATE_TOPIC, default_image_topic
from robot_infer.shared_files import shared_file

if TYPE_CHECKING:
    from robot_infer.replay.dds_recorder import DdsRecorder

ACTION_TOPIC, NODE = '/action', '/robot_infer'
INCOMPLETE = 1
_LOOK_PERIOD_S = 0.2


def needed_topics(config: Config) -> list[str]:
    """What a replay needs: the cameras and the state."""
    return [*(default_image_topic(camera, config) for camera in config.cameras.names),
            STATE_TOPIC]


def policy_topics(config: Config) -> list[str]:
    """Everything around the policy node: what it sees, is told, does, and says of itself."""
    return [*needed_topics(config), INSTRUCTION_TOPIC, ACTION_TOPIC, f'{NODE}/step',
            f'{NODE}/status', f'{NODE}/instruction_active']


def record(
    folder: Path, topics: Sequence[str], needed: Sequence[str], duration_s: float | None,
) -> int:
    """Record until the time is over or somebody interrupts; returns the exit status.

    :raises RobotInferError: where the bag cannot be written or a type cannot be recorded.
    """
    rclpy, recorder_module = _import_ros()
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions

    signal.signal(signal.SIGTERM, _interrupt)
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node('robot_infer_record')
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        recorder = recorder_module.DdsRecorder(node, folder, topics)
        click.echo(f'recording {len(topics)} topics into {folder}; Ctrl-C ends it')
        _record(executor, recorder, duration_s)
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown()
    return _report(folder, recorder, needed)


def _record(executor: object, recorder: DdsRecorder, duration_s: float | None) -> None:
    try:
        _spin(executor, recorder, duration_s)
    except KeyboardInterrupt:
        recorder.close()
    except BaseException:
        recorder.abort()
        raise
    else:
        recorder.close()


def _spin(executor: object, recorder: DdsRecorder, duration_s: float | None) -> None:
    began_s = time.monotonic()
    look_s = 0.0
    while duration_s is None or time.monotonic() - began_s < duration_s:
        if time.monotonic() >= look_s:
            recorder.look()
            look_s = time.monotonic() + _LOOK_PERIOD_S
        executor.spin_once(timeout_sec=_LOOK_PERIOD_S / 2)


def _report(folder: Path, recorder: DdsRecorder, needed: Sequence[str]) -> int:
    """Say what is in the bag, and what is not."""
    for topic, count in recorder.counts.items():
        click.echo(f'{count:8d}  {topic}')
    missing = [topic for topic in needed if not recorder.counts[topic]]
    for topic in missing:
        why = 'nobody published it' if topic in recorder.waiting_for else 'nothing came'
        click.echo(f'{topic}: {why}', err=True)
    click.echo(f'bag: {folder}')
    return INCOMPLETE if missing else 0


def _import_ros() -> tuple:
    try:
        import rclpy

        from robot_infer.replay import dds_recorder
    except ImportError as error:
        raise ConfigError(
            'ROS 2', expected=f'rclpy and its messages for {sys.executable}', got=str(error),
            remedy='Run make setup, or source a ROS 2 installation.') from error
    return rclpy, dds_recorder


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@click.command(context_settings={'help_option_names': ['-h', '--help']})
@click.argument('out', type=click.Path(path_type=Path))
@click.argument('more', nargs=-1, metavar='[TOPIC]...')
@click.option('--topics', multiple=True, metavar='TOPIC[,TOPIC]',
              help='Record these topics; the default is all around the policy node.')
@click.option('--config', type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help='Parameter file that names the cameras; the default is config/demo.yaml.')
@click.option('--duration', 'duration_s', type=click.FloatRange(min=0.0, min_open=True),
              help='End after this many seconds.')
def command(
    out: Path, more: tuple[str, ...], topics: tuple[str, ...], config: Path | None,
    duration_s: float | None,
) -> int:
    """Record DDS topics into a new bag OUT (MCAP), byte for byte.

    Exit status: 0 where something came on every topic that was named (of the default ones: on
    the cameras and the state), 1 where not, 2 for an error.
    """
    named = [name if name.startswith('/') else f'/{name}' for part in (*topics, *more)
             for name in part.split(',') if name]
    settings = Config.from_yaml(config or shared_file('config/demo.yaml'))
    wanted = named or policy_topics(settings)
    return record(out, list(dict.fromkeys(wanted)), named or needed_topics(settings),
                  duration_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments`; returns the exit status."""
    return run_command(command, arguments, 'robot-infer record')


if __name__ == '__main__':
    sys.exit(main())
