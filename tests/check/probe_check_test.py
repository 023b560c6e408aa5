#!/usr/bin/env python3
"""The probe runtime and its reports, held to what is known otherwise.

    probe_check_test.py SPGO PROBE_REPLAY RUNTIME.so RUNTIME.a

The rule against a second implementation (probe_rule.py) over random streams of probes; programs
whose calls and times are known, built by gcc and clang where these are; threads, forks, signals,
exceptions, longjmp, kill, a full disk, libraries that come and go.
"""
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import probe_rule

SPGO, REPLAY, RUNTIME, STATIC = (pathlib.Path(word).resolve() for word in sys.argv[1:5])
PROGRAMS = pathlib.Path(__file__).resolve().parent / "probe_programs"
INCLUDE = pathlib.Path(__file__).resolve().parent.parent.parent / "include"
C_COMPILERS = [c for c in ("gcc", "clang", "clang-14", "clang-19") if shutil.which(c)][:2]
CXX_COMPILERS = [c for c in ("g++", "clang++", "clang++-14", "clang++-19") if shutil.which(c)][:2]
RATE_MS = 1e-6  # ticks of the scripts are nanoseconds


def run(*command, check=True, **more):
    return subprocess.run([str(word) for word in command], check=check, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, **more)


class ProbeTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def build(self, compiler, source, *flags):
        program = self.path / f"{pathlib.Path(source).stem}_{compiler}"
        run(compiler, "-g", "-O1", "-finstrument-functions", f"-I{INCLUDE}", PROGRAMS / source,
            "-o", program, *flags)
        return program

    def record(self, program, *arguments, options=(), check=True, code=0):
        out = self.path / "out"
        result = run(SPGO, "probe", "record", "--force", f"--output={out}",
                     f"--runtime={RUNTIME}", *options, "--", program, *arguments, check=False)
        if check:
            self.assertEqual((result.returncode, result.stderr), (code, ""))
        return out

    def report(self, where, view="functions", *options):
        result = run(SPGO, "probe", "report", "--json", f"--view={view}", *options, where)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def functions(self, where, *options):
        return {row["function"]: row for row in self.report(where, "functions", *options)}

    def paths(self, where):
        """Calls by path, names joined by '>'."""
        calls, stack = {}, []
        for row in self.report(where, "tree", "--least=0", "--no-fold"):
            del stack[row["level"] - 1:]
            stack.append(row["function"])
            calls[">".join(stack)] = row["calls"]
        return calls


class Rule(ProbeTest):
    def replay(self, lines):
        where = self.path / "spp"
        where.mkdir(exist_ok=True)
        for old in where.iterdir():
            old.unlink()
        environment = dict(os.environ, SPGO_PROBE_OUTPUT=str(where / "replay"),
                           SPGO_PROBE="os-event=none")
        run(REPLAY, input="\n".join(lines) + "\n", env=environment)
        return where

    def compare(self, lines):
        want = probe_rule.play(lines)
        got = {int(row["address"], 16): row
               for row in self.report(self.replay(lines), "functions", "--no-names")
               if row["address"] != "0x0"}
        self.assertEqual(sorted(got), sorted(want))
        for address, function in want.items():
            row = got[address]
            self.assertEqual(row["calls"], function.calls)
            for family in probe_rule.FAMILIES:
                self.assertAlmostEqual(row[f"{family}_ms"], function.sums[family] * RATE_MS,
                                       places=5, msg=f"{address:x} {family}")
                self.assertEqual(f"{family}_min_ms" in row, family in function.low)
                if family in function.low:
                    self.assertAlmostEqual(row[f"{family}_min_ms"],
                                           function.low[family] * RATE_MS, places=5)
                    self.assertAlmostEqual(row[f"{family}_max_ms"],
                                           function.high[family] * RATE_MS, places=5)

    def test_by_hand(self):
        """The worked example of doc/probes.md."""
        lines = ["T", "E a 1 0 0", "E b 2 10 0", "E a 3 20 1", "X a 3 5 0", "X b 2 7 0",
                 "X a 1 100 0"]
        functions = probe_rule.play(lines)
        a, b = functions[0xa].sums, functions[0xb].sums
        self.assertEqual([a[f] for f in probe_rule.FAMILIES], [142, 115, 122, 115])
        self.assertEqual([b[f] for f in probe_rule.FAMILIES], [32, 27, 12, 7])
        self.compare(lines)

    def test_random_streams(self):
        for seed in range(40):
            with self.subTest(seed=seed):
                self.compare(probe_rule.random_script(seed))


