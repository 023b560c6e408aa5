#!/usr/bin/env python3
"""Records real programs with the stepping runtime: they must do what they do without it, and what
is recorded must fit their code.

    step_check_test.py LIBSPGO_STEP CHECK_STEPS CC CXX
"""

import collections
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

LIBRARY = CHECKER = CC = CXX = ""
SOURCES = pathlib.Path(__file__).resolve().parent / "step"
DENSE = "interval=1"  # a burst at every tick
HEADER = struct.Struct("<8s10I4Q2I15Q")
FIELDS = ("magic version header_bytes slot_bytes chunk_bytes branches_max filter pid parent_pid "
          "start_kind end_kind start_time_ns end_time_ns start_realtime_ns interval_ns "
          "overhead_ppm command_size slot_count record_count short_count branch_count step_count "
          "empty_count broken_count lost_count blocked_count stray_count image_lost_count "
          "thread_count timerless_count step_cpu_ns process_cpu_ns").split()
Checked = collections.namedtuple("Checked", "records branches ranges unknown to_next wrong kinds")


class Recording:
    """A program's output and files."""

    def __init__(self, command, options=DENSE, **how):
        self.folder = tempfile.mkdtemp(prefix="step-")
        self.environment = {**os.environ, "LD_PRELOAD": LIBRARY, "SPGO_STEP_DIR": self.folder,
                            "SPGO_STEP_OPTIONS": options}
        self.command, self.how = [str(word) for word in command], how

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def run(self):
        done = subprocess.run(self.command, env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=300, **self.how)
        self.output, self.status = done.stdout, done.returncode
        return self

    def files(self):
        return sorted(pathlib.Path(self.folder).glob("*.step"))

    def headers(self):
        found = []
        for path in self.files():
            content = path.read_bytes()
            header = dict(zip(FIELDS, HEADER.unpack_from(content)))
            header["command"] = content[512:512 + header["command_size"]].split(b"\0")
            found.append(header)
        return found

    def check(self, test):
        """Everything recorded fits the code; returns the counts."""
        done = subprocess.run([CHECKER, *self.files()], stdout=subprocess.PIPE, text=True)
        test.assertEqual(done.returncode, 0, done.stdout)
        counts, kinds = done.stdout.splitlines()[-2:]
        return Checked(*map(int, re.findall(r" (\d+)", counts)),
                       [int(n) for n in kinds.split()[1:]])


