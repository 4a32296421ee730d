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

"""The plan: all that the runtime will take, whether it fits, and at what rate it will run.

What lives here: the lines held against the device, and the verdict. What does not: which lines
there are (layout.py), how long a step takes (roofline.py), what would help (levers.py).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import Enum

from robot_infer.budget.devices import GIB, Device
from robot_infer.budget.history import History, history
from robot_infer.budget.layout import (
    Facts,
    Layout,
    lay_out,
    page_need,
    suffix_tokens,
    with_budget,
)
from robot_infer.budget.levers import Lever, find_levers
from robot_infer.budget.lines import MemoryLine
from robot_infer.budget.model_shape import ModelShape
from robot_infer.budget.roofline import Efficiency, Rate, Stage, predict
from robot_infer.budget.workload import workload
from robot_infer.config import Config
from robot_infer.errors import ConfigError

MARGIN = 0.2  # of the time; a percentile is never predicted
CAMERA_RATE_HZ = 30.0
_MOST_HZ = 1e6
# Families whose tokens are actions; of the others a rate is predicted, and none is asked for.
_POLICIES = {'smolvla', 'pi0', 'pi05', 'pi0fast', 'openvla'}


class Verdict(Enum):
    """What came of it, and the exit status that tells a script so."""

    FITS = 'fits', 0
    TOO_BIG = 'does not fit', 3
    TOO_SLOW = 'fits, but misses the rate', 4

    @property
    def words(self) -> str:
        """For a person."""
        return self.value[0]

    @property
    def status(self) -> int:
        """For a script."""
        return self.value[1]


@dataclass(frozen=True)
class Wish:
    """What is asked of the rate.

    :param rate_hz: of control; None: control.rate_hz of the configuration.
    :param margin: share of the time that must stay free.
    :param efficiency: measured; None: what is usual for the device.
    """

    rate_hz: float | None = None
    margin: float = MARGIN
    camera_rate_hz: float = CAMERA_RATE_HZ
    efficiency: Efficiency | None = None


@dataclass(frozen=True)
class Reach:
    """The rate asked for, and the highest one there is.

    :param asked_hz: 0: none was asked for.
    :param highest_hz: of control, with the margin left free; 0 where no chunk would be valid.
    """

    asked_hz: float
    highest_hz: float
    margin: float

    @property
    def is_enough(self) -> bool:
        """Whether what was asked for can be had."""
        return self.highest_hz >= self.asked_hz


@dataclass(frozen=True)
class Plan:
    """Everything that will be taken, on one device.

    :param num_bytes: of the device's memory; host_bytes: of the host's, where that is another.
    :param usable_bytes: of the device's memory.
    :param rate: None where the model does not act.
    :param history: None where the model has no cameras.
    :param levers: what would help; only where it does not fit.
    """

    shape: ModelShape
    config: Config
    device: Device
    layout: Layout
    usable_bytes: int
    rate: Rate | None
    reach: Reach
    history: History | None
    verdict: Verdict
    words: str
    levers: tuple[Lever, ...] = ()

    @property
    def lines(self) -> tuple[MemoryLine, ...]:
        """All lines, in the order of the computer's parts."""
        return self.layout.lines

    @property
    def num_bytes(self) -> int:
        """Of the device's memory."""
        return self.layout.num_bytes

    @property
    def host_bytes(self) -> int:
        """Of the host's memory, where that is another."""
        return self.layout.host_bytes

    @property
    def engine_bytes(self) -> int:
        """Of the process that runs the engine, on a CPU: what it should be seen to hold."""
        return self.layout.engine_bytes

    @property
    def headroom_bytes(self) -> int:
        """What is left; negative where it does not fit."""
        return self.usable_bytes - self.num_bytes

    def to_json(self) -> dict[str, object]:
        """Everything, as JSON has it: for scripts and for the page."""
        device, rate = self.device, self.rate
        return {
            'verdict': self.verdict.words, 'status': self.verdict.status, 'words': self.words,
            'usable_bytes': self.usable_bytes, 'num_bytes': self.num_bytes,
            'headroom_bytes': self.headroom_bytes, 'host_bytes': self.host_bytes,
            'engine_bytes': self.engine_bytes,
            'lines': [asdict(line) for line in self.lines],
            'settings': _settings(self.config, self.layout),
            'shape': asdict(self.shape) | {'weight_bytes': self.shape.weight_bytes,
                                           'num_params': self.shape.num_params},
            'device': {'name': device.name, 'sm': device.sm, 'unified': device.unified,
                       'total_bytes': device.total_bytes, 'total_basis': device.total_basis,
                       'available_bytes': device.available_bytes, 'bandwidth': device.bandwidth,
                       'rates': dict(device.rates), 'num_sms': device.num_sms,
                       'source': device.source, 'note': device.note,
                       'measured': device.measured},
            'rate': None if rate is None else _rate(rate, self.reach),
            'history': None if self.history is None else asdict(self.history),
            'levers': [asdict(lever) for lever in self.levers]}


