"""Programs to measure with: fetched as Debian source packages, built, run in the emulator."""

import collections
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import typing

HERE = pathlib.Path(__file__).resolve().parent
CLANG, LINKER = "clang-19", "lld-19"
BRANCH_PERIOD, IP_PERIOD = 8009, 20000  # of speedtest1: about 20,000 and 61,000 samples
CLOCK_RATE = 20000  # Hz
SAMPLE = re.compile(r"^ *\d+ +([0-9a-f]+) *$", re.M)  # in perf's text

LINES = ("-gline-tables-only", "-fdebug-info-for-profiling")
PROBES = (*LINES, "-fpseudo-probe-for-profiling")


class Failed(Exception):
    pass


class Program(typing.NamedTuple):
    """Arguments may contain {source}, the folder of the unpacked package, and {here}, this one."""
    name: str
    package: str
    prepare: list  # commands to run in the source folder
    sources: list
    flags: list
    training: list  # arguments of the run that is recorded
    counting: list  # and of the one that is counted
    clock_runs: int  # so often perf records the training: about 60,000 samples


PROGRAMS = {program.name: program for program in (
    Program("speedtest1", "sqlite3",
            [["./configure", "--disable-tcl"], ["make", "sqlite3.c"]],
            ["sqlite3.c", "test/speedtest1.c"],
            ["-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION", "-I."],
            ["--memdb", "--size", "10"], ["--memdb", "--size", "5"], 7),
    Program("lua", "lua5.4", [],
            [f"src/{name}.c" for name in (
                "lua lapi lauxlib lbaselib lcode lcorolib lctype ldblib ldebug ldo ldump lfunc lgc "
                "linit liolib llex lmathlib lmem loadlib lobject lopcodes loslib lparser lstate "
                "lstring lstrlib ltable ltablib ltm lundump lutf8lib lvm lzio").split()],
            [], ["{here}/workload.lua", "8"], ["{here}/workload.lua", "4"], 6),
    Program("bzip2", "bzip2", [],
            [f"{name}.c" for name in
             "bzip2 bzlib blocksort compress crctable decompress huffman randtable".split()],
            ["-D_FILE_OFFSET_BITS=64"], ["-kc", "{source}/manual.html", "{source}/manual.ps"],
            ["-kc", "{source}/bzip2.c", "{source}/manual.pdf"], 4),
)}


def run(command, log, **options):
    """Runs a command with its messages in a log, which is shown if it fails."""
    command = [str(word) for word in command]
    with open(log, "wb") as messages:
        messages.write((" ".join(command) + "\n").encode())
        messages.flush()
        options.setdefault("stdout", messages)
        try:
            status = subprocess.run(command, stderr=messages, stdin=subprocess.DEVNULL,
                                    **options).returncode
        except FileNotFoundError as error:
            raise Failed(f"{error.filename} is not there") from error
    if status != 0:
        tail = "\n".join(pathlib.Path(log).read_text(errors="replace").splitlines()[-15:])
        raise Failed(f"status {status}, {log}:\n{tail}")


