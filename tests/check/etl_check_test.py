#!/usr/bin/env python3
"""Runs the checker over everything that make_etl can write, and makes sure that it can fail.

    etl_check_test.py MAKE_ETL
"""

import os
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import etl_check  # noqa: E402

# Another order of buffers or a gap is what these scenarios are about.
NOT_STRICT = ("lost", "shuffled", "circular")
COMBINED = ("lbr:1000,compressed,two-processes", "stacks:1000,32bit,small-buffers,cpus:4",
            "mixed,kernel,merged,pid-reuse", "lbr,32bit,compressed,no-rsds",
            "mixed,win7,small-buffers,shuffled", "timer,unclosed,small-buffers",
            "mixed:500,small-buffers,circular,cpus:3", "mixed,small-buffers,lost,cpus:3")


def make(make_etl, scenario, path):
    text = subprocess.run([make_etl, scenario, path], check=True, capture_output=True,
                          text=True).stdout
    facts = dict(line.split(" ", 1) for line in text.splitlines() if not line.startswith("image"))
    with open(path, "rb") as f:
        return f.read(), {k: int(v) for k, v in facts.items()}


def problems_of(data, strict=True):
    checker = etl_check.Checker(data, "", strict)
    checker.run()
    return checker


def count(checker, *hooks):
    return sum(n for key, n in checker.counts.items() if key[1] in hooks)


def check_scenario(make_etl, scenario, path):
    data, facts = make(make_etl, scenario, path)
    again, _ = make(make_etl, scenario, path)
    bad = []
    if data != again:
        bad.append("two runs differ")
    strict = not any(part in NOT_STRICT for part in scenario.split(","))
    checker = problems_of(data, strict)
    bad += ["offset 0x%x: %s" % p for p in checker.problems]
    for name, hooks in (("pmc_samples", ["0x0F2F"]), ("timer_samples", ["0x0F2E"]),
                        ("lbr_records", ["0x0C20"]), ("plain_stacks", ["0x1820"]),
                        ("key_stacks", ["0x1825", "0x1826"])):
        if count(checker, *hooks) != facts[name]:
            bad.append("%d %s, %d were written" % (count(checker, *hooks), name, facts[name]))
    if checker.record_total != facts["records"] + 1:
        bad.append("%d records, %d were written" % (checker.record_total, facts["records"] + 1))
    return bad


def mutations(data):
    """Ways to break a file, each of which breaks one rule."""
    size = struct.unpack_from("<I", data)[0]
    time_at = size + 72 + (8 if data[size + 72 + 2] in etl_check.PERFINFO else 16)

    def u16(at, change):
        value = struct.unpack_from("<H", data, at)[0]
        return data[:at] + struct.pack("<H", change(value) & 0xFFFF) + data[at + 2:]

    def u32(at, value):
        return data[:at] + struct.pack("<I", value) + data[at + 4:]

    def u64(at, value):
        return data[:at] + struct.pack("<Q", value) + data[at + 8:]

    yield "cut file", data[:-1]
    yield "buffer size", u32(0, size + 512)
    yield "header buffer type", u16(0x36, lambda v: 0)
    yield "buffer type", u16(size + 0x36, lambda v: 4)
    yield "SavedOffset", u32(size + 4, 80)
    yield "Offset", u32(size + 0x30, 80)
    yield "flags", u16(size + 0x34, lambda v: v | 0x80)
    yield "state", u32(size + 0x2C, 1)
    yield "flush time", u64(size + 0x10, 5)
    yield "sequence", u64(size + 0x18, 0)
    yield "processor", u16(size + 0x28, lambda v: 77)
    yield "fill", data[:-1] + b"\0"
    yield "last flush marker", u16(len(data) - size + 0x34, lambda v: v & ~1)
    yield "BuffersWritten", u32(72 + 32 + 0x24, 1)
    yield "PointerSize", u32(72 + 32 + 0x2C, 4)
    yield "clock type", u32(72 + 32 + 0x118 - 8, 9)
    yield "processors", u32(72 + 32 + 0x0C, 0)
    yield "end time", u64(72 + 32 + 0x10, 3)
    yield "log file mode", u32(72 + 32 + 0x20, 0x04000001)
    yield "header version", u16(72, lambda v: 3)
    yield "record size", u16(size + 72 + 4, lambda v: v + 1)
    yield "record type", u16(size + 72 + 2, lambda v: v + 7)
    yield "record time", u64(time_at, 1)
    yield "later record time", u64(time_at, 1 << 50)


def check_mutations(make_etl, path):
    data, _ = make(make_etl, "mixed,two-processes", path)
    bad = []
    for what, broken in mutations(data):
        if broken == data:
            bad.append("the change of the %s changes nothing" % what)
        elif not problems_of(broken, False).problems:
            bad.append("a wrong %s goes unnoticed" % what)
    data, _ = make(make_etl, "lbr,compressed", path)
    for at in range(512 + 72, 512 + 72 + 400, 7):
        broken = bytearray(data)
        broken[at] ^= 0x5A
        reference, changed = problems_of(data, False), problems_of(bytes(broken), False)
        if not changed.problems and changed.buffers[1].data == reference.buffers[1].data:
            bad.append("a changed byte at 0x%x of a compressed buffer has no effect" % at)
    return bad


def check_real_files(folder):
    """Real files have no problem, and as many records of each kind as others have counted."""
    table = os.path.join(folder, "expected-counts.tsv")
    if not os.path.exists(table):
        print("skipped: no real files in %s" % folder)
        return []
    with open(table) as f:
        expected = {tuple(line.rstrip("\n").split("\t")) for line in f if not line.startswith("#")}
    found, bad = set(), []
    for name in sorted({row[0] for row in expected}):
        with open(os.path.join(folder, name), "rb") as f:
            checker = problems_of(f.read(), False)
        bad += ["%s: offset 0x%x: %s" % ((name,) + p) for p in checker.problems]
        found |= {(name, str(len(checker.buffers)), str(n)) + key
                  for key, n in checker.counts.items()}
    bad += ["counts differ: %s" % "\t".join(row) for row in sorted(expected ^ found)]
    return bad


def main():
    make_etl = sys.argv[1]
    listed = subprocess.run([make_etl, "--list"], check=True, capture_output=True, text=True).stdout
    scenarios = [line.split()[0] for line in listed.splitlines()]
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "scenario.etl")
        for scenario in scenarios + list(COMBINED):
            bad += ["%s: %s" % (scenario, b) for b in check_scenario(make_etl, scenario, path)]
        bad += check_mutations(make_etl, path)
    bad += check_real_files(os.path.join(os.environ.get("SPGO_TEST_DATA", ""), "etl"))
    for b in bad[:60]:
        print(b, file=sys.stderr)
    print("%d scenarios, %d problems" % (len(scenarios) + len(COMBINED), len(bad)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