def make_plan(
    shape: ModelShape, config: Config, device: Device, facts: Facts | None = None,
    wish: Wish | None = None, *, predicts: bool = True,
) -> Plan:
    """Plan a model with these settings on this device.

    :param predicts: False: memory alone, without a rate, and none is asked for.
    :raises ConfigError: where the settings do not go together with model, device or wish.
    :raises BudgetError: where cache.budget_bytes is too small, or larger than the machine.
    """
    facts, wish = facts or Facts(), wish or Wish()
    _check(wish)
    layout = lay_out(shape, config, device, facts)
    usable = device.total_bytes if device.available_bytes is None else device.available_bytes
    rate = predict(shape, workload(shape, config, num_cameras=len(layout.cameras)), device,
                   wish.efficiency) if predicts and (
                       shape.max_prompt_tokens or layout.cameras) else None
    reach = _reach(shape, config, rate, wish) if predicts else Reach(0.0, 0.0, wish.margin)
    fits = layout.num_bytes <= usable
    verdict = (Verdict.TOO_BIG if not fits else
               Verdict.FITS if reach.is_enough else Verdict.TOO_SLOW)
    plan = Plan(
        shape, config, device, layout, usable, rate, reach,
        _history(shape, config, layout, wish), verdict, '',
        () if fits else find_levers(shape, config, device, facts, usable))
    return replace(plan, words=_words(plan))


def with_room(shape: ModelShape, config: Config, facts: Facts) -> Config:
    """The same settings with the smallest budget that is enough, where theirs is smaller.

    For a model by name, of whose budget nobody has spoken.
    """
    cameras = shape.cameras if facts.cameras is None else facts.cameras
    least = page_need(shape, config, len(cameras)).num_bytes
    return config if config.cache.budget_bytes >= least else with_budget(config, least)


def acts(shape: ModelShape) -> bool:
    """Whether it is a policy; else words come out of it."""
    return shape.family in _POLICIES


def in_words(num_bytes: int) -> str:
    """Bytes for a person: in GiB, and in GB."""
    return f'{num_bytes / GIB:.2f} GiB ({num_bytes / 1e9:.2f} GB)'


def _reach(shape: ModelShape, config: Config, rate: Rate | None, wish: Wish) -> Reach:
    """The highest control rate at which a chunk lasts, and is valid, until the next is there."""
    asked = wish.rate_hz or (config.control.rate_hz if acts(shape) else 0.0)
    if rate is None:
        return Reach(asked, 0.0 if asked else 1.0, wish.margin)
    wait = max(0.0, 1 / config.inference.rate_hz - rate.cold_s)
    highest = rate.control_rate_hz(wish.margin, wait)
    # From the observation of one chunk to the arrival of the next; it must be valid so long.
    if 2 * rate.cold_s + wait > config.control.chunk_validity_s:
        highest = 0.0
    return Reach(asked, highest, wish.margin)


