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

"""What can be wrong with a bag or its replay, by name."""

from __future__ import annotations

from robot_infer.errors import RobotInferError


class BagError(RobotInferError):
    """A bag cannot be read: missing, foreign, damaged, or empty."""


class BagDamagedError(BagError):
    """A bag could be read up to a point and no further; what came before was used."""


class TopicError(BagError):
    """A topic is not in the bag, is there twice, or has no messages."""


class MessageTypeError(BagError):
    """A topic is of another type than wanted, or its type is defined in another way."""


class MessageError(BagError):
    """One message cannot be decoded."""


class LiveReplayError(RobotInferError):
    """The node that a bag is to be played to is not there, or does not do what it is asked."""
