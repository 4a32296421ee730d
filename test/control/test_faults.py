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

"""FaultBoard: faults by name, counted, timed, and never in anyone's way."""

from __future__ import annotations

import threading

from robot_infer.control.clock import ManualClock
from robot_infer.control.faults import FaultBoard
from robot_infer.errors import StaleFrameError, StateError


def state_error(got: str) -> StateError:
    return StateError('joint states', expected='one', got=got, remedy='Publish them.')


def test_a_named_error_is_filed_by_its_name_with_its_last_words(clock: ManualClock) -> None:
    board = FaultBoard(clock)
    first_ns = clock.now_ns()
    assert board.report(state_error('none')) == 'StateError'
    last_ns = clock.advance_ns(5)
    board.report(state_error('NaN'))
    (fault,) = board.active()
    assert (fault.name, fault.count, fault.first_ns, fault.last_ns) == (
        'StateError', 2, first_ns, last_ns)
    assert fault.message == 'joint states: expected one; got NaN. Publish them.'
    assert str(fault).startswith('StateError: joint states') and fault.traceback == ''


def test_any_other_error_is_unexpected_and_keeps_its_traceback(clock: ManualClock) -> None:
    board = FaultBoard(clock)

    def broken_policy() -> None:
        raise ZeroDivisionError('by nothing')

    try:
        broken_policy()
    except ZeroDivisionError as error:
        board.report(error)
    (fault,) = board.active()
    assert str(fault) == 'UnexpectedError: ZeroDivisionError: by nothing'
    assert 'in broken_policy' in fault.traceback


def test_a_cleared_fault_is_history_and_comes_back_with_a_new_beginning(
    clock: ManualClock,
) -> None:
    board = FaultBoard(clock)
    board.report(state_error('none'))
    board.report(StaleFrameError('camera a', expected='1', got='2', remedy='3'))
    board.clear('StateError')
    assert [fault.name for fault in board.active()] == ['StaleFrameError']
    assert [(fault.name, fault.active) for fault in board.seen()] == [
        ('StateError', False), ('StaleFrameError', True)]
    again_ns = clock.advance_ns(9)
    board.report(state_error('none'))
    fault = board.seen()[1]  # the younger one now
    assert (fault.active, fault.count, fault.first_ns) == (True, 2, again_ns)


def test_the_oldest_comes_first_also_where_one_came_again(clock: ManualClock) -> None:
    board = FaultBoard(clock)
    stale = StaleFrameError('camera', expected='a frame', got='none', remedy='Look.')
    board.report(stale)
    board.clear('StaleFrameError')
    clock.advance_ns(5)
    board.report(state_error('none'))
    clock.advance_ns(5)
    board.report(stale)
    assert [fault.name for fault in board.active()] == ['StateError', 'StaleFrameError']


def test_a_fault_that_nobody_clears_may_end_by_itself(clock: ManualClock) -> None:
    board = FaultBoard(clock)
    board.report(state_error('none'), lasts_s=2.0)
    clock.advance_s(1.5)
    board.report(state_error('none'), lasts_s=2.0)
    clock.advance_s(2.0)
    assert [fault.count for fault in board.active()] == [2]
    clock.advance_ns(1)
    assert board.active() == ()
    assert [(fault.count, fault.active) for fault in board.seen()] == [(2, False)]


def test_clearing_what_never_was_is_nothing(clock: ManualClock) -> None:
    board = FaultBoard(clock)
    board.clear('StateError')
    assert board.seen() == ()


def test_forget_wipes_everything(clock: ManualClock) -> None:
    board = FaultBoard(clock)
    board.report(state_error('none'))
    board.forget()
    assert board.seen() == ()


def test_a_report_never_waits_for_somebody_who_holds_the_table(clock: ManualClock) -> None:
    board = FaultBoard(clock)
    with board._folding:  # as if a reader had been put to sleep in the middle
        thread = threading.Thread(target=lambda: board.report(state_error('none')))
        thread.start()
        thread.join(20.0)
        assert not thread.is_alive()
    assert [fault.count for fault in board.active()] == [1]


def test_reports_of_many_threads_are_all_counted(clock: ManualClock) -> None:
    board = FaultBoard(clock)
    threads = [
        threading.Thread(target=lambda: [board.report(state_error('x')) for _ in range(500)])
        for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        board.active()
    assert board.active()[0].count == 2000