def _history(shape: ModelShape, config: Config, layout: Layout, wish: Wish) -> History | None:
    if not layout.cameras:
        return None
    return history(
        shape, num_blocks=layout.num_pages, page_tokens=layout.page_tokens,
        num_cameras=len(layout.cameras), prompt_tokens=shape.max_prompt_tokens,
        suffix_tokens=suffix_tokens(shape, config),
        embeddings_per_camera=config.cache.embeddings_per_camera,
        camera_rate_hz=wish.camera_rate_hz, inference_rate_hz=config.inference.rate_hz)


def _words(plan: Plan) -> str:
    """The verdict in one sentence."""
    where = f'{plan.shape.name} on {plan.device.name}'
    sizes = f'{in_words(plan.num_bytes)} of {in_words(plan.usable_bytes)} usable'
    if plan.verdict is Verdict.TOO_BIG:
        return (f'{where} does not fit: {sizes}, {in_words(-plan.headroom_bytes)} too much; '
                f'{_advice(plan.levers)}.')
    text = f'{where} fits: {sizes}, {in_words(plan.headroom_bytes)} free'
    reach = plan.reach
    if plan.rate is None or not reach.asked_hz:
        return f'{text}.'
    step = f'a step with new frames takes about {1e3 * plan.rate.cold_s:.3g} ms'
    free = f'with {100 * reach.margin:.3g} % of the time free'
    if reach.is_enough:
        return (f'{text}; {step}, so control runs at up to {reach.highest_hz:.3g} Hz {free} '
                f'(asked: {reach.asked_hz:g} Hz).')
    if not reach.highest_hz:
        return (f'{text}, but misses the rate: {step}, and a chunk is valid for '
                f'{plan.config.control.chunk_validity_s:g} s only (control.chunk_validity_s).')
    return (f'{text}, but misses the rate: {step}, so control runs at up to '
            f'{reach.highest_hz:.3g} Hz {free}, and {reach.asked_hz:g} Hz were asked for.')


def _advice(levers: tuple[Lever, ...]) -> str:
    enough = [lever for lever in levers if lever.fits and lever.offered]
    if enough:
        return f'{min(enough, key=lambda lever: lever.gain_bytes).change} would make it fit'
    more = [lever.name for lever in levers if lever.fits]
    if more:
        return f'no setting of this version would make it fit; {more[-1]} would'
    return 'nothing that was tried would make it fit'


def _check(wish: Wish) -> None:
    for name, value in (('--rate', wish.rate_hz), ('--camera-rate', wish.camera_rate_hz)):
        if value is not None and not 1e-3 <= value <= _MOST_HZ:
            raise ConfigError(name, expected=f'a rate in Hz from 0.001 to {_MOST_HZ:g}',
                              got=repr(value), remedy='Say how many come each second.')


def _settings(config: Config, layout: Layout) -> dict[str, object]:
    """The settings that the lines follow from; kv_format as budget/kv.py names it."""
    kv_format = config.cache.kv_format
    return {
        'dtype': config.policy.dtype, 'weights': config.policy.weights,
        'kv_format': config.policy.dtype if kv_format == 'auto' else kv_format,
        'page_tokens': layout.page_tokens, 'num_pages': layout.num_pages,
        'page_bytes': layout.need.block_bytes, 'least_pages': layout.need.num_blocks,
        'budget_bytes': config.cache.budget_bytes,
        'embeddings_per_camera': config.cache.embeddings_per_camera,
        'cameras': list(layout.cameras)}


def _rate(rate: Rate, reach: Reach) -> dict[str, object]:
    def told(stages: tuple[Stage, ...]) -> list[dict[str, object]]:
        return [asdict(stage) | {'limited_by': stage.limited_by} for stage in stages]
    return {
        'cold_s': rate.cold_s, 'reused_s': rate.reused_s, 'cold_bound_s': rate.cold_bound_s,
        'reused_bound_s': rate.reused_bound_s, 'cold': told(rate.cold),
        'reused': told(rate.reused), 'horizon': rate.horizon,
        'efficiency': asdict(rate.efficiency), 'notes': list(rate.notes),
        'asked_hz': reach.asked_hz, 'highest_hz': reach.highest_hz, 'margin': reach.margin}
