#!/usr/bin/env python3
"""Checks that ETL files keep the rules of their format.

This program shares nothing with the library: it is written from the description of the format
(doc/formats/etl.md) alone, so that a misreading would have to be made twice to go unnoticed. It
reads a whole file, compressed buffers included, and prints what is wrong with the offset at which
it is. What loggers were seen to write is no problem; --strict adds the rules that only our own
writer keeps (zero padding, zero reserved fields, sequence numbers without gaps).

    etl_check.py [--strict] [--counts] [--quiet] FILE...

--counts prints one line per kind of record: file, buffers, records, header type, hook or GUID,
opcode, id, version. Exit code: 0 no problem, 1 problems, 2 usage or a file that cannot be read.
"""

import argparse
import collections
import os
import struct
import sys
import uuid

BUFFER_HEADER = struct.Struct("<IIIIQQQHHIIHHQQ")
U16 = struct.Struct("<H")
U32 = struct.Struct("<I")
U64 = struct.Struct("<Q")

FLAG_FLUSH, FLAG_EVENTS_LOST, FLAG_BUFFER_LOST, FLAG_CPU_INDEX, FLAG_COMPRESSED = 1, 2, 4, 32, 64
FLAGS_KNOWN = 0x7F
MODE_CIRCULAR, MODE_NO_PER_CPU, MODE_RELOG, MODE_COMPRESSED = 2, 0x10000000, 0x10000, 0x04000000

SYSTEM, COMPACT, FULL, INSTANCE, PERFINFO, EVENT = (
    (1, 2), (3, 4), (10, 20), (11, 21), (16, 17), (18, 19))
TYPE_NAMES = {1: "SYS32", 2: "SYS64", 3: "CMP32", 4: "CMP64", 10: "FULL32", 11: "INST32",
              13: "ERROR", 15: "MSG", 16: "PI32", 17: "PI64", 18: "EVH32", 19: "EVH64",
              20: "FULL64", 21: "INST64"}
HEADER_SIZES = {1: 32, 2: 32, 3: 24, 4: 24, 10: 48, 20: 48, 11: 72, 21: 72, 16: 16, 17: 16,
                18: 80, 19: 80, 13: 4}
PTR_SIZES = {1: 4, 2: 8, 3: 4, 4: 8, 10: 4, 20: 8, 11: 4, 21: 8, 16: 4, 17: 8, 18: 4, 19: 8}

# Classes that FULL records use instead of a hook, by the group of the hook.
GROUPS = {"68fdd900-4a3e-11d1-84f4-0000f80464e3": 0x00,
          "3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c": 0x03,
          "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c": 0x05,
          "99134383-5248-43fc-834b-529454e75df3": 0x0C,
          "ce1dbfb4-137e-4da6-87b0-3f59aa102cbc": 0x0F,
          "2cb15d1d-5fc1-11d2-abe1-00a0c911f518": 0x14,
          "def2fe46-7bd6-4b80-bd94-f57fe20d0ce3": 0x18}
IMAGE_ID = "b3e675d7-2554-4f18-830b-2762732560de"
SYSTEM_CONFIG_EX = "9b79ee91-b5fd-41c0-a243-4248e266e9d0"


class Bad(Exception):
    """A payload that does not hold what its layout demands."""


class Cursor:
    """Reads a payload from front to back."""

    def __init__(self, data, ptr_size):
        self.data, self.pos, self.ptr_size = data, 0, ptr_size

    def take(self, n):
        if self.pos + n > len(self.data):
            raise Bad("ends %d bytes early at payload offset %d"
                      % (self.pos + n - len(self.data), self.pos))
        self.pos += n
        return self.data[self.pos - n:self.pos]

    def u8(self):
        return self.take(1)[0]

    def u16(self):
        return U16.unpack(self.take(2))[0]

    def u32(self):
        return U32.unpack(self.take(4))[0]

    def u64(self):
        return U64.unpack(self.take(8))[0]

    def ptr(self):
        return self.u64() if self.ptr_size == 8 else self.u32()

    def ansi(self):
        end = self.data.find(b"\0", self.pos)
        if end < 0:
            raise Bad("8-bit text without end at payload offset %d" % self.pos)
        text = self.data[self.pos:end]
        self.pos = end + 1
        return text

    def utf16(self):
        start = self.pos
        while self.u16() != 0:
            pass
        return self.data[start:self.pos - 2].decode("utf-16-le", "replace")

    def left(self):
        return len(self.data) - self.pos


