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

"""What a JPEG file says about itself (ITU-T T.81), and whether its first scan reached its end.

Huffman codes are not walked, which Python is too slow for, so not every damage is found: a scan
after the first that is cut off (less detail or no colour), a first one that lacks at most its
last two rows of MCUs, a part in the middle lost between restart markers, a wrong width, a cut
inside an even colour, all white say, at a point where its bits read like those of grey.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

START = b'\xff\xd8\xff'
_END = b'\xff\xd9'
_MAX_SEGMENTS = 1024  # real files have a dozen; a profile may take up to 255
_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_HUFFMAN_DCT = frozenset((0xC0, 0xC1, 0xC2))
_ALONE = frozenset(range(0xD0, 0xD8)) | {0x01}
_PROGRESSIVE, _TABLES, _QUANTISATION, _RESTART = 0xC2, 0xC4, 0xDB, 0xDD
_END_OF_IMAGE, _START_OF_SCAN = 0xD9, 0xDA
_STANDARD_CODES = {(0, 0): '00', (1, 0): '00', (0, 1): '1010', (1, 1): '00'}  # T.81 K.3
_GREY = 128  # what libjpeg makes of blocks that are missing
_MAX_PATTERNS = 4096
_SLACK_BITS = 64  # filling that an encoder may leave between the last MCU and the end marker


@dataclass
class JpegHeader:
    """The segments before the first scan; `fault` says what is wrong, '' if nothing is.

    components: (id, across, down), the sampling factors. scan: (id, DC table, AC table) of the
    components in the first scan. codes: (table, 0 DC or 1 AC) to the code of symbol 0, which
    says 'no difference' or 'end of block'. quantisation: (start, end) of those segments.
    scan_start: where the first scan's bits begin, 0 if nowhere.
    """

    width: int = 0
    height: int = 0
    fault: str = ''
    frame_type: int = 0
    components: list[tuple[int, int, int]] = field(default_factory=list)
    scan: list[tuple[int, int, int]] = field(default_factory=list)
    codes: dict[tuple[int, int], str] = field(default_factory=lambda: dict(_STANDARD_CODES))
    quantisation: list[tuple[int, int]] = field(default_factory=list)
    restart: int = 0
    scan_start: int = 0

    @property
    def mcu(self) -> tuple[int, int]:
        """(width, height) of an MCU that holds all components, in pixels."""
        return (8 * max(across for _, across, _ in self.components),
                8 * max(down for _, _, down in self.components))

    def num_blocks(self, across: int, down: int) -> int:
        """Number of 8 x 8 blocks of a component, without those that only fill up MCUs."""
        wide, high = self.mcu
        return -(-self.width * across // wide) * -(-self.height * down // high)


def read_jpeg(data: NDArray[np.uint8]) -> JpegHeader:
    """Read the header and check that the bytes can hold the picture; data: (n,) uint8."""
    header = _walk(memoryview(data))
    if not header.fault:
        header.fault = _claim_fault(header, data)
    return header


def _walk(view: memoryview) -> JpegHeader:
    """Walk the segments up to the first scan."""
    header, at = JpegHeader(), 2
    for _ in range(_MAX_SEGMENTS):
        while at + 1 < len(view) and view[at] == view[at + 1] == 0xFF:
            at += 1  # fill bytes
        if at + 4 > len(view) or view[at] != 0xFF:
            header.fault = 'broken or cut off in its header'
            return header
        marker = view[at + 1]
        if marker in _ALONE:
            at += 2
            continue
        length = view[at + 2] << 8 | view[at + 3]
        if marker == _END_OF_IMAGE or length < 2:
            break
        body, at = bytes(view[at + 4:at + 2 + length]), at + 2 + length
        if at > len(view):
            header.fault = 'broken or cut off in its header'
            return header
        if not _read_segment(header, marker, body, at):
            break
        if marker == _START_OF_SCAN:
            return header
    header.fault = 'broken header: no picture in it'
    return header


def _read_segment(header: JpegHeader, marker: int, body: bytes, end: int) -> bool:
    """Note what matters of a segment that ends at `end`; False where it is malformed."""
    if marker in _START_OF_FRAME:
        if header.components or len(body) < 9 or len(body) < 6 + 3 * body[5]:
            return False
        header.frame_type = marker
        header.height, header.width = body[1] << 8 | body[2], body[3] << 8 | body[4]
        header.components = [(body[at], body[at + 1] >> 4, body[at + 1] & 15)
                             for at in range(6, 6 + 3 * body[5], 3)]
        if len(header.components) == 1:
            header.components = [(body[6], 1, 1)]  # its factors do not count (T.81 A.2.2)
        return all(1 <= factor <= 4 for _, *factors in header.components for factor in factors)
    if marker == _START_OF_SCAN:
        if not header.components or not body or len(body) < 4 + 2 * body[0]:
            return False
        header.scan = [(body[at], body[at + 1] >> 4, body[at + 1] & 15)
                       for at in range(1, 1 + 2 * body[0], 2)]
        header.scan_start = end
        return {name for name, *_ in header.scan} <= {name for name, *_ in header.components}
    if marker == _TABLES:
        _read_tables(header.codes, body)
    if marker == _QUANTISATION:
        header.quantisation.append((end - len(body), end))
    if marker == _RESTART and len(body) >= 2:
        header.restart = body[0] << 8 | body[1]
    return True


def _read_tables(codes: dict[tuple[int, int], str], body: bytes) -> None:
    """Find the code of symbol 0 in each Huffman table (T.81 annex C); the decoder checks them."""
    at = 0
    while at + 17 <= len(body):
        table, counts = body[at], body[at + 1:at + 17]
        symbols = body[at + 17:at + 17 + sum(counts)]
        place, at = symbols.find(b'\0'), at + 17 + sum(counts)
        codes.pop((table & 15, table >> 4), None)
        code = first = 0
        for bits, count in enumerate(counts, 1):
            if first <= place < first + count:
                codes[table & 15, table >> 4] = f'{code + place - first:0{bits}b}'
            code, first = (code + count) << 1, first + count


def _claim_fault(header: JpegHeader, data: NDArray[np.uint8]) -> str:
    """What is wrong with the file as a whole.

    Each block takes one bit at least for its DC coefficient and, but in a progressive file,
    another for the end of its AC coefficients. A uniform frame that OpenCV encodes as small as
    it can, tables optimised, takes 0.378 bytes per 8 x 8 pixels at any quality where 0.375 is
    the bound; without optimising 1.0, so no camera's file comes near it.
    """
    if header.frame_type not in _HUFFMAN_DCT or len(header.components) not in (1, 3):
        return 'of a kind that no camera sends (arithmetic, lossless, hierarchical or CMYK)'
    # Inside a scan no FF D9 can occur but the end marker; before it one can, in a thumbnail.
    end = data[max(header.scan_start, len(data) - 64):].tobytes().rfind(_END)
    if end < 0 and data[header.scan_start:].tobytes().rfind(_END) < 0:
        return 'cut off: no end marker'
    bits = sum(header.num_blocks(across, down) for _, across, down in header.components)
    bits *= 1 if header.frame_type == _PROGRESSIVE else 2
    there = len(data) - header.scan_start
    if bits > 8 * there:
        return (f'{header.width} x {header.height} pixels claimed, which take at least '
                f'{-(-bits // 8)} bytes and not {there}')
    return ''


def is_cut_off(
    data: NDArray[np.uint8], pixels: NDArray[np.uint8],
    decode_file: Callable[[NDArray[np.uint8]], NDArray[np.uint8] | None],
) -> bool:
    """Whether the first scan ended before the picture did, and libjpeg filled up with grey.

    Missing blocks come out as exactly 128, and libjpeg tells nobody. Where whole rows of MCUs
    at the bottom are that grey, it is theirs only if the scan ends with the bits that say so:
    for each such MCU but the first the same few, 'no difference, end of block' per block.
    Near the best quality a coefficient too small to be seen may hide in grey pixels; so before
    a file is refused it is decoded again, with coarse quantisation that would show it.

    :param data: (n,) uint8, a file in which read_jpeg found no fault.
    :param pixels: (height, width, 3) uint8, what came of it.
    :param decode_file: decodes a file in the same way.
    """
    if (pixels[-1] != _GREY).any():  # nearly always: a few microseconds
        return False
    header = read_jpeg(data)
    rows = _grey_rows(header, pixels)
    if not rows or _ends_in_grey(header, data, rows):
        return False
    coarse = data.copy()
    for start, end in header.quantisation:
        coarse[start:end] = _coarse_tables(data[start:end].tobytes())
    shown = decode_file(coarse)
    if shown is None or shown.shape != pixels.shape:
        return True
    rows = min(rows, _grey_rows(header, shown))
    return rows > 0 and not _ends_in_grey(header, data, rows)


def _grey_rows(header: JpegHeader, pixels: NDArray[np.uint8]) -> int:
    """Number of rows of MCUs at the bottom that are grey throughout."""
    height, coloured = len(pixels), (pixels.reshape(len(pixels), -1) != _GREY).any(1)
    first_grey = height - int(np.argmax(coloured[::-1])) if coloured.any() else 0
    return -(-height // header.mcu[1]) - -(-first_grey // header.mcu[1])


def _ends_in_grey(header: JpegHeader, data: NDArray[np.uint8], rows: int) -> bool:
    """Whether the first scan ends with the bits of `rows` rows of grey MCUs but one MCU."""
    pattern, per_row, total = _grey_mcu(header)
    start, end = _last_bits(header, data)
    num = min(rows * per_row - 1, _MAX_PATTERNS)
    if header.restart:
        num = min(num, (total - 1) % header.restart + 1)  # those behind the last restart marker
    if not num or not pattern:
        return not num
    wanted = num * len(pattern) + _SLACK_BITS
    first = max(start, end - wanted // 4 - 8)  # twice as much as wanted, for stuffed zeros
    tail = data[first:end].tobytes().replace(b'\xff\0', b'\xff')
    written = (np.unpackbits(np.frombuffer(tail, np.uint8))[-wanted:] + ord('0')).tobytes()
    return pattern.encode() * num in written


def _last_bits(header: JpegHeader, data: NDArray[np.uint8]) -> tuple[int, int]:
    """(start, end) of the first scan's bits behind its last restart marker."""
    bits = data[header.scan_start:]
    marks = np.flatnonzero(bits[:-1] == 0xFF)
    marks = marks[bits[marks + 1] != 0]
    restarts = (bits[marks + 1] & 0xF8) == 0xD0
    end = int(marks[~restarts][0])  # there is one, or read_jpeg would have found a fault
    starts = marks[restarts & (marks < end)]
    start = int(starts[-1]) + 2 if len(starts) else 0
    return header.scan_start + start, header.scan_start + end