class Programs(ProbeTest):
    def test_calls_by_path(self):
        for compiler in C_COMPILERS:
            with self.subTest(compiler=compiler):
                program = self.build(compiler, "paths.c")
                self.assertEqual(self.paths(self.record(program)), self.PATHS)

    def test_chosen_functions(self):
        program = self.build(C_COMPILERS[0], "paths.c")
        for options, wanted in (
                (["--exclude=leaf"], {"main": 1, "main>first": 10, "main>second": 5}),
                (["--exclude=fir*,sec*"], {"main": 1, "main>leaf": 42, "main>leaf>leaf": 5}),
                (["--include=second,main"], {"main": 1, "main>second": 5}),
                (["--exclude-file=other.c"], self.PATHS),
                (["--exclude-file=paths.c"], {}),
                (["--exclude-module=paths*"], {}),
                (["--exclude-small"], {"main": 1, "main>first": 10, "main>second": 5}),
                (["--exclude-small=8"], self.PATHS)):
            with self.subTest(options=options):
                out = self.path / "out"
                result = run(SPGO, "probe", "record", "--force", f"--output={out}",
                             f"--runtime={RUNTIME}", *options, "--", program)
                self.assertRegex(result.stderr, r"note: \d+ functions do not count")
                self.assertEqual(self.paths(out), wanted)

    def test_time_of_functions_that_do_not_count(self):
        """It is their caller's."""
        program = self.build(C_COMPILERS[0], "times.c")
        out = self.path / "out"
        run(SPGO, "probe", "record", f"--output={out}", f"--runtime={RUNTIME}",
            "--exclude=spin,rest", "--mode=stream", "--", program)
        for options in ((), ("--from=0",)):
            rows = self.functions(out, *options)
            self.assertEqual(sorted(rows), ["both", "main"])
            self.assertEqual(rows["both"]["elapsed_inclusive_ms"],
                             rows["both"]["elapsed_exclusive_ms"])
            self.assertGreater(rows["both"]["elapsed_exclusive_ms"], 80)

    PATHS = {"main": 1, "main>first": 10, "main>first>leaf": 30, "main>second": 5,
             "main>second>leaf": 5, "main>second>leaf>leaf": 5, "main>leaf": 7}

    def test_xray(self):
        compiler = next((c for c in ("clang-19", "clang", "clang-14") if shutil.which(c)), None)
        program = self.path / "xray"
        flags = ["-g", "-O1", "-fxray-instrument", "-fxray-instruction-threshold=1",
                 PROGRAMS / "paths.c", "-o", program, "-Wl,-u,__cyg_profile_func_enter", STATIC,
                 "-pthread", "-ldl"]
        if not compiler or run(compiler, *flags, check=False).returncode != 0:
            self.skipTest("no clang with XRay")
        self.assertEqual(self.paths(self.record(program, options=["--linked"])), self.PATHS)

    def test_fentry(self):
        if not shutil.which("gcc") or os.uname().machine != "x86_64":
            self.skipTest("gcc on x86-64 only")
        program, part = self.path / "fentry", self.path / "fentry.o"
        run("gcc", "-g", "-O1", "-pg", "-mfentry", "-minstrument-return=call", "-c",
            PROGRAMS / "paths.c", "-o", part)
        run("gcc", part, STATIC, "-pthread", "-ldl", "-o", program)
        self.assertEqual(self.paths(self.record(program, options=["--linked"])), self.PATHS)

    def test_longjmp(self):
        for compiler in C_COMPILERS:
            with self.subTest(compiler=compiler):
                paths = self.paths(self.record(self.build(compiler, "leap.c")))
                self.assertEqual(paths["main>turn"], 100)
                self.assertEqual(paths["main>turn>dive>dive>dive"], 100)
                self.assertEqual(paths["main>turn>after"], 100)

    def test_exceptions(self):
        for compiler in CXX_COMPILERS:
            with self.subTest(compiler=compiler):
                paths = self.paths(self.record(self.build(compiler, "throw.cc")))
                self.assertEqual(paths["main>catcher"], 500)
                self.assertEqual(paths["main>catcher>thrower"], 500)
                self.assertEqual(paths["main>catcher>handle"], 500)

    def test_threads(self):
        for compiler in C_COMPILERS:
            with self.subTest(compiler=compiler):
                out = self.record(self.build(compiler, "threads.c", "-pthread"), "1000")
                self.assertEqual(self.functions(out)["leaf"]["calls"], 50_000)
                threads = self.report(out, "threads")
                self.assertEqual(len(threads), 1001)
                self.assertTrue(all("end_ms" in t for t in threads if t["calls"] == 51))

    def test_forks(self):
        for compiler in C_COMPILERS:
            with self.subTest(compiler=compiler):
                out = self.record(self.build(compiler, "forks.c"), "4")
                self.assertEqual(self.functions(out)["leaf"]["calls"], 31)
                processes = self.report(out, "processes")
                self.assertEqual(len(processes), 31)
                ids = {p["pid"] for p in processes}
                self.assertEqual(sum(p["parent_pid"] not in ids for p in processes), 1)

    def test_vfork_exec_and_exit(self):
        for compiler in C_COMPILERS:
            with self.subTest(compiler=compiler):
                out = self.record(self.build(compiler, "spawn.c"), code=7)
                self.assertEqual(self.functions(out)["leaf"]["calls"], 20)

    def test_signals(self):
        for compiler in C_COMPILERS:
            with self.subTest(compiler=compiler):
                out = self.record(self.build(compiler, "signals.c"))
                rows = self.functions(out)
                self.assertEqual(rows["work"]["calls"], 300_000)
                lost = sum(t["lost_probes"] for t in self.report(out, "threads"))
                self.assertEqual(rows["handler"]["calls"] * 2 + lost, 2 * 200)

    def test_deep_recursion(self):
        out = self.record(self.build(C_COMPILERS[0], "deep.c"), "100000", options=["--depth=1000"])
        self.assertEqual(self.functions(out)["deep"]["calls"], 999)
        self.assertEqual(self.report(out, "threads")[0]["deep_calls"], 100_001 - 999)

    def test_library_that_comes_and_goes(self):
        for compiler in C_COMPILERS:
            with self.subTest(compiler=compiler):
                for name in ("one", "two"):
                    run(compiler, "-g", "-O1", "-fPIC", "-shared", "-finstrument-functions",
                        f"-DNAME={name}", PROGRAMS / "library.c", "-o", self.path / f"{name}.so")
                program = self.build(compiler, "loader.c", "-ldl")
                out = self.record(program, self.path / "one.so", self.path / "two.so")
                rows = self.functions(out)
                self.assertEqual((rows["one"]["calls"], rows["two"]["calls"]), (6, 6))
                self.assertEqual(rows["one"]["module"], "one.so")

    def test_linked_statically(self):
        for compiler in C_COMPILERS:
            with self.subTest(compiler=compiler):
                program = self.build(compiler, "paths.c", STATIC, "-pthread", "-ldl")
                out = self.record(program, options=["--linked"])
                self.assertEqual(self.functions(out)["leaf"]["calls"], 47)

    def test_loaded_twice(self):
        program = self.build(C_COMPILERS[0], "paths.c", STATIC, "-pthread", "-ldl")
        out = self.record(program)
        self.assertEqual(self.functions(out)["leaf"]["calls"], 47)

    def test_known_times(self):
        out = self.record(self.build(C_COMPILERS[0], "times.c"))
        rows = self.functions(out)
        truth = {name: float(ms) for name, ms in
                 (line.split() for line in (self.path / "truth").read_text().splitlines())}
        for name in ("spin", "rest", "both"):
            self.assertAlmostEqual(rows[name]["elapsed_inclusive_ms"], truth[name],
                                   delta=.02 * truth[name] + .2)
        self.assertEqual(rows["rest"]["application_inclusive_ms"], 0)
        self.assertGreaterEqual(rows["rest"]["os_events"], 20)

    def setUpTruth(self):
        os.environ["PROBE_TRUTH"] = str(self.path / "truth")

    def test_switched_out(self):
        out = self.record(self.build(C_COMPILERS[0], "times.c"),
                          options=["--os-event=switch,switch-time"])
        if "switch-time" in self.report(out, "processes")[0].get("notice", ""):
            self.skipTest("perf refuses switch records here")
        rows = self.functions(out)
        self.assertLess(rows["rest"]["on_cpu_inclusive_ms"],
                        .2 * rows["rest"]["elapsed_inclusive_ms"])

    def setUp(self):
        super().setUp()
        self.setUpTruth()


