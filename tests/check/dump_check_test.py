#!/usr/bin/env python3
"""Checks spgo dump by what must agree: the text with the JSON, the events with their counts, the
selections with each other, and all of it with what the makers of test files say they wrote.

    dump_check_test.py SPGO MAKE_ETL MAKE_PERFDATA MAKE_SPT

The real files of SPGO_TEST_DATA are compared with their expected counts when they are there.
"""

import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

SPGO = MAKE_ETL = MAKE_PERFDATA = MAKE_SPT = ""

ETL_SCENARIOS = [
    "lbr:20,stacks:20,two-processes",
    "compressed,stacks:30",
    "merged,lbr:5",
    "32bit,stacks:10",
    "circular",
    "lost",
]
PERFDATA_SCENARIOS = ["lbr:4", "pipe,ip:9", "fork,ip:9", "lost", "big-endian,ip:9"]
SPT_SCRIPT = """program a.exe {47D6423E-9510-45DC-892B-2C46B4DD7A9C} 1
program b.dll
add 0 LBR 1000->2000 3000->4000 x5
add 1 ETW_INSTR 10 20
add 0 ETW_CALLSTACK 10 20 30
"""


def load(line):
    def unique(pairs):
        keys = [key for key, _ in pairs]
        assert len(keys) == len(set(keys)), f"a key stands twice: {line}"
        return dict(pairs)

    return json.loads(line, object_pairs_hook=unique)