def _grey_mcu(header: JpegHeader) -> tuple[str, int, int]:
    """Bits of an MCU of the first scan that is as grey as the one before; MCUs a row; in all.

    The bits are '' where a table has no code for them.
    """
    factors = {name: (across, down) for name, across, down in header.components}
    with_ac = header.frame_type != _PROGRESSIVE
    pattern, missing = '', False
    for name, dc_table, ac_table in header.scan:
        codes = [header.codes.get((dc_table, 0)), header.codes.get((ac_table, 1))][:1 + with_ac]
        if None in codes:
            missing = True
        across, down = factors[name] if len(header.scan) > 1 else (1, 1)
        pattern += ''.join(code or '' for code in codes) * across * down
    wide, high = header.mcu
    per_row = -(-header.width // wide)
    total = per_row * -(-header.height // high)
    if len(header.scan) == 1:
        total = header.num_blocks(*factors[header.scan[0][0]])
    return '' if missing else pattern, per_row, total


def _coarse_tables(body: bytes) -> NDArray[np.uint8]:
    """Quantisation tables with 64 for every entry: the smallest coefficient is 8 in 256."""
    tables, at = np.frombuffer(body, np.uint8).copy(), 0
    while at < len(body):
        wide = 1 + (body[at] >> 4 != 0)
        entries = tables[at + 1:at + 1 + 64 * wide]
        entries[:] = 0
        entries[wide - 1::wide] = 64
        at += 1 + 64 * wide
    return tables
