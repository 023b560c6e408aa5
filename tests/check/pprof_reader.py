"""Reads pprof's profile.proto with nothing but the rules of the wire format."""

import gzip

FIELDS = {
    "profile": {1: ("sample_type", "value_type"), 2: ("sample", "sample"),
                3: ("mapping", "mapping"), 4: ("location", "location"),
                5: ("function", "function"), 6: ("string_table", str)},
    "value_type": {1: ("type", int), 2: ("unit", int)},
    "sample": {1: ("location_id", int), 2: ("value", int)},
    "mapping": {1: ("id", int), 2: ("start", int), 3: ("limit", int), 4: ("offset", int),
                5: ("filename", int), 6: ("build_id", int), 7: ("has_functions", int),
                8: ("has_filenames", int), 9: ("has_lines", int), 10: ("has_inlines", int)},
    "location": {1: ("id", int), 2: ("mapping_id", int), 3: ("address", int), 4: ("line", "line")},
    "line": {1: ("function_id", int), 2: ("line", int)},
    "function": {1: ("id", int), 2: ("name", int), 3: ("system_name", int), 4: ("filename", int),
                 5: ("start_line", int)},
}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            assert value < 1 << 64
            return value, at


def message(data, kind):
    """Each field as a list of its values, in order."""
    found = {name: [] for name, _ in FIELDS[kind].values()}
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        name, inner = FIELDS[kind][key >> 3]
        if key & 7 == 0:
            assert inner is int, f"{kind}.{name} is a number"
            value, at = varint(data, at)
            found[name].append(value)
            continue
        assert key & 7 == 2, f"{kind}.{name}: wire type {key & 7}"
        size, at = varint(data, at)
        part, at = data[at:at + size], at + size
        assert len(part) == size
        if inner is int:  # packed
            place = 0
            while place < size:
                value, place = varint(part, place)
                found[name].append(value)
        else:
            found[name].append(part.decode() if inner is str else message(part, inner))
    return found


def read(path):
    data = path.read_bytes()
    return message(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data, "profile")


def one(found, name):
    values = found[name]
    assert len(values) <= 1, f"{name} stands more than once"
    return values[0] if values else 0