class Exports(ProbeTest):
    def setUp(self):
        super().setUp()
        self.out = self.record(self.build(C_COMPILERS[0], "paths.c"), options=["--mode=stream"])

    def export(self, form, *options):
        return run(SPGO, "probe", "export", f"--format={form}", *options, self.out).stdout

    def test_folded(self):
        sums = {}
        for line in self.export("folded").splitlines():
            path, ns = line.rsplit(" ", 1)
            sums[path.split(";")[-1]] = sums.get(path.split(";")[-1], 0) + int(ns)
        for name, row in self.functions(self.out).items():
            self.assertAlmostEqual(sums.get(name, 0), row["elapsed_exclusive_ms"] * 1e6, delta=6)

    def test_speedscope(self):
        profile = json.loads(self.export("speedscope"))
        one = profile["profiles"][0]
        self.assertEqual(len(one["samples"]), len(one["weights"]))
        self.assertLess(abs(sum(one["weights"]) - one["endValue"]), 10)
        frames = len(profile["shared"]["frames"])
        self.assertTrue(all(0 <= f < frames for stack in one["samples"] for f in stack))

    def test_callgrind(self):
        if not shutil.which("callgrind_annotate"):
            self.skipTest("no callgrind_annotate")
        (self.path / "x").write_text(self.export("callgrind"))
        shown = run("callgrind_annotate", "--inclusive=yes", self.path / "x").stdout
        self.assertIn(":main", shown)

    def test_chrome(self):
        calls, depth = {}, 0
        for event in json.loads(self.export("chrome"))["traceEvents"]:
            depth += {"B": 1, "E": -1}.get(event["ph"], 0)
            self.assertGreaterEqual(depth, 0)
            if event["ph"] == "B":
                calls[event["name"]] = calls.get(event["name"], 0) + 1
        self.assertEqual(depth, 0)
        self.assertEqual(calls, {"main": 1, "first": 10, "second": 5, "leaf": 47})

    def test_chrome_without_events(self):
        out = self.record(self.build(C_COMPILERS[0], "paths.c"))
        result = run(SPGO, "probe", "export", "--format=chrome", out, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("--mode=stream", result.stderr)

    def test_values_of_events_are_those_of_trees(self):
        whole, parts = self.functions(self.out), self.functions(self.out, "--from=0")
        self.assertEqual(sorted(whole), sorted(parts))
        for name, row in whole.items():
            self.assertEqual(row["calls"], parts[name]["calls"])
            self.assertAlmostEqual(row["elapsed_inclusive_ms"],
                                   parts[name]["elapsed_inclusive_ms"], delta=1)

    def test_windows_add_up(self):
        """Two parts of the time have together what the whole has."""
        end = self.report(self.out, "processes")[0]["end_ms"] + 1
        whole = self.functions(self.out, "--from=0")
        for cut in (.3, .7, end / 2):
            parts = [self.functions(self.out, "--from=0", f"--to={cut}"),
                     self.functions(self.out, f"--from={cut}")]
            for name, row in whole.items():
                self.assertEqual(sum(p[name]["calls"] for p in parts), row["calls"])

    def test_between_marks(self):
        program = self.build(C_COMPILERS[0], "control.c", STATIC, "-pthread", "-ldl")
        out = self.record(program, options=["--linked", "--mode=ring"])
        rows = self.functions(out, "--from=mark:3", "--to=mark:4")
        self.assertEqual(rows["leaf"]["calls"], 110)
        self.assertEqual(self.functions(out, "--from=mark:4")["leaf"]["calls"], 0)

    def test_diff(self):
        after = self.path / "after"
        shutil.copytree(self.out, after)
        same = run(SPGO, "probe", "diff", "--json", "--column=calls", self.out, after).stdout
        self.assertEqual(same, "")
        other = self.record(self.build(C_COMPILERS[0], "threads.c", "-pthread"), "8")
        shown = [json.loads(line) for line in
                 run(SPGO, "probe", "diff", "--json", "--column=calls", "--threshold=0", after,
                     other).stdout.splitlines()]
        leaves = [row for row in shown if row["function"] == "leaf"]
        self.assertEqual([(r.get("before"), r.get("after"), r["difference"]) for r in leaves],
                         [(None, 400, 400), (47, None, -47)])


class Manual(ProbeTest):
    def test_examples(self):
        page = INCLUDE.parent / "doc/man/spgo-probe.1"
        examples = [line[6:] for line in page.read_text().splitlines()
                    if line.startswith(".Dl $ ")]
        self.assertGreater(len(examples), 2)
        self.build(C_COMPILERS[0], "paths.c").rename(self.path / "program")
        environment = dict(os.environ, PATH=f"{SPGO.parent}:{os.environ['PATH']}")
        for example in examples:
            result = run("sh", "-c", example, check=False, cwd=self.path, env=environment)
            self.assertEqual((result.returncode, result.stderr), (0, ""), example)


class Control(ProbeTest):
    def test_from_inside(self):
        program = self.build(C_COMPILERS[0], "control.c", STATIC, "-pthread", "-ldl")
        out = self.record(program, options=["--linked"])
        self.assertEqual(self.functions(out)["leaf"]["calls"], 111)
        marks = self.report(out, "marks")
        self.assertEqual([(m.get("id"), m["mark"]) for m in marks if "id" in m],
                         [(3, "three"), (4, "four")])
        self.assertEqual(self.report(out, "threads")[0]["name"], "the main one")
        self.assertEqual(self.report(out, "processes")[0]["name"], "the process")

    def test_from_outside(self):
        program = self.build(C_COMPILERS[0], "endless.c")
        out = self.path / "out"
        with subprocess.Popen([SPGO, "probe", "record", f"--output={out}", "--start-off",
                               f"--runtime={RUNTIME}", "--", program],
                              stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            self.assertIn("do not count", run(SPGO, "probe", "status", out).stdout)
            run(SPGO, "probe", "start", out)
            self.assertIn("probes count", run(SPGO, "probe", "status", out).stdout)
            run(SPGO, "probe", "mark", "--id=9", "--comment=here", out)
            time.sleep(.2)
            run(SPGO, "probe", "stop", out)
            time.sleep(.05)
            before = self.functions(out)["leaf"]["calls"]
            time.sleep(.2)
            self.assertEqual(self.functions(out)["leaf"]["calls"], before)
            self.assertGreater(before, 100)
            process.kill()
        self.assertEqual([m["mark"] for m in self.report(out, "marks") if m.get("id") == 9],
                         ["here"])

    def test_status_of_other_files(self):
        other = self.path / "x.spp"
        other.write_text("no such thing")
        result = run(SPGO, "probe", "status", other, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("not an SPP file", result.stderr)


class Losses(ProbeTest):
    def test_killed(self):
        """Calls that the program has counted itself are in the file when it is killed."""
        program = self.build(C_COMPILERS[0], "endless.c")
        rng = random.Random(1)
        for mode in ("summary", "ring", "stream"):
            for _ in range(4):
                out = self.path / "out"
                counter = self.path / "counter"
                counter.write_bytes(bytes(8))
                with subprocess.Popen([SPGO, "probe", "record", "--force", f"--output={out}",
                                       f"--mode={mode}", f"--runtime={RUNTIME}", "--", program,
                                       counter], stdout=subprocess.PIPE) as process:
                    process.stdout.readline()
                    time.sleep(rng.random() * .1)
                    process.send_signal(signal.SIGKILL)
                own = int.from_bytes(counter.read_bytes(), "little")
                recorded = self.functions(out)["leaf"]["calls"]
                self.assertIn(recorded - own, (0, 1), mode)

    def test_file_that_may_not_grow(self):
        program = self.build(C_COMPILERS[0], "many_paths.c")
        out = self.path / "out"

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        result = run(SPGO, "probe", "record", f"--output={out}", f"--runtime={RUNTIME}", "--",
                     program, preexec_fn=limit)
        self.assertEqual(result.stderr, "")
        total = sum(row["calls"] for row in self.report(out))
        self.assertEqual(total, 1 + 3 * (2 ** 12 - 1))

    def test_no_folder(self):
        program = self.build(C_COMPILERS[0], "paths.c")
        environment = dict(os.environ, LD_PRELOAD=str(RUNTIME),
                           SPGO_PROBE_OUTPUT="/nonexistent/folder/x")
        result = run(program, env=environment)
        self.assertIn("nothing is recorded", result.stderr)

    def test_damaged_files(self):
        out = self.record(self.build(C_COMPILERS[0], "paths.c"), options=["--mode=ring"])
        file = next(out.iterdir())
        good = file.read_bytes()
        rng = random.Random(2)
        for i in range(150):
            bad = bytearray(good)
            if i % 3 == 0:
                bad = bad[:rng.randrange(len(bad))]
            for _ in range(rng.choice([0, 1, 3, 40]) if i % 3 == 0 else rng.choice([1, 3, 40])):
                place = rng.randrange(len(bad) or 1)
                if rng.random() < .5:
                    place = rng.choice([0, 4096, 4096 + 65536, 4096 + 131072]) + rng.randrange(300)
                if place < len(bad):
                    bad[place] = rng.choice([0, 1, 127, 128, 255])
            file.write_bytes(bad)
            for view in ("tree", "callers", "threads"):
                result = run(SPGO, "probe", "report", "--no-names", f"--view={view}", file,
                             check=False)
                self.assertIn(result.returncode, (0, 1, 3), (i, result.stderr))

    def test_wrong_inputs(self):
        for make in (lambda p: p.write_bytes(b""), lambda p: p.write_bytes(b"SPGO-SPP"),
                     lambda p: p.write_bytes(b"\x7fELF" * 2000)):
            path = self.path / "bad.spp"
            make(path)
            result = run(SPGO, "probe", "report", path, check=False)
            self.assertEqual(result.returncode, 1)
            self.assertIn("bad.spp: ", result.stderr)


def main():
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=0).run(
        unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    bad = len(result.failures) + len(result.errors)
    bad_tests = {str(getattr(test, "test_case", test)) for test, _ in
                 result.failures + result.errors}
    left = len(result.skipped)
    print(f"{result.testsRun - len(bad_tests) - left} passed, {len(bad_tests)} failed, "
          f"{left} skipped")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
