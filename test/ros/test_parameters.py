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


"""Settings as parameters: coercion, wrong overrides kept for configure, live changes."""

from __future__ import annotations

import pytest

pytest.importorskip('rclpy', reason='ROS 2 (rclpy) is not installed')

import rclpy
from rclpy.context import Context
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_msgs.msg import String

from robot_infer.config import Config
from robot_infer.errors import ConfigError
from robot_infer.ros import qos
from robot_infer.ros.parameters import Parameters


class Bench:
    """A node in this process with some overrides, and what it was told to apply."""

    def __init__(self, context: Context, overrides: dict[str, object]) -> None:
        self.node = Node('bench', context=context, start_parameter_services=False,
                         parameter_overrides=[
                             Parameter(name, value=value) for name, value in overrides.items()])
        self.editable, self.applied = True, []
        self.parameters = Parameters(
            self.node, lambda: self.editable, lambda config, _: self.applied.append(config))

    def set(self, **values: object) -> tuple[bool, str]:
        """Set parameters at once; `a__b` stands for `a.b`."""
        result = self.node.set_parameters_atomically([
            Parameter(name.replace('__', '.'), value=value) for name, value in values.items()])
        return result.successful, result.reason


@pytest.fixture
def bench(domain_id):
    context, made = Context(), []
    rclpy.init(context=context, domain_id=domain_id)

    def make(**overrides: object) -> Bench:
        made.append(Bench(context, {
            name.replace('__', '.'): value for name, value in overrides.items()}))
        return made[-1]
    yield make
    for each in made:
        each.node.destroy_node()
    context.try_shutdown()


def test_without_overrides_the_config_is_the_default(bench):
    assert bench().parameters.config() == Config()


def test_whole_numbers_are_taken_where_numbers_are_wanted(bench):
    made = bench(control__rate_hz=50, control__action_low=[-1, -2], control__action_high=[1, 2])
    config = made.parameters.config()
    assert config.control.rate_hz == 50.0 and config.control.action_low == (-1.0, -2.0)
    assert made.node.get_parameter('control.rate_hz').type_ == Parameter.Type.DOUBLE


def test_an_override_of_nothing_is_an_empty_list(bench):
    made = bench(cameras__policy_inputs=[])
    assert made.parameters.config().cameras.policy_inputs == ()
    kind = made.node.get_parameter('cameras.policy_inputs').type_
    assert kind == Parameter.Type.STRING_ARRAY


@pytest.mark.parametrize('name, value', [
    ('control.rate_hz', 5000.0), ('control.rate_hz', 'fast'), ('control.rate_hz', True),
    ('control.rate_hz', float('nan')), ('policy.threads', 1.5), ('policy.threads', -1),
    ('policy.dtype', 'fp4'), ('cameras.names', 'overhead'), ('cameras.names', [1, 2]),
])
def test_a_wrong_override_is_refused_at_configure_and_can_be_mended(bench, name, value):
    made = bench(**{name: value})
    with pytest.raises(ConfigError, match=name):
        made.parameters.config()
    group, key = name.split('.')
    good = getattr(getattr(Config(), group), key)
    good = list(good) if isinstance(good, tuple) else good
    assert made.set(**{name: good}) == (True, '')
    assert made.parameters.config() == Config()


def test_an_unknown_override_is_named_with_its_neighbour(bench):
    with pytest.raises(ConfigError, match='control.fallbak.*Did you mean control.fallback'):
        bench(control__fallbak='hold').parameters.config()


def test_parameters_of_ros_itself_are_known(bench):
    assert bench(use_sim_time=False).parameters.config() == Config()


def test_a_qos_override_of_no_topic_is_named_once_topics_are_open(bench):
    made = bench(**{'qos_overrides./nothing.subscription.depth': 3, 'qos_overrides.x': 'x'})
    assert made.parameters.config() == Config()
    with pytest.raises(ConfigError, match='qos_overrides./nothing'):
        made.parameters.check_qos_overrides()


@pytest.mark.parametrize('policy, value, words', [
    ('reliability', 'bad', 'expected one of system_default, reliable, best_effort'),
    ('reliability', '', 'expected one of'), ('history', 3, 'keep_last, keep_all'),
    ('durability', 'unknown', 'transient_local, volatile'), ('depth', -1, 'a whole number'),
    ('depth', 'ten', "0 or more, for the depth of the publisher of /arm/action; got 'ten'"),
    ('depth', True, 'a whole number')])
def test_a_qos_override_that_ros_cannot_take_is_named_before_it_is_tried(
    bench, policy, value, words,
):
    name = f'qos_overrides./arm/action.publisher.{policy}'
    with pytest.raises(ConfigError, match=words) as caught:
        bench(**{name: value}).parameters.config()
    assert f'parameter {name}' in str(caught.value)


@pytest.mark.parametrize('policy, value', [
    ('reliability', 'best_effort'), ('reliability', 'RELIABLE'), ('history', 'keep_all'),
    ('depth', 7)])
def test_a_qos_override_that_ros_can_take_is_left_to_it(bench, policy, value):
    made = bench(**{f'qos_overrides./action.publisher.{policy}': value})
    assert made.parameters.config() == Config()
    made.node.create_publisher(
        String, 'action', qos.action(), qos_overriding_options=qos.overridable())
    made.parameters.check_qos_overrides()


def test_while_unconfigured_lists_that_belong_together_may_be_set_apart(bench):
    made = bench()
    assert made.set(control__action_low=[-1.0, -1.0]) == (True, '')
    with pytest.raises(ConfigError, match='equal length'):
        made.parameters.config()
    assert made.set(control__action_high=[1.0, 1.0]) == (True, '')
    assert made.parameters.config().control.action_high == (1.0, 1.0)
    assert not made.applied


def test_while_configured_only_live_ones_change_and_are_applied_together(bench):
    made = bench()
    made.editable = False
    assert made.set(inference__rate_hz=5.0, inference__deadline_s=1) == (True, '')
    (config,) = made.applied
    assert config.inference.rate_hz == 5.0 and config.inference.deadline_s == 1.0
    done, reason = made.set(inference__rate_hz=6.0, policy__seed=3)
    assert not done and 'policy.seed' in reason and 'unconfigured' in reason
    assert len(made.applied) == 1
    assert made.node.get_parameter('inference.rate_hz').value == 5.0
