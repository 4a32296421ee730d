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


"""The command line: `robot-infer doctor | demo | plan | replay | record | kernels | ...`.

Each command imports what it needs when it runs, so that none fails for want of another's.
"""

from __future__ import annotations

from collections.abc import Sequence
import sys
from typing import Any

import click

from robot_infer import __version__
from robot_infer.command import INTERRUPTED
from robot_infer.errors import RobotInferError

_PASS_ON = {'ignore_unknown_options': True, 'help_option_names': []}


class _Commands(click.Group):
    """A group in which a user's mistake is one line on stderr and status 2, not a traceback.

    Ctrl-C, also while a command is still being imported, is one line and status 130.
    """

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RobotInferError as error:
            click.echo(f'{error.name}: {error}', err=True)
        except ModuleNotFoundError as error:
            click.echo(f'{error}: robot-infer doctor says what to do', err=True)
        except (KeyboardInterrupt, click.Abort):
            click.echo('interrupted', err=True)
            ctx.exit(INTERRUPTED)
        ctx.exit(2)


@click.group(cls=_Commands, context_settings={'help_option_names': ['-h', '--help']})
def main() -> None:
    """Run vision-language-action policies on the robot's own computer, on time."""


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f'robot_infer {__version__}')


@main.command()
def doctor() -> None:
    """Say what was found on this computer, what is missing, and what to do."""
    from rich.console import Console

    from robot_infer.doctor import examine, report

    sys.exit(0 if report(examine(), Console()) else 1)


@main.command()
@click.option('--format', 'form', type=click.Choice(['yaml', 'markdown']), default='yaml',
              show_default=True, help='A ROS 2 parameter file, or a table for a document.')
def parameters(form: str) -> None:
    """Print every parameter of the node with its default, range and meaning."""
    from robot_infer.settings_text import parameters_markdown, parameters_yaml

    click.echo(parameters_yaml() if form == 'yaml' else parameters_markdown(), nl=False)


@main.command(context_settings=_PASS_ON)
@click.argument('arguments', nargs=-1, type=click.UNPROCESSED)
def demo(arguments: Sequence[str]) -> None:
    """Drive the simulated robot by camera and instruction, and report (--help for more)."""
    from robot_infer.sim import demo as command

    sys.exit(command.main(list(arguments)))


@main.command('demo-eval', context_settings=_PASS_ON)
@click.argument('arguments', nargs=-1, type=click.UNPROCESSED)
def demo_eval(arguments: Sequence[str]) -> None:
    """Measure the demo policy's success over many episodes (--help for more)."""
    from robot_infer.sim import evaluate as command

    sys.exit(command.main(list(arguments)))


@main.command(context_settings=_PASS_ON)
@click.argument('arguments', nargs=-1, type=click.UNPROCESSED)
def replay(arguments: Sequence[str]) -> None:
    """Replay a recorded bag through the policy, without ROS (--help for more)."""
    from robot_infer.replay import command

    sys.exit(command.main(list(arguments)))


@main.command(context_settings=_PASS_ON)
@click.argument('arguments', nargs=-1, type=click.UNPROCESSED)
def record(arguments: Sequence[str]) -> None:
    """Record the topics of a policy into a bag (--help for more)."""
    from robot_infer.replay import record as command

    sys.exit(command.main(list(arguments)))


@main.command(context_settings=_PASS_ON)
@click.argument('arguments', nargs=-1, type=click.UNPROCESSED)
def kernels(arguments: Sequence[str]) -> None:
    """Compile the kernels for a chip that is not here; say which run here (--help for more)."""
    from robot_infer import kernel_command as command

    sys.exit(command.main(list(arguments)))


@main.command(context_settings=_PASS_ON)
@click.argument('arguments', nargs=-1, type=click.UNPROCESSED)
def plan(arguments: Sequence[str]) -> None:
    """Say before deployment what memory a policy takes, and at what rate (--help for more)."""
    from robot_infer import plan_command as command

    sys.exit(command.main(list(arguments)))


if __name__ == '__main__':
    main()