class Workshop:
    """Fetches, builds and records; everything is kept below `data`, and what is there already is
    taken again. Several processes may use the same folder."""

    def __init__(self, data, build, given_sources, mirror, release):
        self.data = data.resolve()
        self.given_sources = given_sources  # folders by program
        self.mirror, self.release = mirror, release
        self.plugin = build.resolve() / "bench/bench_branch_plugin.so"
        self.recorder = build.resolve() / "bench/bench_recording"
        for program in (self.plugin, self.recorder):
            if not program.exists():
                raise Failed(f"{program} is not there: build with -DSPGO_BENCH=ON")
        self.plugin_key = hashlib.sha256(self.plugin.read_bytes()).hexdigest()[:8]
        (self.data / "built").mkdir(parents=True, exist_ok=True)

    # ---- sources ----

    def source(self, program):
        if program.name in self.given_sources:
            return self.given_sources[program.name].resolve()
        made = self.data / "source" / program.package
        if not made.exists():
            made.parent.mkdir(exist_ok=True)
            self.into(made, lambda part: self.fetch(program, part))
        return made

    def into(self, folder, make):
        """Lets something fill a folder beside, which gets the name when it is complete."""
        part = pathlib.Path(tempfile.mkdtemp(prefix="part-", dir=folder.parent))
        make(part)
        try:
            part.rename(folder)
        except OSError:  # somebody else was faster
            shutil.rmtree(part)

    def fetch(self, program, folder):
        """By a list of sources and a state of apt's own, so that the system's stay as they are."""
        print(f"e2e: fetching the source package {program.package}", flush=True)
        work = pathlib.Path(tempfile.mkdtemp(prefix="apt-", dir=self.data))
        for name in ("lists/partial", "cache", "package"):
            (work / name).mkdir(parents=True)
        sources = work / "sources.list"
        sources.write_text(f"deb-src {self.mirror} {self.release} main\n")
        apt = ["apt-get", "-q", "-o", f"Dir::Etc::sourcelist={sources}",
               "-o", "Dir::Etc::sourceparts=-", "-o", f"Dir::State::lists={work}/lists",
               "-o", f"Dir::Cache={work}/cache", "-o", "APT::Sandbox::User="]
        run([*apt, "update"], work / "update.log")
        run([*apt, "source", "--download-only", program.package], work / "source.log",
            cwd=work / "package")
        archive = next((work / "package").glob(f"{program.package}_*.orig.tar.*"))
        run(["tar", "-xf", archive, "-C", folder, "--strip-components=1"], work / "tar.log")
        for i, command in enumerate(program.prepare):
            run(command, work / f"prepare-{i}.log", cwd=folder)
        shutil.rmtree(work)

    # ---- builds ----

    def compiled(self, program, flags, profile=None):
        """The program built so. A profile is (option of the compiler, file)."""
        key = hashlib.sha256("\0".join(flags).encode())
        if profile:
            key.update(profile[0].encode())
            key.update(profile[1].read_bytes())
        folder = self.data / "built" / f"{program.name}-{key.hexdigest()[:16]}"
        if not folder.exists():
            self.into(folder, lambda part: self.compile(program, flags, profile, part))
        return folder / program.name

    def compile(self, program, flags, profile, folder):
        if profile:
            shutil.copy(profile[1], folder / "profile")
            flags = [*flags, f"{profile[0]}={folder / 'profile'}"]
        clang = [CLANG, "-O2", *flags, *program.flags]
        objects = []
        for name in program.sources:
            stem = pathlib.Path(name).stem
            objects.append(folder / f"{stem}.o")
            run([*clang, "-c", name, "-o", objects[-1]], folder / f"{stem}.log",
                cwd=self.source(program))
        run([*clang, *objects, "-lm", f"-fuse-ld={LINKER}", "-o", folder / program.name],
            folder / "link.log")

    # ---- runs ----

    def arguments(self, program, arguments):
        places = {"here": HERE, "source": self.source(program)}
        return [argument.format(**places) for argument in arguments]

    def emulate(self, program, binary, arguments, purpose, sampling=""):
        """The plugin's log. The same program gives the same log, but for the C library's work with
        the times that some programs print."""
        log = binary.parent / f"{purpose}-{self.plugin_key}.log"
        if not log.exists():
            part = log.with_suffix(f".{os.getpid()}")
            run(["qemu-x86_64", "-seed", "1", "-plugin", f"{self.plugin},out={part}{sampling}",
                 binary, *self.arguments(program, arguments)], log.with_suffix(".messages"),
                env={}, stdout=subprocess.DEVNULL)
            part.rename(log)
        return log

    def counts(self, program, binary):
        """Of the counted run, by name; bench/e2e/recording.c has the names."""
        log = self.emulate(program, binary, program.counting, "counting")
        lines = subprocess.run([self.recorder, log, binary, "counts"], check=True, text=True,
                               stdout=subprocess.PIPE).stdout.splitlines()
        return {name: int(value) for name, value in (line.split() for line in lines)}

    def recording(self, program, binary, kind, every=1):
        """A file beside the program: perf.data of branches, ips or clock, or the text of exact or
        exact-unsym; of the samples one in so many."""
        suffix = ".txt" if kind.startswith("exact") else ".data"
        path = binary.parent / f"{kind}{'' if every == 1 else f'-{every}'}{suffix}"
        if kind == "clock":
            if not path.exists():
                part = path.with_suffix(f".{os.getpid()}")
                # All runs at the same addresses, so that one map stands for them.
                run(["perf", "record", "-q", "-e", "cpu-clock:u", "-F", CLOCK_RATE, "-o", part,
                     "setarch", "-R", "sh", "-c",
                     f'for i in $(seq {program.clock_runs}); do "$0" "$@" || exit; done', binary,
                     *self.arguments(program, program.training)],
                    path.with_suffix(".messages"), stdout=subprocess.DEVNULL)
                part.rename(path)
            return path
        log = self.emulate(program, binary, program.training, "training",
                           f",branches={BRANCH_PERIOD},ips={IP_PERIOD}")
        if not path.exists() or path.stat().st_mtime < log.stat().st_mtime:
            thinned = [] if kind.startswith("exact") else [str(every)]
            run([self.recorder, log, binary, kind, path, *thinned], path.with_suffix(".messages"))
        return path

    def script(self, recording, binary):
        """Maps and samples of a program's recording as text."""
        command = ["perf", "script", "-i", recording, "-F", "pid,ip", "--comms", binary.name,
                   "--show-mmap-events"]
        return subprocess.run(command, check=True, text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout

    def sample_count(self, recording, binary):
        return len(SAMPLE.findall(self.script(recording, binary)))

    def one_address_ranges(self, recording, binary):
        """What llvm-profgen can make of instruction pointers: each a range of its own."""
        text = self.script(recording, binary)
        code = re.search(r"\[0x([0-9a-f]+)\(0x([0-9a-f]+)\) @ [^\]]*\]: r-xp " +
                         re.escape(str(binary)), text)
        start, size = int(code[1], 16), int(code[2], 16)
        found = collections.Counter(int(ip, 16) - start for ip in SAMPLE.findall(text))
        inside = sorted((ip, count) for ip, count in found.items() if 0 <= ip < size)
        out = recording.with_suffix(".unsym")
        out.write_text(f"{len(inside)}\n" +
                       "".join(f"{ip:x}-{ip:x}:{count}\n" for ip, count in inside) + "0\n")
        return out