def xpress_expand(data, size):
    """Expands to exactly size bytes; returns them and what the end of the input looks like."""
    out = bytearray()
    pos, nibble_at = 0, -1
    flags, count = 0, 0
    n = len(data)
    while len(out) < size:
        if count == 0:
            if pos + 4 > n:
                raise Bad("compressed data end inside a group's flags at %d" % pos)
            flags = U32.unpack_from(data, pos)[0]
            pos += 4
            count = 32
        count -= 1
        if not flags >> count & 1:
            if pos >= n:
                raise Bad("compressed data end before a literal at %d" % pos)
            out.append(data[pos])
            pos += 1
            continue
        if pos + 2 > n:
            raise Bad("compressed data end before a match at %d" % pos)
        word = U16.unpack_from(data, pos)[0]
        at = pos
        pos += 2
        length, distance = word & 7, (word >> 3) + 1
        if length == 7:
            if nibble_at < 0:
                if pos >= n:
                    raise Bad("compressed data end in a length at %d" % pos)
                nibble_at = pos
                length = data[pos] & 15
                pos += 1
            else:
                length = data[nibble_at] >> 4
                nibble_at = -1
            if length == 15:
                if pos >= n:
                    raise Bad("compressed data end in a length at %d" % pos)
                length = data[pos]
                pos += 1
                if length == 255:
                    if pos + 2 > n:
                        raise Bad("compressed data end in a length at %d" % pos)
                    length = U16.unpack_from(data, pos)[0]
                    pos += 2
                    if length == 0:
                        if pos + 4 > n:
                            raise Bad("compressed data end in a length at %d" % pos)
                        length = U32.unpack_from(data, pos)[0]
                        pos += 4
                    if length < 22:
                        raise Bad("long length %d below 22 at %d" % (length, at))
                    length -= 22
                length += 15
            length += 7
        length += 3
        if distance > len(out):
            raise Bad("match at %d reaches %d bytes before the start"
                      % (at, distance - len(out)))
        if len(out) + length > size:
            raise Bad("match at %d of %d bytes goes beyond the end" % (at, length))
        start = len(out) - distance
        if distance >= length:
            out += out[start:start + length]
        else:
            piece = bytes(out[start:])
            out += (piece * (length // distance + 1))[:length]
    if count and flags & ((1 << count) - 1) != (1 << count) - 1:
        raise Bad("the %d unused flags of the last group are not all ones" % count)
    if count == 0 and size:
        if data[pos:pos + 4] != b"\xff\xff\xff\xff":
            raise Bad("no group of ones follows the last full group at %d" % pos)
        pos += 4
    if pos != n:
        raise Bad("%d bytes follow the compressed data" % (n - pos))
    return bytes(out)


class Buffer:
    def __init__(self, data, offset):
        (self.size, self.saved, self.current, self.references, self.time, self.sequence,
         self.clock, self.processor, self.logger, self.state, self.end, self.flags, self.type,
         self.ref1, self.ref2) = BUFFER_HEADER.unpack_from(data, offset)
        self.offset = offset
        self.cpu = self.processor & 0x7FF if self.flags & FLAG_CPU_INDEX else self.processor & 0xFF
        self.data = b""
        self.data_end = 0
        self.first_time = self.last_time = None


class Record:
    __slots__ = ("offset", "type", "size", "time", "pid", "tid", "cpu", "hook", "guid", "opcode",
                 "id", "version", "ptr_size", "payload", "where")


class Checker:
    def __init__(self, data, name, strict):
        self.data, self.name, self.strict = data, name, strict
        self.problems = []
        self.buffers = []
        self.counts = collections.Counter()
        self.header = None
        # For rules that span records.
        self.images = set()
        self.image_ids = []
        self.trigger_times = set()
        self.references = []
        self.key_defs = collections.defaultdict(list)
        self.key_uses = []
        self.record_total = 0

    def problem(self, offset, text, *args):
        self.problems.append((offset, text % args if args else text))

    # ---------------------------------------------------------------- buffers

    def run(self):
        self.index_buffers()
        if not self.buffers:
            return
        for buffer in self.buffers:
            if self.get_data(buffer):
                self.walk(buffer)
        if self.header:
            self.check_header_against_buffers()
        self.check_order()
        self.check_links()

    def index_buffers(self):
        offset, total = 0, len(self.data)
        if total < 104:
            self.problem(0, "%d bytes are no ETL file", total)
            return
        while offset < total:
            if total - offset < 72:
                self.problem(offset, "%d bytes are left, too few for a buffer", total - offset)
                return
            buffer = Buffer(self.data, offset)
            if buffer.size < 72 or buffer.size > total - offset:
                self.problem(offset, "buffer size %d, but %d bytes are left", buffer.size,
                             total - offset)
                return
            self.buffers.append(buffer)
            self.check_buffer_header(buffer)
            offset += buffer.size

    def check_buffer_header(self, b):
        first = len(self.buffers) == 1
        if (b.type == 4) != first:
            self.problem(b.offset + 0x36, "buffer type %d in %s buffer", b.type,
                         "the first" if first else "a later")
        if b.type not in (0, 1, 2, 3, 4, 5, 6, 7):
            self.problem(b.offset + 0x36, "unknown buffer type %d", b.type)
        if b.flags & ~FLAGS_KNOWN:
            self.problem(b.offset + 0x34, "unknown flags 0x%04x", b.flags)
        if not b.flags & FLAG_CPU_INDEX and b.processor >> 8 not in (0, 8):
            self.problem(b.offset + 0x29, "alignment %d beside the processor", b.processor >> 8)
        if b.state & 0xFFFF != 3 and not (first and b.state == 0):
            self.problem(b.offset + 0x2C, "state 0x%x of a buffer that was written", b.state)
        if first:
            if b.flags & FLAG_COMPRESSED:
                self.problem(b.offset + 0x34, "the header buffer is marked as compressed")
            if b.sequence != 0:
                self.problem(b.offset + 0x18, "sequence number %d of the header buffer", b.sequence)
            if b.saved != 0 and b.saved > b.end and not b.end == 0:
                self.problem(b.offset + 4, "SavedOffset %d beyond Offset %d", b.saved, b.end)
        else:
            if b.sequence == 0:
                self.problem(b.offset + 0x18, "sequence number 0 of a data buffer")
            if b.saved != b.end:
                self.problem(b.offset + 0x30, "Offset %d differs from SavedOffset %d", b.end,
                             b.saved)
        if b.references != 0:
            self.problem(b.offset + 0x0C, "reference count %d", b.references)
        if self.strict:
            if b.clock or b.ref1 or b.ref2:
                self.problem(b.offset + 0x20, "reserved fields are not zero")
            if not first and b.current != b.end:
                self.problem(b.offset + 8, "CurrentOffset %d differs from Offset %d", b.current,
                             b.end)
            if not first and b.sequence != len(self.buffers) - 1:
                self.problem(b.offset + 0x18, "sequence number %d of buffer %d", b.sequence,
                             len(self.buffers) - 1)

    def get_data(self, b):
        """The bytes of a buffer as the logger had them, header included."""
        raw = self.data[b.offset:b.offset + b.size]
        b.data_end = max(b.saved, b.end) if b.type == 4 else b.saved
        if b.data_end < 72:
            self.problem(b.offset + 4, "records end at %d, inside the buffer header", b.data_end)
            return False
        if b.flags & FLAG_COMPRESSED and b.type != 4:
            try:
                b.data = raw[:72] + xpress_expand(raw[72:], b.data_end - 72)
            except Bad as e:
                self.problem(b.offset + 72, "%s", e)
                return False
            return True
        if b.data_end > b.size:
            self.problem(b.offset + 4, "records end at %d in a buffer of %d bytes", b.data_end,
                         b.size)
            return False
        b.data = raw
        fill = raw[b.data_end:]
        if b.type != 4 and fill.strip(b"\xff"):
            self.problem(b.offset + b.data_end, "the rest of the buffer is not all 0xFF")
        return True

    # ---------------------------------------------------------------- records

    def walk(self, b):
        pos, previous = 72, None
        while pos < b.data_end:
            r = self.read_record(b, pos)
            if r is None:
                return
            self.record_total += 1
            if r.time is not None:
                if previous is not None and r.time < previous:
                    self.problem(b.offset, "record at %d: time %d steps back from %d", pos, r.time,
                                 previous)
                previous = r.time
                if b.first_time is None:
                    b.first_time = r.time
                b.last_time = r.time
                if self.header and r.time < self.header["t0"]:
                    self.problem(b.offset, "record at %d: time %d before the header event's %d",
                                 pos, r.time, self.header["t0"])
            self.count(r)
            self.check_payload(b, r)
            stride = (r.size + 7) & ~7
            if self.strict and b.data[pos + r.size:pos + stride].strip(b"\0"):
                self.problem(b.offset, "record at %d: padding is not zero", pos)
            pos += stride
        if pos != b.data_end and pos - b.data_end > 7:
            self.problem(b.offset, "records end at %d, not at %d", pos, b.data_end)

    def read_record(self, b, pos):
        data = b.data
        if b.data_end - pos < 8:
            self.problem(b.offset, "%d bytes at %d are too few for a record", b.data_end - pos, pos)
            return None
        kind, top = data[pos + 2], data[pos + 3]
        r = Record()
        r.offset, r.type, r.cpu = pos, kind, b.cpu
        r.time = r.pid = r.tid = r.hook = r.guid = r.id = r.version = r.opcode = None
        r.payload = b""
        r.ptr_size = PTR_SIZES.get(kind, 8)
        if top & 0x90 == 0x90 and not top & 0x40:
            r.type, r.size = 15, U16.unpack_from(data, pos)[0]
            if r.size < 8 or pos + r.size > b.data_end:
                self.problem(b.offset, "record at %d: size %d of a message", pos, r.size)
                return None
            return r
        if top != 0xC0 or kind not in HEADER_SIZES:
            self.problem(b.offset, "record at %d: marker 0x%08x", pos,
                         U32.unpack_from(data, pos)[0])
            return None
        hook_form = kind in SYSTEM or kind in COMPACT or kind in PERFINFO
        r.size = U16.unpack_from(data, pos + (4 if hook_form else 0))[0]
        if r.size < HEADER_SIZES[kind] or pos + r.size > b.data_end:
            self.problem(b.offset, "record at %d: size %d, type %d, %d bytes left", pos, r.size,
                         kind, b.data_end - pos)
            return None
        head = HEADER_SIZES[kind]
        if hook_form:
            head = self.read_hook_header(b, r, data, pos, head)
        elif kind != 13:
            head = self.read_guid_header(b, r, data, pos, head)
        r.payload = data[pos + head:pos + r.size]
        return r

    def read_hook_header(self, b, r, data, pos, head):
        version, _, _, _, r.hook = struct.unpack_from("<HBBHH", data, pos)
        r.version = version
        if r.type in PERFINFO:
            r.version = version & 0xFF
            r.time = U64.unpack_from(data, pos + 8)[0]
            if version & 0x7800:
                self.problem(b.offset, "record at %d: version word 0x%04x", pos, version)
            head += 8 * ((version >> 15) + (version >> 8 & 7))
            if head > r.size:
                self.problem(b.offset, "record at %d: counter values beyond its size %d", pos,
                             r.size)
                head = r.size
        else:
            r.tid, r.pid, r.time = struct.unpack_from("<IIQ", data, pos + 8)
        return head

    def read_guid_header(self, b, r, data, pos, head):
        r.tid, r.pid, r.time = struct.unpack_from("<IIQ", data, pos + 8)
        r.guid = str(uuid.UUID(bytes_le=data[pos + 0x18:pos + 0x28]))
        if r.type not in EVENT:
            r.opcode, _, r.version = struct.unpack_from("<BBH", data, pos + 4)
            return head
        flags, = U16.unpack_from(data, pos + 4)
        r.id, r.version, _, _, r.opcode = struct.unpack_from("<HBBBB", data, pos + 0x28)
        more = flags & 1
        while more:
            if head + 8 > r.size:
                self.problem(b.offset, "record at %d: extended items beyond its size", pos)
                return r.size
            total, kind, more, size = struct.unpack_from("<HHHH", data, pos + head)
            more &= 1
            if total % 8 or size + 8 > total or head + total > r.size or not 1 <= kind <= 20:
                self.problem(b.offset, "record at %d: extended item of type %d, %d bytes of %d",
                             pos, kind, size, total)
                return r.size
            head += total
        return head

    def count(self, r):
        name = TYPE_NAMES[r.type]
        if r.hook is not None:
            key = (name, "0x%04X" % r.hook, "", "", str(r.version))
        elif r.guid is None:
            key = (name, "", "", "", "")
        else:
            key = (name, r.guid, str(r.opcode), "" if r.id is None else str(r.id), str(r.version))
        self.counts[key] += 1

    # ---------------------------------------------------------------- payloads

    def check_payload(self, b, r):
        hook = r.hook
        if hook is None and r.type not in EVENT and r.guid in GROUPS:
            hook = GROUPS[r.guid] << 8 | r.opcode
        first = self.record_total == 1
        if first != (hook == 0 and b.type == 4):
            self.problem(b.offset, "record at %d: %s", r.offset, "the first record is no header "
                         "event" if first else "another header event")
        r.where = b.offset
        try:
            self.read_payload(hook, r, r.ptr_size)
        except Bad as e:
            if r.type in FULL:
                # A program that writes classic events with its own types may lay out the payload
                # for the other pointer size.
                try:
                    self.read_payload(hook, r, 12 - r.ptr_size)
                    return
                except Bad:
                    pass
            what = "hook 0x%04x" % hook if hook is not None else "%s %d" % (r.guid, r.opcode)
            self.problem(b.offset, "record at %d: payload of %s version %d: %s", r.offset, what,
                         r.version, e)

    def read_payload(self, hook, r, ptr_size):
        c = Cursor(r.payload, ptr_size)
        if hook is not None:
            exact = self.hook_payload(hook, r, c)
        elif r.guid == IMAGE_ID and r.type in FULL:
            exact = self.image_id_payload(r, c)
        elif r.guid == SYSTEM_CONFIG_EX and r.opcode == 0x23:
            c.utf16()
            c.utf16()
            exact = True
        else:
            exact = False
        if exact and c.left():
            raise Bad("%d bytes are left" % c.left())

    def hook_payload(self, hook, r, c):
        """True when the payload must end where the cursor stands."""
        group, op = hook >> 8, hook & 0xFF
        if hook == 0 and self.header is None:
            self.header_event(r, c)
            return True
        if hook in (0x0005, 0x0020):
            c.take(36)
            return True
        if hook in (0x0301, 0x0302, 0x0303, 0x0304, 0x0327):
            return self.process(r, c)
        if group == 5 and op in (1, 2, 3, 4):
            return self.thread(r, c)
        if hook == 0x0548:
            c.take(8)
            c.utf16()
            return True
        if hook == 0x0524:
            c.take(24)
            return True
        if hook == 0x030A or group == 0x14 and op in (2, 3, 4, 10):
            return self.image(r, c)
        if hook in (0x0F2E, 0x0F2F):
            c.ptr()
            c.take(8)
            self.trigger_times.add(r.time)
            return r.version == 2
        if hook == 0x0F37:
            for _ in range(c.u32()):
                c.take(c.ptr_size + 8)
            return True
        if hook in (0x0F48, 0x0F49, 0x0F4A):
            c.take(12)
            if r.version >= 3:
                c.utf16()
            return True
        if hook == 0x0F30:
            for _ in range(c.u32()):
                c.utf16()
            return True
        if hook == 0x0C20:
            return self.lbr(r, c)
        if group == 0x18:
            return self.stack(op, r, c)
        self.trigger_times.add(r.time)
        return False

    def header_event(self, r, c):
        h = {"t0": r.time}
        if r.hook != 0 or r.type not in SYSTEM or r.version != 2:
            raise Bad("the header event is a SYSTEM record of version 2")
        (h["buffer_size"], _, _, h["layout"], h["sublayout"], h["build"], h["cpus"], h["end"],
         h["resolution"], h["max_size"], h["mode"], h["written"], h["start_buffers"], h["ptr"],
         h["events_lost"], h["mhz"]) = struct.unpack("<IBBBBIIQIIIIIIII", c.take(56))
        c.ptr()
        c.ptr()
        h["bias"] = struct.unpack("<i", c.take(4))[0]
        c.take(168 + 4)  # aligned to 8 with either pointer size
        h["boot"], h["freq"], h["start"] = c.u64(), c.u64(), c.u64()
        h["clock"], h["buffers_lost"] = c.u32(), c.u32()
        c.utf16()
        c.utf16()
        self.header = h
        if h["ptr"] != c.ptr_size:
            raise Bad("PointerSize %d in a record of type %d" % (h["ptr"], r.type))
        if h["start_buffers"] != 1:
            raise Bad("StartBuffers %d" % h["start_buffers"])
        if h["clock"] > 3:
            raise Bad("clock type %d" % h["clock"])
        if h["clock"] != 2 and h["freq"] == 0 or h["mhz"] == 0 or h["resolution"] == 0:
            raise Bad("frequency %d, %d MHz, timer resolution %d"
                      % (h["freq"], h["mhz"], h["resolution"]))
        if (h["layout"], h["sublayout"]) not in ((1, 4), (1, 5), (2, 0)):
            raise Bad("log layout %d.%d" % (h["layout"], h["sublayout"]))
        if h["cpus"] == 0 or h["buffer_size"] == 0 or h["buffer_size"] % 512:
            raise Bad("%d processors, buffer size %d" % (h["cpus"], h["buffer_size"]))
        if not -24 * 60 < h["bias"] < 24 * 60 and h["bias"] != 480:
            raise Bad("UTC bias of %d minutes" % h["bias"])
        if h["start"] == 0 or h["boot"] > h["start"]:
            raise Bad("boot time %d, start time %d" % (h["boot"], h["start"]))
        if h["end"] and h["end"] < h["start"]:
            raise Bad("end time %d before the start time %d" % (h["end"], h["start"]))

    def process(self, r, c):
        """The SID is the only field whose form has to be guessed where its first word is 0."""
        if r.version > 5:
            return False
        start = c.pos
        try:
            self.process_with(r, c, False)
        except Bad:
            c.pos = start
            self.process_with(r, c, True)
        return True

    def process_with(self, r, c, sid_always):
        p = c.ptr_size
        c.take({0: 2 * p, 1: p + 16, 2: p + 16}.get(r.version, p + 16 + p))
        if r.version >= 4:
            c.take(4)
        at = c.pos
        if c.u32() != 0 or sid_always:
            c.pos = at
            c.take(2 * p)
            revision, count = c.u8(), c.u8()
            if revision != 1 or count > 15:
                raise Bad("SID of revision %d with %d parts" % (revision, count))
            c.take(6 + 4 * count)
        if not c.ansi() and not sid_always:
            raise Bad("process without a name")
        for _ in range(0 if r.version < 2 else 1 if r.version < 4 else 3):
            c.utf16()
        if r.version >= 5:
            c.u64()
        if c.left():
            raise Bad("%d bytes are left" % c.left())

    def thread(self, r, c):
        p = c.ptr_size
        c.take(8)
        if r.version == 0:
            return True
        c.take(6 * p)
        if r.version == 1:
            c.u8()
            return True
        c.take(p + 4)
        if r.version >= 3:
            c.take(4)
            if c.left() or r.version >= 4:
                c.utf16()
        return r.version <= 4

    def image(self, r, c):
        base, _ = c.ptr(), c.ptr()
        pid = c.u32() if r.version >= 1 else r.pid
        if r.version >= 2:
            c.take(4 + 4)
            c.u8(), c.u8()
            if c.u16() != 0:
                raise Bad("the word behind the signature is not zero")
            c.ptr()
            c.take(16)
        if not c.utf16():
            raise Bad("image without a name")
        self.images.add((r.time, base, pid))
        return r.version <= 3

    def image_id_payload(self, r, c):
        op = r.opcode
        if op not in (0, 0x20, 0x24, 0x25, 0x26, 0x28, 0x40):
            return False
        if op == 0x40:
            c.take(8)
            for _ in range(10):
                c.utf16()
            return True
        base = c.ptr()
        if op == 0:
            c.ptr()
        pid = c.u32()
        if pid != r.pid:
            raise Bad("process %d, but %d in the record's header" % (pid, r.pid))
        if op == 0:
            c.u32()
            c.utf16()
        elif op in (0x24, 0x25):
            c.take(20)
            c.ansi()
        elif op == 0x26:
            c.take(8)
        self.image_ids.append((r.where, r.offset, r.time, base, pid))
        return True

    def lbr(self, r, c):
        time = c.u64()
        c.take(8)
        options = c.u32()
        entry = 24 if c.ptr_size == 8 else 12
        if c.ptr_size == 8 and c.u32() != 0 and self.strict:
            raise Bad("the word before the branches is not zero")
        if options & ~0x7FF:
            raise Bad("options 0x%x" % options)
        if c.left() % entry:
            raise Bad("%d bytes of branches are no multiple of %d" % (c.left(), entry))
        if time > r.time:
            raise Bad("trigger at %d after its own time %d" % (time, r.time))
        c.take(c.left())
        self.references.append((r.where, r.offset, time, "branch"))
        return True

    def stack(self, op, r, c):
        p = c.ptr_size
        if op in (0x20, 0x25, 0x26):
            time = c.u64()
            c.take(8)
            if time > r.time:
                raise Bad("walk at %d after its own time %d" % (time, r.time))
            if op == 0x20:
                if c.left() == 0 or c.left() % p:
                    raise Bad("%d bytes of frames" % c.left())
                c.take(c.left())
            else:
                self.key_uses.append((r.where, r.offset, r.time, c.ptr()))
            return True
        if op in (0x22, 0x23, 0x24):
            self.key_defs[c.ptr()].append(r.time)
            if c.left() == 0 or c.left() % p:
                raise Bad("%d bytes of frames" % c.left())
            c.take(c.left())
            return True
        return False

    # ---------------------------------------------------------------- rules over the whole file

    def check_header_against_buffers(self):
        h, data = self.header, self.buffers[1:]
        if h["end"] and h["written"] != len(self.buffers):
            self.problem(72 + 32 + 0x24, "BuffersWritten is %d, the file has %d", h["written"],
                         len(self.buffers))
        compressed = bool(h["mode"] & MODE_COMPRESSED)
        if compressed != (h["layout"] == 2):
            self.problem(72 + 32 + 6, "log layout %d.%d with log file mode 0x%08x", h["layout"],
                         h["sublayout"], h["mode"])
        first = self.buffers[0]
        if compressed and (first.size % 512 or first.state & 0xFFFF != 3):
            self.problem(0, "header buffer of %d bytes with state %d in a compressed file",
                         first.size, first.state)
        if not compressed and first.size != h["buffer_size"]:
            self.problem(0, "header buffer of %d bytes, buffer size %d", first.size,
                         h["buffer_size"])
        for b in data:
            if b.flags & FLAG_COMPRESSED and not compressed:
                self.problem(b.offset + 0x34, "compressed buffer, log file mode 0x%08x", h["mode"])
            if not b.flags & FLAG_COMPRESSED and b.size != h["buffer_size"]:
                self.problem(b.offset, "buffer of %d bytes, buffer size %d", b.size,
                             h["buffer_size"])
            if b.size > h["buffer_size"] or b.data_end > h["buffer_size"]:
                self.problem(b.offset, "buffer of %d bytes with records up to %d, buffer size %d",
                             b.size, b.data_end, h["buffer_size"])
            if b.cpu >= h["cpus"]:
                self.problem(b.offset + 0x28, "processor %d of %d", b.cpu, h["cpus"])
            self.check_flush_time(b)
        if h["end"] and data and not data[-1].flags & FLAG_FLUSH:
            self.problem(data[-1].offset + 0x34, "the last buffer has no flush marker")
        for b in data[:-1]:
            if b.flags & FLAG_FLUSH:
                self.problem(b.offset + 0x34, "flush marker before the last buffer")
        if not first.flags & FLAG_FLUSH:
            self.problem(0x34, "the header buffer has no flush marker")
        if self.strict:
            self.check_strict_header(first)

    def check_flush_time(self, b):
        h = self.header
        if b.last_time is None:
            return
        least = b.last_time
        if h["mode"] & MODE_RELOG:
            # The relogger stamps with the wall clock of the relogging: later than the trace.
            if b.time < h["start"]:
                self.problem(b.offset + 0x10, "flush at %d, the trace began at %d", b.time,
                             h["start"])
            if not self.strict:
                return
            freq = {2: 10000000, 3: h["mhz"] * 1000000}.get(h["clock"], h["freq"])
            least = h["start"] + (b.last_time - h["t0"]) * 10000000 // freq
        if b.time < least:
            self.problem(b.offset + 0x10, "flush at %d before the last event at %d", b.time, least)

    def check_strict_header(self, first):
        if first.saved not in (0, first.end) or first.end % 8:
            self.problem(4, "SavedOffset %d and Offset %d of the header buffer", first.saved,
                         first.end)
        if self.data[first.end:first.size].strip(b"\xff"):
            self.problem(first.end, "the rest of the header buffer is not all 0xFF")
        if self.header["max_size"] != 0:
            self.problem(72 + 32 + 0x1C, "MaximumFileSize %d", self.header["max_size"])
        if first.time != 0:
            self.problem(0x10, "the header buffer's flush time is %d", first.time)

    def check_order(self):
        streams = collections.defaultdict(list)
        seen = {}
        for b in self.buffers[1:]:
            if b.sequence in seen:
                self.problem(b.offset + 0x18, "sequence number %d also at offset 0x%x", b.sequence,
                             seen[b.sequence])
            seen[b.sequence] = b.offset
            streams[b.cpu].append(b)
        mode = self.header["mode"] if self.header else 0
        if mode & (MODE_CIRCULAR | MODE_NO_PER_CPU):
            return
        for buffers in streams.values():
            for a, b in zip(buffers, buffers[1:]):
                if b.sequence < a.sequence:
                    self.problem(b.offset + 0x18, "sequence number %d after %d of processor %d",
                                 b.sequence, a.sequence, b.cpu)
                if None not in (a.last_time, b.first_time) and b.first_time < a.last_time:
                    self.problem(b.offset, "processor %d steps back from %d to %d", b.cpu,
                                 a.last_time, b.first_time)

    def check_links(self):
        """Identities belong to an image event, stacks and branches to an event, keys to stacks."""
        if self.images:
            for where, offset, _, base, pid in (i for i in self.image_ids
                                                if i[2:] not in self.images):
                self.problem(where, "record at %d: identity of 0x%x in process %d without an "
                             "image event of that time", offset, base, pid)
        if self.strict:
            for where, offset, time, what in self.references:
                if time not in self.trigger_times:
                    self.problem(where, "record at %d: %s record of an event at %d, which is not "
                                 "there", offset, what, time)
        if self.header and self.header["end"]:
            last = {key: max(times) for key, times in self.key_defs.items()}
            for where, offset, time, key in self.key_uses:
                if last.get(key, -1) < time:
                    self.problem(where, "record at %d: stack key 0x%x is never defined after its "
                                 "use", offset, key)


def print_counts(checker, name):
    for key, n in sorted(checker.counts.items()):
        print("\t".join((name, str(len(checker.buffers)), str(n)) + key))


def main():
    parser = argparse.ArgumentParser(description="Checks the rules of ETL files.")
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--strict", action="store_true", help="also what only our writer keeps")
    parser.add_argument("--counts", action="store_true", help="print the number of each record")
    parser.add_argument("--quiet", action="store_true", help="no summary line for a good file")
    args = parser.parse_args()
    failed = False
    if args.counts:
        print("# file\tbuffers\trecords\theader_type\thook_or_guid\topcode\tid\tversion")
    for path in args.files:
        try:
            with open(path, "rb") as f:
                data = f.read()
        except OSError as e:
            print("etl_check: %s: %s" % (path, e.strerror), file=sys.stderr)
            return 2
        checker = Checker(data, path, args.strict)
        checker.run()
        if args.counts:
            print_counts(checker, os.path.basename(path))
        for offset, text in checker.problems[:50]:
            print("etl_check: %s: offset 0x%x: %s" % (path, offset, text), file=sys.stderr)
        if len(checker.problems) > 50:
            print("etl_check: %s: %d more problems" % (path, len(checker.problems) - 50),
                  file=sys.stderr)
        failed |= bool(checker.problems)
        if not checker.problems and not args.counts and not args.quiet:
            print("%s: %d buffers, %d records, no problem" % (path, len(checker.buffers),
                                                             checker.record_total))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