class Dump(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def make(self, maker, scenario):
        path = self.path("made")
        run = subprocess.run([maker, scenario, path], check=True, capture_output=True, text=True)
        return path, run.stdout

    def make_spt(self):
        with open(self.path("script"), "w", encoding="utf-8") as script:
            script.write(SPT_SCRIPT)
        return self.make(MAKE_SPT, self.path("script"))[0]

    def dump(self, *args, expect=0):
        run = subprocess.run([SPGO, "dump", *args], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, expect, run.stderr)
        return run.stdout, run.stderr

    def text_events(self, *args, **more):
        text = self.dump(*args, **more)[0].partition("# event ")[2]
        return [l for l in text.splitlines() if l.startswith("event ")]

    def json_events(self, *args, **more):
        lines = [load(l) for l in self.dump("--json", *args, **more)[0].splitlines()]
        return [l for l in lines if l["type"] == "event"]

    def counts(self, *args, column, **more):
        lines = self.dump("--counts", *args, **more)[0].splitlines()
        self.assertTrue(lines[0].startswith("# "))
        return sum(int(l.split("\t")[column]) for l in lines[1:])

    def test_etl_views_agree(self):
        for scenario in ETL_SCENARIOS:
            with self.subTest(scenario):
                path, said = self.make(MAKE_ETL, scenario)
                written = 1 + int(re.search(r"^records (\d+)$", said, re.M)[1])  # the header event
                text = self.text_events(path)
                events = self.json_events(path)
                self.assertEqual(len(text), written)
                self.assertEqual(self.counts(path, column=5), written)
                self.assertEqual([l.split()[7] for l in text], [e["kind"] for e in events])
                self.assertEqual([l.split()[1] for l in text], [e["time"] for e in events])
                raw = [e["raw"] for e in events]
                self.assertEqual(raw, sorted(raw))
                in_file = self.json_events("--order", "file", path)
                places = [(e["buffer"], e["offset"]) for e in in_file]
                self.assertEqual(places, sorted(places))
                self.assertEqual(sorted(places), sorted((e["buffer"], e["offset"]) for e in events))

    def test_etl_kinds_partition_the_events(self):
        path, _ = self.make(MAKE_ETL, "mixed:5,two-processes")
        kinds = collections.Counter(e["kind"] for e in self.json_events(path))
        self.assertEqual(kinds["LastBranch/LBR"], 5)
        for kind, number in kinds.items():
            self.assertEqual(len(self.text_events("--events", kind.lower(), path)), number)
        self.assertEqual(len(self.text_events("--events", "0x0C20,Process/DC*", path)),
                         5 + sum(n for k, n in kinds.items() if k.startswith("Process/DC")))

    def test_etl_windows_partition_the_events(self):
        path, _ = self.make(MAKE_ETL, "stacks:50")
        events = self.json_events(path)
        middle = events[len(events) // 2]
        first = [e for e in events if e["raw"] < middle["raw"]]
        rest = [e for e in events if e["raw"] >= middle["raw"]]
        self.assertTrue(first and rest)
        self.assertEqual(self.json_events("--from", f"{middle['raw']}raw", path), rest)
        self.assertEqual(self.json_events("--to", f"{middle['raw'] - 1}raw", path), first)
        self.assertEqual(self.json_events("--from", middle["time"], path), rest)
        self.assertEqual(self.json_events("--from", "0", path), events)
        self.assertEqual(self.json_events("--from", "1000000", path), [])

    def test_etl_processes(self):
        path, _ = self.make(MAKE_ETL, "stacks:40,two-processes")
        every = self.json_events("--events", "PerfInfo/Sample", path)
        parts = [self.json_events("--events", "PerfInfo/Sample", "--process", p, path)
                 for p in ("APP0.exe", "app1*", "app?.exe")]
        self.assertTrue(parts[0] and parts[1])
        self.assertEqual(len(parts[0]) + len(parts[1]), len(parts[2]))
        self.assertEqual(parts[2], every)
        self.assertEqual(self.json_events("--process", "1000", path),
                         self.json_events("--process", "app0.exe", path))
        for event in self.json_events("--process", "1100", "--events", "Image/*", path):
            self.assertEqual(event["fields"]["pid"], 1100)

    def test_etl_damage_is_told_and_the_rest_shown(self):
        path, _ = self.make(MAKE_ETL, "stacks:2000")
        whole = self.json_events("--order", "file", path)
        with open(path, "r+b") as f:
            f.truncate(os.path.getsize(path) - 20000)
        events = self.json_events("--order", "file", path, expect=3)
        self.assertTrue(events)
        self.assertEqual(events, whole[: len(events)])
        self.assertIn("warning", self.dump(path, expect=3)[1])

    def test_etl_parts(self):
        path, _ = self.make(MAKE_ETL, "stacks:2000")
        out, _ = self.dump("--json", "--headers", "--buffers", path)
        lines = [load(l) for l in out.splitlines()]
        types = collections.Counter(l["type"] for l in lines)
        self.assertEqual(types["file"], 1)
        self.assertEqual(types["header"], 1)
        self.assertEqual(types["buffer"], lines[1]["fields"]["buffer_count"])
        self.assertEqual(types["event"], 0)

    def test_perfdata_views_agree(self):
        for scenario in PERFDATA_SCENARIOS:
            with self.subTest(scenario):
                path, _ = self.make(MAKE_PERFDATA, scenario)
                text = self.text_events(path)
                events = self.json_events(path)
                self.assertTrue(events)
                self.assertEqual([l.split()[3] for l in text], [e["kind"] for e in events])
                self.assertEqual(self.counts(path, column=1), len(events))
                samples = [e for e in events if e["kind"] == "SAMPLE"]
                self.assertEqual(self.json_events("--events", "sample", path), samples)
                self.assertEqual(self.json_events("--events", "9", path), samples)
                pids = {e["fields"]["pid"] for e in samples}
                of_pids = [
                    self.json_events("--events", "9", "--process", str(p), path) for p in pids
                ]
                self.assertEqual(sum(map(len, of_pids)), len(samples))

    def test_perfdata_has_no_dates(self):
        path, _ = self.make(MAKE_PERFDATA, "ip:3")
        self.dump("--from", "2024-01-01T00:00:00", path, expect=2)

    def test_spt_views_agree(self):
        path = self.make_spt()
        events = self.json_events(path)
        self.assertEqual(len(self.text_events(path)), len(events))
        self.assertEqual(self.counts(path, column=1), len(events))
        self.assertEqual(self.counts(path, column=2), 7)
        self.assertEqual([e["hits"] for e in self.json_events("--events", "lbr", path)], [5])
        self.assertEqual(self.json_events("--events", "0x10", path),
                         self.json_events("--events", "LBR", path))
        self.assertEqual({e["name"] for e in self.json_events("--process", "B.*", path)}, {"b.dll"})
        self.dump("--to", "1", path, expect=2)

    def test_several_files_and_unknown_ones(self):
        path = self.make_spt()
        out, err = self.dump(path, self.path("script"), path, expect=1)
        self.assertEqual(out.count("# file "), 2)
        self.assertIn("this is no ETL, perf.data, SPT, PE, ELF or PDB file", err)

    def test_elf(self):
        header, segments = (load(l) for l in self.dump("--json", SPGO)[0].splitlines()[1:])
        self.assertEqual(header["bits"], 64)
        rows = [l for l in self.dump(SPGO)[0].splitlines() if l.startswith("segment ")]
        self.assertEqual(len(rows), len(segments["segments"]))

    def test_usage(self):
        path = self.make_spt()
        for args in (["--order", "size"], ["--from", "soon"], ["--from", "2024-13-01T00:00:00Z"],
                     ["--to", "1.5s"], ["--headers", "--events", "LBR"]):
            with self.subTest(args):
                self.dump(*args, path, expect=2)

    def test_real_counts(self):
        folder = os.path.join(os.environ.get("SPGO_TEST_DATA", ""), "etl")
        table = os.path.join(folder, "expected-counts.tsv")
        if not os.path.exists(table):
            self.skipTest("no real data")
        expected = collections.defaultdict(list)
        with open(table, encoding="utf-8") as lines:
            for line in lines:
                if not line.startswith("#"):
                    name, _, records, *kind = line.rstrip("\n").split("\t")
                    expected[name].append("\t".join(kind + [records]))
        for name, kinds in expected.items():
            with self.subTest(name):
                lines = self.dump("--counts", os.path.join(folder, name))[0].splitlines()
                self.assertEqual(sorted(lines[1:]), sorted(kinds))

    def test_real_images(self):
        folder = os.path.join(os.environ.get("SPGO_TEST_DATA", ""), "pdb")
        if not os.path.isdir(folder):
            self.skipTest("no real data")
        damaged = {"sym_cfi_chained_loop.exe": 3, "sym_portable_ppdb.pdb": 1}
        names = [n for n in os.listdir(folder) if n.endswith((".exe", ".dll", ".pdb"))]
        for name in names:
            with self.subTest(name):
                out, _ = self.dump("--json", os.path.join(folder, name), expect=damaged.get(name, 0))
                lines = [load(l) for l in out.splitlines()]
                if damaged.get(name) != 1:
                    self.assertEqual([l["type"] for l in lines[:2]], ["file", "header"])


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    SPGO, MAKE_ETL, MAKE_PERFDATA, MAKE_SPT = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
