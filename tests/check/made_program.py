"""Programs that are built for a test, and branch records of them: a walk through their code that
takes branches by chance, as a processor might.
"""

import random
import re
import struct
import subprocess

SOURCE = """
static volatile int table[64];
static inline int mix(int h, int x) { h ^= x; return h * 16777619; }
__attribute__((noinline)) static int hot(int n)
{
    int h = 1;
    for (int i = 0; i < n; i++) {
        if (table[i & 63] & 3)
            h = mix(h, i);
        else
            h += table[i & 31];
    }
    return h;
}
__attribute__((noinline)) int cold(int n)
{
    return n > table[5] ? mix(n, table[3]) : n - 1;
}
__attribute__((noinline)) int work(int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++) {
        sum += hot(i);
        if (sum % 7 == table[2])
            sum ^= cold(i);
        if (sum == 12345)
            table[7] = sum;
    }
    return sum;
}
int entry(void) { return work(table[1]); }
"""
# The same program some time later.
CHANGED_SOURCE = SOURCE.replace("int h = 1;", "int h = 1; for (int k = 0; k < table[9]; k++) "
                                              "table[k & 7] += h;").replace(
    "int sum = 0;", "int sum = table[8]; if (sum & 1) sum = cold(sum) / 3;")

COMPILE = ["clang-19", "-O2", "-fno-vectorize", "-w", "-gline-tables-only",
           "-fdebug-info-for-profiling"]
WINDOWS = "--target=x86_64-pc-windows-msvc"
ELF_TOOLS = ("clang-19", "ld.lld-19", "llvm-objdump-19")
PE_TOOLS = ELF_TOOLS + ("lld-link-19",)


def run(*argv, **options):
    return subprocess.run(argv, check=True, capture_output=True, text=True, **options).stdout


def build_elf(folder, name, *options, source=SOURCE):
    path = folder / name
    (folder / "program.c").write_text(source)
    run(*COMPILE, "-fPIE", *options, "-nostdlib", "-fuse-ld=lld-19", "-Wl,-e,entry", "program.c",
        "-o", path, cwd=folder)
    return path


def build_pe(folder, name, debug):
    """debug: "dwarf", or "pdb" for CodeView and a PDB beside the image."""
    path = folder / name
    (folder / "program.c").write_text(SOURCE)
    kind = ["-gdwarf"] if debug == "dwarf" else ["-gcodeview"]
    run(*COMPILE, *kind, WINDOWS, "-c", "program.c", "-o", "program.obj", cwd=folder)
    run("lld-link-19", "/nologo", "/entry:entry", "/nodefaultlib", "/subsystem:console", "/Brepro",
        "/debug:dwarf" if debug == "dwarf" else "/debug", "program.obj", f"/out:{path}", cwd=folder)
    return path


def base_addr(path):
    """Where RVA 0 is linked to be."""
    data = path.read_bytes()
    if data[:2] == b"MZ":
        header = struct.unpack_from("<I", data, 0x3c)[0] + 24
        return struct.unpack_from("<Q", data, header + 24)[0]
    table, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for at in range(table, table + size * count, size):
        kind, _, _, vaddr = struct.unpack_from("<IIQQ", data, at)
        if kind == 1:
            return vaddr & ~0xfff
    raise AssertionError(f"{path} has no segments")


class Code:
    """The instructions of an image: what each may do next."""

    def __init__(self, path, entry_addr):
        self.next, self.kind, self.targets, self.entry_addr = {}, {}, {}, entry_addr
        last = None
        for line in run("llvm-objdump-19", "-d", "--no-show-raw-insn", path).splitlines():
            row = re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*(?:0x([0-9a-f]+))?", line)
            if not row:
                continue
            at, word = int(row[1], 16), row[2]
            if last is not None:
                self.next[last] = at
            last = at
            if word.startswith("call"):
                self.kind[at] = "call"
            elif word.startswith("ret"):
                self.kind[at] = "return"
            elif word.startswith("jmp"):
                self.kind[at] = "jump"
            elif word.startswith("j"):
                self.kind[at] = "branch"
            if row[3]:
                self.targets[at] = [int(row[3], 16)]

    def branches(self, count, seed=1):
        """So many taken branches (from, to), oldest first; 0 is outside of the program."""
        dice, calls, at = random.Random(seed), [], self.entry_addr
        taken = [(0, at)]
        while len(taken) < count:
            kind = self.kind.get(at)
            if kind == "return":
                to = calls.pop() if calls else 0
            elif kind in ("call", "jump") or (kind == "branch" and dice.random() < 0.6):
                to = dice.choice(self.targets[at])
            else:
                at = self.next[at]
                continue
            if kind == "call":
                calls.append(self.next[at])
            taken.append((at, to))
            if to == 0:
                to = self.entry_addr
                taken.append((0, to))
            at = to
        return taken


def entry_addr(path):
    data = path.read_bytes()
    if data[:2] == b"MZ":
        header = struct.unpack_from("<I", data, 0x3c)[0] + 24
        return base_addr(path) + struct.unpack_from("<I", data, header + 16)[0]
    return struct.unpack_from("<Q", data, 24)[0]


def record(path, spt, make_spt, indirect=None, count=20000, depth=16):
    """Writes branch records of a walk through the image as an SPT file. indirect: where indirect
    calls and jumps may go, all RVAs."""
    base = base_addr(path)
    code = Code(path, entry_addr(path))
    for at, targets in (indirect or {}).items():
        code.targets[base + at] = [base + target for target in targets]
    taken = [tuple(addr - base if addr else 0 for addr in pair) for pair in code.branches(count)]
    lines = [f"program {path.name}"]
    for first in range(0, len(taken) - depth, depth):
        newest_first = reversed(taken[first:first + depth])
        lines.append("add 0 LBR " + " ".join(f"{a:x}->{b:x}" for a, b in newest_first))
    script = spt.with_suffix(".script")
    script.write_text("\n".join(lines) + "\n")
    run(make_spt, script, spt)
    return spt