class Programs(unittest.TestCase):
    """What recording must not change."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="step-")
        cls.program = pathlib.Path(cls.folder.name) / "program"
        cls.exceptions = pathlib.Path(cls.folder.name) / "exceptions"
        subprocess.run([CC, "-O2", "-mno-red-zone", "-pthread", "-DSCALE=0.3", "-w",
                        SOURCES / "program.c", "-o", cls.program], check=True)
        subprocess.run([CXX, "-O2", SOURCES / "exceptions.cc", "-o", cls.exceptions], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def same(self, command, records_min=1, options=DENSE):
        """Runs with and without the library; the counts of what was recorded."""
        native = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, timeout=300)
        with Recording(command, options).run() as r:
            self.assertEqual((r.output, r.status), (native.stdout, native.returncode))
            headers = r.headers()
            checked = r.check(self)
            self.assertGreaterEqual(checked.records, records_min)
            self.assertEqual(sum(h["record_count"] for h in headers), checked.records)
            self.assertEqual(sum(h["branch_count"] for h in headers), checked.branches)
            self.assertEqual(sum(h["lost_count"] + h["timerless_count"] for h in headers), 0)
            return headers, checked

    def part(self, name, records_min=3):
        """How many bursts there are depends on how the kernel's ticks fall: on a busy machine few."""
        return self.same([self.program, name], records_min)

    def test_flags_are_not_seen(self):
        self.part("flags")

    def test_rep(self):
        self.part("rep")

    def test_branches_to_the_next_instruction(self):
        _, checked = self.part("branches")
        self.assertGreater(checked.to_next, checked.branches // 4)

    def test_own_signal_handlers(self):
        self.part("signals")

    def test_system_calls_are_not_interrupted(self):
        self.part("interrupted")

    def test_program_that_steps_itself(self):
        self.part("own-steps", 1)

    def test_longjmp(self):
        self.part("jumps")

    def test_system_calls_in_a_loop(self):
        self.part("syscalls")

    def test_coroutines(self):
        self.part("coroutines", 1)

    def test_sandbox(self):
        self.part("sandbox", 1)

    def test_a_thousand_short_threads(self):
        headers, _ = self.part("threads", 1)
        self.assertEqual(headers[0]["thread_count"], 1001)

    def test_processes(self):
        headers, _ = self.part("processes")
        self.assertGreater(len({h["pid"] for h in headers}), 10)
        started = [h for h in headers if h["command"][1:2] == [b"work"]]
        self.assertGreater(len(started), 9)  # half of them with an empty environment
        forked = [h for h in headers if h["start_kind"] == 1]
        self.assertTrue(forked)
        self.assertTrue(all(h["end_kind"] in (1, 2) for h in headers))

    def test_exceptions(self):
        self.same([self.exceptions], 3)

    def test_python(self):
        code = ("import json, re, threading\n"
                "def run():\n"
                "    for i in range(40):\n"
                "        json.loads(json.dumps([{str(k): k * 1.5} for k in range(1000)]))\n"
                "        re.findall('a+b', 'aab' * 2000)\n"
                "threads = [threading.Thread(target=run) for _ in range(3)]\n"
                "[t.start() for t in threads], [t.join() for t in threads]\n"
                "print('done')\n")
        self.same([sys.executable, "-c", code], 3)

    def test_perl(self):
        if not shutil.which("perl"):
            self.skipTest("no perl")
        code = "my %h; $h{$_ % 1000} .= sprintf('%x', $_) for 1..400000; print scalar keys %h"
        self.same(["perl", "-e", code], 3)

    def test_compiler(self):
        self.same([CC, "-O2", "-w", "-pthread", "-c", SOURCES / "program.c", "-o", "/dev/null"])

    def test_shell_pipeline(self):
        self.same(["sh", "-c", "seq 100000 | sort -n -r | tail -1 | cat"])


class Recordings(unittest.TestCase):
    """What is recorded."""

    setUpClass = Programs.__dict__["setUpClass"]
    tearDownClass = Programs.__dict__["tearDownClass"]

    def test_overhead_is_kept(self):
        with Recording([self.program, "work", "300000000"], "overhead=50000").run() as r:
            header, = r.headers()
            spent = header["step_cpu_ns"]
            share = spent / (header["process_cpu_ns"] - spent)
            self.assertLess(share, 0.07)
            self.assertGreater(share, 0.01)

    def test_interval_is_kept(self):
        with Recording([self.program, "work", "300000000"], "interval=20000000").run() as r:
            header, = r.headers()
            native_ns = header["process_cpu_ns"] - header["step_cpu_ns"]
            ratio = native_ns / 20e6 / header["record_count"]
            self.assertGreater(ratio, 0.7)
            self.assertLess(ratio, 3)

    def test_filter_leaves_kinds_out(self):
        with Recording([self.program, "jumps"], DENSE + ",filter=0x1dc").run() as r:
            checked = r.check(self)
            self.assertGreater(checked.kinds[3], 0)  # returns
            self.assertEqual(sum(checked.kinds), checked.kinds[3])

    def test_number_of_branches(self):
        for branches in (4, 100, 512):
            with Recording([self.program, "jumps"], f"{DENSE},branches={branches}").run() as r:
                header, = r.headers()
                self.assertEqual(header["branches_max"], branches)
                full = header["record_count"] - header["short_count"]
                self.assertGreater(full, 0)
                self.assertGreaterEqual(header["branch_count"], full * branches)
                r.check(self)

    def test_killed_at_any_moment(self):
        generator, records = random.Random(5), 0
        for _ in range(15):
            with Recording([self.program, "processes"], DENSE) as r:
                child = subprocess.Popen(r.command, env=r.environment, stdout=subprocess.DEVNULL,
                                         start_new_session=True)
                time.sleep(generator.uniform(0.01, 0.6))
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                time.sleep(0.02)
                records += r.check(self).records if r.files() else 0
        self.assertGreater(records, 20)

    def test_full_disk_stops_recording_only(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000))

        with Recording([self.program, "work", "500000000"], DENSE + ",branches=512",
                       preexec_fn=limit) as r:
            r.run()
            self.assertEqual((r.output, r.status), (b"", 0))
            header, = r.headers()
            self.assertGreater(header["lost_count"], 0)
            self.assertGreater(r.check(self).records, 0)

    def test_folder_that_is_not_there(self):
        with Recording([self.program, "jumps"]) as r:
            r.environment["SPGO_STEP_DIR"] = "/does/not/exist"
            r.run()
            self.assertEqual((r.output, r.status), (b"jumped 1\n", 0))

    def test_library_without_a_session(self):
        with Recording([self.program, "jumps"]) as r:
            del r.environment["SPGO_STEP_DIR"]
            r.run()
            self.assertEqual((r.output, r.status), (b"jumped 1\n", 0))


if __name__ == "__main__":
    LIBRARY, CHECKER, CC, CXX = (os.path.abspath(a) if os.sep in a else a for a in sys.argv[1:5])
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
