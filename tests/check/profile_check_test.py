#!/usr/bin/env python3
"""Checks what spgo profile writes with the tools that take it, as far as they are installed.

    profile_check_test.py SPGO SPTAGGREGATE MAKE_SPT

Programs are built here and branch records of them made up (made_program.py); the recording of
SPGO_TEST_DATA is used as well when it is there.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import made_program
import pprof_reader
from made_program import run

SPGO = SPTAGGREGATE = MAKE_SPT = ""
PROJECT = pathlib.Path(__file__).resolve().parent.parent.parent
LBR = pathlib.Path(os.environ.get("SPGO_TEST_DATA", "")) / "lbr"


def needs(*tools):
    missing = [tool for tool in tools if not shutil.which(tool)]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


def needs_recording(test):
    return unittest.skipUnless((LBR / "speedtest1.perf.data").exists(), "no real data")(test)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="spgo-profile-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def profile(self, image, spt, form="text", *options, expect=0):
        """The file that holds the profile; self.said has the messages."""
        out = self.folder / f"made.{form}"
        out.unlink(missing_ok=True)
        done = subprocess.run([SPGO, "profile", "--image", image, "--format", form, "-o", out,
                               *options, spt], capture_output=True, text=True)
        self.said = done.stderr
        self.assertEqual(done.returncode, expect, done.stderr)
        return out

    def quality(self, image, spt, *options):
        done = subprocess.run([SPGO, "profile", "--image", image, "--quality", "--json", *options,
                               spt], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def profgen(self, image, option, path):
        """What llvm-profgen makes of a file: its profile and its messages."""
        out = self.folder / "profgen.prof"
        done = subprocess.run(["llvm-profgen-19", f"{option}={path}", f"--binary={image}",
                               "--format=text", "-o", out], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out.read_text(), done.stderr

    def recorded(self):
        image, spt = self.folder / "speedtest1", self.folder / "speedtest1.spt"
        shutil.copy(LBR / "speedtest1", image)
        run(SPTAGGREGATE, "/quiet", "/etl", LBR / "speedtest1.perf.data", spt)
        return image, spt

    def made_elf(self, name="made", *options, **how):
        image = made_program.build_elf(self.folder, name, *options, **how)
        return image, made_program.record(image, self.folder / f"{name}.spt", MAKE_SPT)

    def made_pe(self, debug):
        image = made_program.build_pe(self.folder, f"made-{debug}.exe", debug)
        return image, made_program.record(image, self.folder / f"{debug}.spt", MAKE_SPT)


class Compilers(Case):
    @needs("llvm-profdata-19")
    @needs_recording
    def test_both_forms_say_the_same(self):
        image, spt = self.recorded()
        shown = [run("llvm-profdata-19", "show", "--sample", self.profile(image, spt, form))
                 for form in ("text", "extbinary")]
        self.assertIn("sqlite3VdbeExec", shown[0])
        self.assertEqual(*shown)
        merged = self.folder / "merged"
        texts = []
        for form in ("text", "extbinary"):
            run("llvm-profdata-19", "merge", "--sample", "--text", self.profile(image, spt, form),
                "-o", merged)
            texts.append(merged.read_text())
        self.assertEqual(*texts)

    @needs_recording
    def test_the_recording_gives_what_llvm_profgen_gave(self):
        image, spt = self.recorded()
        self.assertEqual(self.profile(image, spt, "text", "--rules=llvm-profgen").read_text(),
                         (LBR / "speedtest1.llvm-profgen.prof").read_text())
        self.assertEqual(self.said, "")
        self.assertEqual(self.profile(image, spt, "unsymbolized").read_text(),
                         (LBR / "speedtest1.unsym").read_text())

    def check_compiler(self, profile, target):
        ir = run("clang-19", "-O2", "-w", *target, "-S", "-emit-llvm",
                 f"-fprofile-sample-use={profile}", self.folder / "program.c", "-o", "-")
        heads = [int(n) for n in re.findall(r'!"function_entry_count", i64 (\d+)', ir)]
        self.assertTrue(any(head > 1 for head in heads), heads)
        self.assertRegex(ir, r"br i1 .*!prof !\d+")
        self.assertIn('!"branch_weights"', ir)
        self.assertRegex(ir, r"define .*@work\(.*!prof")

    @needs(*made_program.ELF_TOOLS)
    def test_clang_takes_it(self):
        image, spt = self.made_elf()
        for form in ("text", "extbinary"):
            profile = self.profile(image, spt, form)
            for target in ([], [made_program.WINDOWS]):
                with self.subTest(form=form, target=target):
                    self.check_compiler(profile, target)

    @needs(*made_program.PE_TOOLS)
    def test_clang_for_windows_takes_that_of_a_pe(self):
        for debug in ("dwarf", "pdb"):
            image, spt = self.made_pe(debug)
            for form in ("text", "extbinary"):
                with self.subTest(debug=debug, form=form):
                    self.check_compiler(self.profile(image, spt, form), [made_program.WINDOWS])


class LlvmProfgen(Case):
    def check(self, image, spt):
        wanted = self.profile(image, spt, "text", "--rules=llvm-profgen").read_text()
        self.assertIn("work", wanted)
        for form, option in (("unsymbolized", "--unsymbolized-profile"),
                             ("perf-script", "--perfscript")):
            with self.subTest(form):
                got, said = self.profgen(image, option, self.profile(image, spt, form))
                self.assertEqual(got, wanted)
                self.assertNotRegex(said, "error|mmap|is not|empty")

    @needs("llvm-profgen-19", *made_program.ELF_TOOLS)
    def test_elf(self):
        for name, options in (("pie", ["-pie"]), ("fixed", ["-no-pie", "-fno-pie"]),
                              ("far", ["-no-pie", "-Wl,--image-base=0x7f0000000"]),
                              ("joined", ["-pie", "-Wl,--no-rosegment"])):
            with self.subTest(name):
                self.check(*self.made_elf(name, *options))

    @needs("llvm-profgen-19", *made_program.PE_TOOLS)
    def test_pe(self):
        self.check(*self.made_pe("dwarf"))

    @needs("llvm-profgen-19", *made_program.ELF_TOOLS)
    def test_hits_and_weights(self):
        image, spt = self.made_elf()
        once = self.profile(image, spt, "perf-script").read_text()
        weighed = self.profile(image, spt, "perf-script", "--weight=3")
        got, _ = self.profgen(image, "--perfscript", weighed)
        self.assertEqual(got,
                         self.profile(image, spt, "text", "--weight=3",
                                      "--rules=llvm-profgen").read_text())
        self.assertEqual(weighed.read_text().count("/"), once.count("/"))

    @needs("llvm-profgen-19")
    @needs_recording
    def test_the_recording(self):
        image, spt = self.recorded()
        wanted = (LBR / "speedtest1.llvm-profgen.prof").read_text()
        for form, option in (("unsymbolized", "--unsymbolized-profile"),
                             ("perf-script", "--perfscript")):
            with self.subTest(form):
                got, _ = self.profgen(image, option, self.profile(image, spt, form))
                self.assertEqual(got, wanted)

    @needs("llvm-profgen-19")
    @needs_recording
    def test_density(self):
        image, spt = self.recorded()
        said = subprocess.run(
            ["llvm-profgen-19", f"--unsymbolized-profile={LBR / 'speedtest1.unsym'}",
             f"--binary={image}", "--format=text", "-o", self.folder / "x", "--show-density"],
            capture_output=True, text=True, check=True)
        density = re.search(r"density >= ([0-9.]+)", said.stdout + said.stderr)[1]
        factor = re.search(r"with ([0-9.]+)x more", said.stderr)[1]
        ours = self.quality(image, spt)
        self.assertEqual(f"{ours['density']:.1f}", density)
        self.assertEqual(f"{ours['more_samples_wanted']:.1f}", factor)


class Bolt(Case):
    def perf2bolt(self, *options):
        """The lines of the fdata, each with its count, and the messages."""
        link, out = self.folder / "perf2bolt", self.folder / "fdata"
        if not link.exists():  # it goes by its name
            link.symlink_to(shutil.which("perf2bolt-19"))
        done = subprocess.run([link, *options, "-o", out], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.rsplit(" ", 1) for line in out.read_text().splitlines()]
        return {place: int(count) for place, count in rows}, done.stdout + done.stderr

    @needs("perf2bolt-19", "perf")
    @needs_recording
    def test_the_recording(self):
        """As from the perf.data itself, but for what counts without their order cannot tell: how
        many runs of a range began with a return. (Of aggregated input perf2bolt also counts ranges
        of functions that it does not optimize as mismatching, so its messages do not compare.)"""
        image, spt = self.recorded()
        wanted, _ = self.perf2bolt("-p", LBR / "speedtest1.perf.data", image)
        got, _ = self.perf2bolt("-pa", "-p", self.profile(image, spt, "bolt"), image)
        self.assertGreater(len(got), 4000)
        self.assertEqual(sorted(got), sorted(wanted))
        off = sum(abs(got[place] - wanted[place]) for place in wanted)
        self.assertLessEqual(off, sum(wanted.values()) // 100000)

    @needs("perf2bolt-19", *made_program.ELF_TOOLS)
    def test_no_mismatch(self):
        for name, options in (("pie", ["-pie"]), ("fixed", ["-no-pie", "-fno-pie"])):
            with self.subTest(name):
                image, spt = self.made_elf(name, *options)
                got, said = self.perf2bolt("-pa", "-p", self.profile(image, spt, "bolt"), image)
                self.assertTrue(any(" hot/1 " in place for place in got))
                self.assertIn("mismatching disassembled function contents: 0", said)
                inferred = self.profile(image, spt, "bolt", "--inference=on")
                got, said = self.perf2bolt("-pa", "-p", inferred, image)
                self.assertTrue(got)
                self.assertIn("mismatching disassembled function contents: 0", said)


class AutoFdo(Case):
    @needs("create_llvm_prof", *made_program.ELF_TOOLS)
    def test_text_input(self):
        image, spt = self.made_elf("made", "-gdwarf-4", "-pie")
        out = self.folder / "autofdo.prof"
        run("create_llvm_prof", "--profiler=text", f"--profile={self.profile(image, spt, 'autofdo')}",
            f"--binary={image}", "--format=text", f"--out={out}")
        functions = dict(re.findall(r"^(\w+):(\d+):\d+$", out.read_text(errors="replace"), re.M))
        for name in ("hot", "work"):
            self.assertGreater(int(functions[name]), 0)


class Viewers(Case):
    def check_pprof(self, image, path):
        p = pprof_reader.read(path)
        texts = p["string_table"]
        self.assertEqual(texts[0], "")
        self.assertEqual(len(texts), len(set(texts)))
        kind, = p["sample_type"]
        self.assertEqual(texts[pprof_reader.one(kind, "unit")], "count")
        mapping, = p["mapping"]
        self.assertEqual(texts[pprof_reader.one(mapping, "filename")], str(image))
        functions = {pprof_reader.one(f, "id"): f for f in p["function"]}
        locations = {pprof_reader.one(l, "id"): l for l in p["location"]}
        self.assertEqual(len(functions), len(p["function"]))
        self.assertEqual(len(locations), len(p["location"]))
        self.assertNotIn(0, functions)
        self.assertNotIn(0, locations)
        for sample in p["sample"]:
            self.assertEqual(len(sample["value"]), 1)
            self.assertGreater(sample["value"][0], 0)
            self.assertTrue(set(sample["location_id"]) <= set(locations))
        stacks = {}
        for location in locations.values():
            addr = pprof_reader.one(location, "address")
            self.assertTrue(mapping["start"][0] if mapping["start"] else 0 <= addr)
            self.assertLess(addr, pprof_reader.one(mapping, "limit"))
            stacks[addr] = [(texts[pprof_reader.one(functions[pprof_reader.one(line, "function_id")],
                                                    "system_name")], pprof_reader.one(line, "line"))
                            for line in location["line"]]
        return stacks, sum(s["value"][0] for s in p["sample"])

    def symbolizer(self, image, addrs):
        given = "".join(f"{addr:#x}\n" for addr in addrs)
        said = run("llvm-symbolizer-19", f"--obj={image}", "--output-style=JSON",
                   "--no-demangle", input=given)
        return {int(row["Address"], 16): [(frame["FunctionName"], frame["Line"])
                                          for frame in row["Symbol"]]
                for row in map(json.loads, said.splitlines())}

    def check_viewers(self, image, spt):
        stacks, total = self.check_pprof(image, self.profile(image, spt, "pprof"))
        wanted = self.symbolizer(image, stacks)
        self.assertEqual(stacks, {addr: wanted[addr] for addr in stacks})
        folded = self.profile(image, spt, "folded").read_text().splitlines()
        self.assertEqual(folded, sorted(folded, key=lambda line: line.rsplit(" ", 1)[0].encode()))
        by_stack = {stack: int(n) for stack, n in (line.rsplit(" ", 1) for line in folded)}
        self.assertEqual(len(by_stack), len(folded))
        self.assertEqual(sum(by_stack.values()), total)
        self.assertEqual(set(by_stack),
                         {";".join(name for name, _ in reversed(s)) for s in stacks.values()})
        self.check_speedscope(json.loads(self.profile(image, spt, "speedscope").read_text()),
                              by_stack)

    def check_speedscope(self, file, by_stack):
        self.assertEqual(set(file), {"$schema", "exporter", "profiles", "shared"})
        frames = file["shared"]["frames"]
        for frame in frames:
            self.assertTrue(set(frame) <= {"name", "file", "line", "col"})
            self.assertIsInstance(frame["name"], str)
        profile, = file["profiles"]
        self.assertEqual(set(profile), {"type", "name", "unit", "startValue", "endValue", "samples",
                                        "weights"})
        self.assertEqual((profile["type"], profile["unit"]), ("sampled", "none"))
        self.assertEqual(len(profile["samples"]), len(profile["weights"]))
        self.assertEqual(profile["startValue"], 0)
        self.assertEqual(profile["endValue"], sum(profile["weights"]))
        found = {}
        for stack, weight in zip(profile["samples"], profile["weights"]):
            self.assertTrue(all(0 <= index < len(frames) for index in stack))
            name = ";".join(frames[index]["name"] for index in stack)
            found[name] = found.get(name, 0) + weight
        self.assertEqual(found, by_stack)

    @needs("llvm-symbolizer-19")
    @needs_recording
    def test_the_recording(self):
        self.check_viewers(*self.recorded())

    @needs("llvm-symbolizer-19", *made_program.ELF_TOOLS)
    def test_made(self):
        self.check_viewers(*self.made_elf("fixed", "-no-pie", "-fno-pie"))


class Pdb(Case):
    @staticmethod
    def heads_and_totals(text):
        return {name: (int(total), int(head))
                for name, total, head in re.findall(r"^(\S+):(\d+):(\d+)$", text, re.M)}

    @staticmethod
    def lines(text):
        """The largest count of each line offset, by the chain of functions, without
        discriminators; not those of line 0, which a PDB does not have."""
        found, chain = {}, []
        for line in text.splitlines():
            depth = len(line) - len(line.lstrip(" "))
            words = re.match(r" *(?:(\d+)(?:\.\d+)?: )?(?:(\S+?):)?(\d+)", line)
            offset, name, count = words[1], words[2], int(words[3])
            if name:
                chain[depth:] = [(offset, name)]
            elif int(offset) < 1 << 15:
                place = (*chain[:depth], offset)
                found[place] = max(found.get(place, 0), count)
        return found

    @needs(*made_program.PE_TOOLS)
    def test_against_dwarf(self):
        """The same code with either. Functions, totals and heads are the same. A PDB does not tell
        first lines, but the sources do, which are where it says; so the lines it has are those of
        DWARF and mostly count the same. (Code that DWARF has at line 0 counts for the line before
        it.) Discriminators and some lines are missing."""
        texts = []
        for debug in ("dwarf", "pdb"):
            image, spt = self.made_pe(debug)
            texts.append(self.profile(image, spt).read_text())
        self.assertIn("the first lines of 4 of 4 functions", self.said)
        dwarf, pdb = (self.heads_and_totals(text) for text in texts)
        self.assertEqual(set(pdb), {"hot", "cold", "work", "entry"})
        self.assertEqual(pdb, dwarf)
        dwarf, pdb = (self.lines(text) for text in texts)
        self.assertLessEqual(set(pdb), set(dwarf))
        equal = sum(pdb[place] == dwarf[place] for place in pdb)
        self.assertGreaterEqual(equal, 0.8 * len(pdb))
        self.assertGreaterEqual(len(pdb), 0.8 * len(dwarf))
        self.assertTrue(any(("5", "mix") in place for place in pdb))

    @needs("llvm-profdata-19", *made_program.PE_TOOLS)
    def test_is_a_profile(self):
        image, spt = self.made_pe("pdb")
        shown = run("llvm-profdata-19", "show", "--sample", self.profile(image, spt, "extbinary"))
        self.assertIn("Function: hot", shown)

    @needs("llvm-objdump-19")
    @unittest.skipUnless((LBR.parent / "pdb/own/t_noicf.exe").exists(), "no real data")
    def test_cpp(self):
        """Static and inlined C++ functions have no linkage names in a PDB: they keep what people
        call them, or count for their callers."""
        indirect = {0x11ba: (0x11e0, 0x11f0),  # the two functions of a table; a switch
                    0x1213: (0x1215, 0x1219, 0x121c, 0x1220, 0x1224, 0x1234, 0x1238, 0x123b)}
        tables = {}
        for name in ("t_dwarf.exe", "t_noicf.exe"):
            image = self.folder / name
            for file in (LBR.parent / "pdb/own").glob(name.replace(".exe", ".*")):
                shutil.copy(file, self.folder)
            spt = made_program.record(image, self.folder / f"{name}.spt", MAKE_SPT, indirect)
            tables[name] = self.heads_and_totals(self.profile(image, spt).read_text())
        self.assertIn("the linkage names of 3 inlined functions are not known", self.said)
        dwarf, pdb = tables["t_dwarf.exe"], tables["t_noicf.exe"]
        for name in ("main", "?add@Acc@@QEAAXI@Z"):
            self.assertEqual(pdb[name], dwarf[name])
        for name in ("sw", "f1", "f2"):
            self.assertEqual(pdb[name], dwarf[f"?{name}@@YAII@Z"])

class Inputs(Case):
    @needs_recording
    def test_traces_are_as_good_as_spt_files(self):
        image, spt = self.recorded()
        wanted = self.profile(image, spt).read_text()
        trace = LBR / "speedtest1.perf.data"
        self.assertEqual(self.profile(image, trace).read_text(), wanted)
        for path in (spt, trace):
            with open(path, "rb") as given:
                piped = subprocess.run([SPGO, "profile", "--image", image, "-"], stdin=given,
                                       capture_output=True, text=True, check=True)
            self.assertEqual(piped.stdout, wanted)

    @needs(*made_program.ELF_TOOLS)
    def test_etl_is_as_good_as_spt(self):
        """Of another image, so only the form that has what was recorded says much."""
        image, _ = self.made_elf()
        trace, spt = PROJECT / "tests/data/demo.etl", self.folder / "demo.spt"
        run(SPTAGGREGATE, "/quiet", "/etl", trace, spt)
        how = ("bolt", "--force", "--program=sptdump")
        wanted = self.profile(image, spt, *how).read_text()
        self.assertGreater(wanted.count("\n"), 100)
        self.assertEqual(self.profile(image, trace, *how).read_text(), wanted)

    @needs_recording
    def test_weights(self):
        image, spt = self.recorded()
        doubled = self.profile(image, spt, "unsymbolized", "--weight=2").read_text()
        self.assertEqual(self.profile(image, spt, "unsymbolized", spt).read_text(), doubled)
        self.assertEqual(self.profile(image, spt, "unsymbolized", spt, "--weight=1,1").read_text(),
                         doubled)
        twice = [line.split(":") for line in doubled.splitlines() if ":" in line]
        once = [line.split(":") for line in
                self.profile(image, spt, "unsymbolized").read_text().splitlines() if ":" in line]
        self.assertEqual([(a, 2 * int(n)) for a, n in once], [(a, int(n)) for a, n in twice])

    @needs_recording
    def test_a_folded_file_is_inferred(self):
        image, spt = self.recorded()
        folded, wanted = self.folder / "folded.spt", self.folder / "wanted"
        run(SPGO, "fold", "--quiet", spt, folded)
        wanted.write_text(self.profile(image, spt).read_text())
        got = self.profile(image, folded)
        overlap = json.loads(run(SPGO, "overlap", "--json", wanted, got))
        self.assertGreater(overlap["similarity"], 0.98)
        self.assertTrue(self.profile(image, folded, "folded").read_text())
        quality = self.quality(image, folded)
        self.assertTrue(quality["inference"])
        self.assertLess(quality["flow_gap_after"], 1e-9)

    @needs(*made_program.ELF_TOOLS)
    def test_another_build(self):
        image, spt = self.made_elf()
        fresh = self.quality(image, spt)
        self.assertEqual((fresh["stale_functions"], fresh["mismatched_share"]), (0, 0))
        changed = made_program.build_elf(self.folder, "changed", source=made_program.CHANGED_SOURCE)
        stale = self.quality(changed, spt, "--program=made")
        self.assertGreaterEqual(stale["stale_functions"], 2)
        self.assertGreater(stale["mismatched_share"], 0.2)
        self.profile(changed, spt, "text", "--program=made")
        self.assertIn("another build", self.said)


class Quality(Case):
    @needs_recording
    def test_inference_closes_the_gap(self):
        image, spt = self.recorded()
        plain, inferred = self.quality(image, spt), self.quality(image, spt, "--inference=on")
        self.assertGreater(plain["flow_gap_before"], 0.01)
        self.assertLess(inferred["flow_gap_after"], 1e-9)
        self.assertEqual(plain["blocks_before"], inferred["blocks_before"])
        self.assertGreater(inferred["blocks_after"], inferred["blocks_before"])
        self.assertLessEqual(inferred["blocks_after"], inferred["blocks"])
        # Neither adds a sample.
        self.assertEqual(plain["density"], inferred["density"])
        self.assertLess(self.quality(image, spt, "--mode=ip")["density"], plain["density"])
        self.assertAlmostEqual(plain["unmapped_share"], 0.0285, places=4)  # the table of jumps


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    SPGO, SPTAGGREGATE, MAKE_SPT = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
