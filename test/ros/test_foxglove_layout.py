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

"""The Foxglove layout that ships: whole, and all that it names is there on a running node.

What an import takes is that of Foxglove's LayoutData: panels by id (`Kind!name`) in `configById`,
their places in the binary tree `layout`.
"""

from __future__ import annotations

from collections.abc import Iterator
import importlib
import json
from pathlib import Path
import re

LAYOUT = json.loads(
    (Path(__file__).parents[2] / 'config' / 'foxglove_layout.json').read_text())
PANELS: dict[str, dict] = LAYOUT['configById']
_STEP = re.compile(r'\.(\w+)((?:\[-?\d*(?::-?\d*)?\])?)((?:\{[^{}]*\})?)')
_FILTER = re.compile(r'\{(\w+)==".*"\}')


def leaves(tree: object) -> Iterator[str]:
    """Ids of the panels of a layout tree."""
    if isinstance(tree, str):
        yield tree
        return
    assert set(tree) == {'direction', 'first', 'second', 'splitPercentage'}
    assert tree['direction'] in ('row', 'column') and 0 < tree['splitPercentage'] < 100
    yield from leaves(tree['first'])
    yield from leaves(tree['second'])


def paths() -> Iterator[str]:
    """Every message path: a topic, and what of its messages."""
    for panel in PANELS.values():
        yield from (path['value'] for path in panel.get('paths', ()))
        yield from (panel[key] for key in ('topicPath', 'topicToRender', 'topicName')
                    if key in panel)
        if 'imageMode' in panel:
            yield panel['imageMode']['imageTopic']


def topic_of(path: str) -> str:
    """The topic of a message path."""
    return path.split('.', 1)[0]


def kind(type_name: str) -> type:
    """The class of a message, by 'package/msg/Name' or 'package/Name'."""
    package, *_, name = type_name.split('/')
    return getattr(importlib.import_module(f'{package}.msg'), name)


def resolve(type_name: str, path: str) -> str:
    """The type of the field that a message path ends at; fails where there is none."""
    rest = path[len(topic_of(path)):]
    while rest:
        step = _STEP.match(rest)
        assert step, f'{path}: {rest!r} is no step of a message path'
        name, index, condition = step.groups()
        fields = kind(type_name).get_fields_and_field_types()
        assert name in fields, f'{path}: {type_name} has no field {name}, but {", ".join(fields)}'
        type_name, rest = fields[name], rest[step.end():]
        if index:
            assert type_name.startswith('sequence<'), f'{path}: {name} is no array'
            type_name = type_name[len('sequence<'):-1]
        if condition:
            (field,) = _FILTER.fullmatch(condition).groups()
            assert field in kind(type_name).get_fields_and_field_types()
    return type_name


def test_it_has_what_an_import_takes_and_every_panel_one_place():
    assert set(LAYOUT) == {
        'configById', 'globalVariables', 'userNodes', 'playbackConfig', 'layout'}
    placed = list(leaves(LAYOUT['layout']))
    assert sorted(placed) == sorted(PANELS), 'each once'
    assert {name.split('!')[0] for name in PANELS} == {
        'Image', 'Plot', 'StateTransitions', 'DiagnosticSummary', 'RawMessages', 'Publish',
        'CallService'}
    assert all(re.fullmatch(r'\w+!\w+', name) for name in PANELS)


def test_both_cameras_the_times_and_the_status_are_shown():
    shown = set(map(topic_of, paths()))
    assert shown == {
        '/overhead/image', '/wrist/image', '/action', '/joint_states', '/diagnostics',
        '/instruction', *(f'/robot_infer/{name}' for name in (
            'status', 'debug/deadline_lateness_ms', 'debug/processing_time_ms',
            'debug/inference_time_ms'))}


def test_all_that_it_names_is_there_on_a_running_node(robot):
    assert robot.set({'diagnostics.publish_debug': True})[0]
    assert robot.transition('configure') and robot.transition('activate')
    robot.wait_status(state='active')
    node = robot.node

    def types_at_the_node(topic: str) -> set[str]:
        ends = (*node.get_publishers_info_by_topic(topic),
                *node.get_subscriptions_info_by_topic(topic))
        return {end.topic_type for end in ends if end.node_name == 'robot_infer'}

    for path in paths():
        robot.wait(lambda path=path: types_at_the_node(topic_of(path)), topic_of(path))
        (type_name,) = types_at_the_node(topic_of(path))
        resolve(type_name, path)
    for name, panel in PANELS.items():
        if name.startswith('Image!'):
            assert types_at_the_node(panel['imageMode']['imageTopic']) == {'sensor_msgs/msg/Image'}
        elif name.startswith('Plot!'):
            for path in panel['paths']:
                (type_name,) = types_at_the_node(topic_of(path['value']))
                assert resolve(type_name, path['value']) == 'double'
        elif name.startswith('Publish!'):
            assert types_at_the_node(panel['topicName']) == {panel['datatype']}
            assert set(json.loads(panel['value'])) == {'data'}


def test_its_buttons_call_services_of_the_node(robot):
    offered = dict(robot.node.get_service_names_and_types_by_node('robot_infer', '/'))
    for name, panel in PANELS.items():
        if name.startswith('CallService!'):
            (type_name,) = offered[panel['serviceName']]
            package, _, service = type_name.split('/')
            request = getattr(importlib.import_module(f'{package}.srv'), service).Request
            given = json.loads(panel['requestPayload'])
            assert set(given) == set(request.get_fields_and_field_types())


def test_the_status_has_the_values_that_are_shown(active):
    wanted = {match for path in paths() if topic_of(path).endswith('/status')
              for match in re.findall(r'key=="(\w+)"', path)}
    assert wanted and wanted <= {pair.key for pair in active.status.values}
