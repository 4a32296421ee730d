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


"""The command line: what each command prints, and a user's mistake in one line."""

from __future__ import annotations

import sys
import types

import click
from click.testing import CliRunner
import pytest

from robot_infer import __version__, cli
from robot_infer.errors import ConfigError
from robot_infer.settings_text import parameters_markdown, parameters_yaml


def run(*arguments: str):
    return CliRunner().invoke(cli.main, list(arguments))


def test_version():
    assert run('version').output == f'robot_infer {__version__}\n'


@pytest.mark.parametrize('form, text', [
    ('yaml', parameters_yaml), ('markdown', parameters_markdown)])
def test_parameters_are_printed_as_they_are_shipped(form, text):
    assert run('parameters', '--format', form).output == text()


def test_help_names_every_command_with_a_line():
    output = run('--help').output
    for command in ('demo', 'demo-eval', 'doctor', 'parameters', 'version'):
        (line,) = [line for line in output.splitlines() if line.startswith(f'  {command} ')]
        assert len(line.split()) > 3


@pytest.mark.parametrize('command, module', [('demo', 'demo'), ('demo-eval', 'evaluate')])
def test_the_demo_commands_pass_their_arguments_and_status_on(monkeypatch, command, module):
    seen = []
    fake = types.ModuleType(module)
    fake.main = lambda arguments: seen.append(arguments) or 3
    monkeypatch.setitem(sys.modules, f'robot_infer.sim.{module}', fake)
    monkeypatch.setattr(f'robot_infer.sim.{module}', fake, raising=False)
    result = run(command, '--episodes', '2', '--help')
    assert result.exit_code == 3 and seen == [['--episodes', '2', '--help']]


@pytest.mark.parametrize('command', ['demo', 'demo-eval'])
def test_the_demo_commands_have_help(command):
    result = run(command, '--help')
    assert result.exit_code == 0 and '--' in result.output


def test_a_named_error_is_one_line_and_status_2(monkeypatch):
    def fail(arguments):
        raise ConfigError('parameter x', expected='y', got='z', remedy='Do it.')

    monkeypatch.setattr('robot_infer.sim.demo.main', fail)
    result = run('demo')
    assert result.exit_code == 2
    assert result.output == 'ConfigError: parameter x: expected y; got z. Do it.\n'
    assert isinstance(result.exception, SystemExit)


def test_a_missing_library_is_one_line_too(monkeypatch):
    monkeypatch.setitem(sys.modules, 'rich.console', None)
    result = run('doctor')
    assert result.exit_code == 2
    (line,) = result.output.splitlines()
    assert 'rich.console' in line and 'doctor' in line


@pytest.mark.parametrize('kind', [KeyboardInterrupt, click.Abort])
def test_an_interrupt_is_one_line_and_status_130(monkeypatch, kind):
    def interrupted(arguments):
        raise kind

    monkeypatch.setattr('robot_infer.sim.demo.main', interrupted)
    result = run('demo')
    assert (result.exit_code, result.output) == (cli.INTERRUPTED, 'interrupted\n')


def test_an_interrupt_while_a_command_is_imported_is_one_too(monkeypatch):
    class Interrupted:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == 'robot_infer.sim.demo':
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, 'robot_infer.sim.demo', raising=False)
    monkeypatch.delattr('robot_infer.sim.demo', raising=False)
    monkeypatch.setattr(sys, 'meta_path', [Interrupted, *sys.meta_path])
    result = run('demo')
    assert (result.exit_code, result.output) == (cli.INTERRUPTED, 'interrupted\n')
