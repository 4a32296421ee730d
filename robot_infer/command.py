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

"""How the commands run and end: exit statuses, usage errors, Ctrl-C, what they write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from robot_infer.errors import ConfigError, RobotInferError

INTERRUPTED = 130


def check_writable(option: str, path: Path) -> None:
    """Make the folder of a file that a command will write at its end, and see that it can.

    :raises ConfigError: naming the option and why the file cannot be written.
    """
    known = path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open('ab').close()
        if not known:
            path.unlink()
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        raise ConfigError(
            f'{option} {path}', expected='a file that can be written',
            got=getattr(error, 'strerror', None) or str(error),
            remedy='Name a file in a folder of yours.') from error


def run_command(
    command: click.Command, arguments: Sequence[str] | None, prog_name: str,
) -> int:
    """Run `command` and return its exit status; None takes the arguments of the process.

    A user's mistake is one line with its name, status 2.
    """
    try:
        status = command.main(args=None if arguments is None else list(arguments),
                              prog_name=prog_name, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except RobotInferError as error:
        click.echo(f'{error.name}: {error}', err=True)
        return 2
    except (KeyboardInterrupt, click.Abort):
        click.echo('interrupted', err=True)
        return INTERRUPTED
    return int(status or 0)
