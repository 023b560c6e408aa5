#!/usr/bin/env python3
"""Runs the command-line tests: tests/cli/<tool>/<case>.test, each in a scratch directory.

A case is a list of directives at the start of a line; lines that are indented by four spaces
belong to the directive above them. '#' starts a comment.

  skip-if WORD...      skip the case if any holds: wine, posix, root, no-FILE, no-PROGRAM
  needs TOOL...        skip the case if one of these programs was not built
  file NAME            a text file with these lines
  hex NAME             a file with these bytes, in hexadecimal
  hex-at NAME OFFSET   these bytes at this place of the file, which may be far behind its end
  spt NAME             an SPT file, made by make_spt from these lines
  data NAME FILE       a copy of a file of the real-data folder (skips the case if absent)
  mkdir NAME
  $ TOOL ARGUMENT...   runs a tool; quoting as in a shell, and <FILE, >FILE, >>FILE; no pipes
  exit N               what it must return (default 0)
  out                  what it must write to standard output, exactly these lines
  out-file NAME        the same, kept in NAME beside the case
  out-glob             one pattern a line (* ? [...]) for each line of standard output
  out-has              patterns each of which some line of standard output must match
  err                  one pattern a line for each line of standard error (default: nothing)
  same FILE FILE       two files must be equal
  absent FILE          must not exist
  examples FILE [PART] runs all examples of a manual page or README of the project, in `sh`, or of
                       the README's part with this heading

Options: --build DIR (where the tools are), --helpers DIR (where make_spt and its like are; default
as --build), --wine (the tools are .exe files), --update (rewrite what is expected), and names of
cases or tools to run.
"""
import argparse
import difflib
import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
TIMEOUT_S = 120


class Skip(Exception):
    pass


class Failure(Exception):
    pass


def find_program(folder, name):
    for where in ("tools", "tests", "", "bin"):
        path = os.path.join(folder, where, name)
        if os.path.isfile(path):
            return path
    return None


class Tools:
    """Finds what a case runs: our tools, and the programs that make its files."""

    def __init__(self, options):
        self.wine = options.wine
        self.build = os.path.abspath(options.build)
        self.helpers = os.path.abspath(options.helpers or options.build)
        self.folder = os.path.join(self.build, "tools")

    def argv(self, name):
        suffix = ".exe" if self.wine else ""
        path = find_program(self.build, name + suffix)
        if path:
            return (["wine"] if self.wine else []) + [path]
        path = find_program(self.helpers, name)
        return [path] if path else None

    def need(self, name):
        argv = self.argv(name)
        if not argv:
            raise Skip(f"{name} was not built")
        return argv


def holds(condition, tools):
    if condition == "wine":
        return tools.wine
    if condition == "posix":
        return not tools.wine
    if condition == "root":
        return hasattr(os, "geteuid") and os.geteuid() == 0
    if condition.startswith("no-/"):
        return not os.path.exists(condition[3:])
    if condition.startswith("no-"):
        return shutil.which(condition[3:]) is None
    raise Failure(f"unknown condition {condition}")


# ---------------------------------------------------------------- reading a case


class Directive:
    def __init__(self, line_no, word, rest):
        self.line_no = line_no
        self.word = word
        self.rest = rest
        self.body = []  # lines without their indent
        self.has_body = False


def parse(path):
    directives = []
    with open(path, encoding="utf-8") as f:
        for line_no, line in enumerate(f.read().split("\n"), 1):
            if line.startswith("    "):
                if not directives:
                    raise Failure(f"line {line_no} belongs to no directive")
                directives[-1].body.append(line[4:])
                directives[-1].has_body = True
            elif line.strip() and not line.startswith("#"):
                word, _, rest = line.strip().partition(" ")
                directives.append(Directive(line_no, word, rest.strip()))
    return directives


# ---------------------------------------------------------------- running it


class Run:
    """One command, its result and what is expected of it."""

    def __init__(self, directive, result):
        self.directive = directive
        self.code = result.returncode
        self.out = result.stdout
        self.err = result.stderr
        self.expected_code = 0
        self.expects_out = False
        self.expected_err = []


def text_of(data):
    return data.decode("utf-8", "backslashreplace")


def lines_of(data):
    text = text_of(data)
    return text[:-1].split("\n") if text.endswith("\n") else text.split("\n") if text else []


def match_lines(patterns, lines):
    return len(patterns) == len(lines) and all(
        fnmatch.fnmatchcase(line, escape(pattern)) for pattern, line in zip(patterns, lines)
    )


def escape(pattern):
    """'[' is common in messages: only '[[' opens a set."""
    return re.sub(r"\[(\[)?", lambda m: "[" if m.group(1) else "[[]", pattern)


def diff(expected, got):
    return "\n".join(difflib.unified_diff(expected, got, "expected", "got", lineterm="", n=2))


class Case:
    def __init__(self, path, tools, update):
        self.path = path
        self.name = os.path.relpath(path, HERE)[: -len(".test")]
        self.tools = tools
        self.update = update
        self.run = None
        self.changed = False
        self.directives = []

    def execute(self):
        self.directives = parse(self.path)
        with tempfile.TemporaryDirectory(prefix="spgo-cli-") as scratch:
            self.scratch = scratch
            for d in self.directives:
                method = getattr(self, "do_" + d.word.replace("-", "_").replace("$", "run"), None)
                if not method:
                    raise Failure(f"line {d.line_no}: unknown directive {d.word}")
                if d.word in ("$", "examples"):
                    self.finish_run()
                method(d)
            self.finish_run()
        if self.changed:
            self.rewrite()

    def place(self, name):
        return os.path.join(self.scratch, name)

    def write(self, name, data):
        with open(self.place(name), "wb") as f:
            f.write(data)

    # ---- making files

    def do_skip_if(self, d):
        for condition in d.rest.split():
            if holds(condition, self.tools):
                raise Skip(condition)

    def do_needs(self, d):
        for name in d.rest.split():
            self.tools.need(name)

    def do_file(self, d):
        self.write(d.rest, "".join(line + "\n" for line in d.body).encode())

    def do_hex(self, d):
        self.write(d.rest, bytes.fromhex(" ".join(line.split("#")[0] for line in d.body)))

    def do_hex_at(self, d):
        name, offset = d.rest.split()
        with open(self.place(name), "r+b") as f:
            f.seek(int(offset, 0))
            f.write(bytes.fromhex(" ".join(line.split("#")[0] for line in d.body)))

    def do_spt(self, d):
        script = d.rest + ".script"
        self.write(script, "".join(line + "\n" for line in d.body).encode())
        argv = self.tools.need("make_spt") + [script, d.rest]
        result = subprocess.run(argv, cwd=self.scratch, capture_output=True, timeout=TIMEOUT_S)
        if result.returncode:
            raise Failure(f"line {d.line_no}: {text_of(result.stderr)}")
        os.unlink(self.place(script))

    def do_data(self, d):
        name, source = d.rest.split()
        folder = os.environ.get("SPGO_TEST_DATA", os.path.join(PROJECT, "..", "shared", "data"))
        path = os.path.join(folder, source)
        if not os.path.isfile(path):
            raise Skip(f"no {source} in the real-data folder")
        shutil.copyfile(path, self.place(name))

    def do_mkdir(self, d):
        os.mkdir(self.place(d.rest))

    # ---- running

    def do_run(self, d):
        words = shlex.split(d.rest)
        argv, stdin, stdout = [], subprocess.DEVNULL, subprocess.PIPE
        opened = []
        for word in words:
            if word.startswith(">>"):
                stdout = open(self.place(word[2:]), "ab")
                opened.append(stdout)
            elif word.startswith(">") and len(word) > 1:
                stdout = open(self.place(word[1:]), "wb")
                opened.append(stdout)
            elif word.startswith("<") and len(word) > 1:
                stdin = open(self.place(word[1:]), "rb")
                opened.append(stdin)
            else:
                argv.append(word)
        argv = self.tools.need(argv[0]) + argv[1:]
        env = dict(os.environ, WINEDEBUG="-all", LC_ALL="C.UTF-8")
        try:
            result = subprocess.run(argv, cwd=self.scratch, env=env, stdin=stdin, stdout=stdout,
                                    stderr=subprocess.PIPE, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise Failure(f"line {d.line_no}: no end after {TIMEOUT_S} s")
        finally:
            for f in opened:
                f.close()
        result.stdout = result.stdout or b""
        self.run = Run(d, result)

    def finish_run(self):
        """What is not stated must still hold: exit code 0, nothing on standard error."""
        r, self.run = self.run, None
        if not r:
            return
        got_err = lines_of(r.err)
        if r.code != r.expected_code:
            raise Failure(f"$ {r.directive.rest}\nexit code {r.code}, expected {r.expected_code}\n"
                          + "\n".join(got_err[:10]))
        if not match_lines(r.expected_err, got_err):
            raise Failure(f"$ {r.directive.rest}\nstandard error:\n"
                          + diff(r.expected_err, got_err))

    def need_run(self, d):
        if not self.run:
            raise Failure(f"line {d.line_no}: {d.word} without a command")
        return self.run

    # ---- expecting

    def do_exit(self, d):
        r = self.need_run(d)
        r.expected_code = int(d.rest)
        if self.update and r.code != r.expected_code and r.code >= 0:
            d.rest = str(r.code)
            r.expected_code = r.code
            self.changed = True

    def do_out(self, d):
        r = self.need_run(d)
        got = lines_of(r.out)
        if got == d.body:
            return
        if not self.update:
            raise Failure(f"$ {r.directive.rest}\nstandard output:\n" + diff(d.body, got))
        d.body, d.has_body = got, True
        self.changed = True

    def do_out_file(self, d):
        r = self.need_run(d)
        golden = os.path.join(os.path.dirname(self.path), d.rest)
        expected = b""
        if os.path.exists(golden):
            with open(golden, "rb") as f:
                expected = f.read()
        if r.out == expected:
            return
        if not self.update:
            raise Failure(f"$ {r.directive.rest}\nstandard output:\n"
                          + diff(lines_of(expected), lines_of(r.out)))
        with open(golden, "wb") as f:
            f.write(r.out)

    def do_out_glob(self, d):
        r = self.need_run(d)
        if not match_lines(d.body, lines_of(r.out)):
            raise Failure(f"$ {r.directive.rest}\nstandard output:\n"
                          + diff(d.body, lines_of(r.out)))

    def do_out_has(self, d):
        r = self.need_run(d)
        lines = lines_of(r.out)
        for pattern in d.body:
            if not fnmatch.filter(lines, escape(pattern)):
                raise Failure(f"$ {r.directive.rest}\nno line of standard output matches\n"
                              f"  {pattern}\namong\n" + "\n".join(lines[:40]))

    def do_err(self, d):
        r = self.need_run(d)
        r.expected_err = d.body
        got = lines_of(r.err)
        if self.update and not match_lines(d.body, got):
            d.body, d.has_body = got, True
            r.expected_err = [re.sub(r"([*?])", r"[[\1]", line) for line in got]
            self.changed = True

    def do_same(self, d):
        a, b = (open(self.place(name), "rb").read() for name in shlex.split(d.rest))
        if a != b:
            raise Failure(f"line {d.line_no}: {d.rest} differ ({len(a)} and {len(b)} bytes)")

    def do_absent(self, d):
        if os.path.lexists(self.place(d.rest)):
            raise Failure(f"line {d.line_no}: {d.rest} exists")

    def do_examples(self, d):
        if self.tools.wine:
            raise Skip("wine")
        name, _, part = d.rest.partition(" ")
        path = os.path.join(PROJECT, name)
        if not os.path.exists(path):
            raise Skip(f"no {name}")
        found = examples_of(path, part)
        if not found:
            raise Failure(f"{d.rest} has no examples")
        env = dict(os.environ, LC_ALL="C.UTF-8",
                   PATH=self.tools.folder + os.pathsep + os.environ.get("PATH", ""))
        for command in found:
            result = subprocess.run(["sh", "-ec", command], cwd=self.scratch, env=env,
                                    stdin=subprocess.DEVNULL, capture_output=True,
                                    timeout=TIMEOUT_S)
            if result.returncode or result.stderr:
                raise Failure(f"{d.rest}: $ {command}\nexit code {result.returncode}\n"
                              + text_of(result.stderr))

    # ---- updating

    def rewrite(self):
        with open(self.path, encoding="utf-8") as f:
            lines = f.read().split("\n")
        out, at = [], 0
        by_line = {d.line_no: d for d in self.directives}
        while at < len(lines):
            d = by_line.get(at + 1)
            if not d or d.word not in ("out", "err", "exit"):
                out.append(lines[at])
                at += 1
                continue
            out.append(f"{d.word} {d.rest}".rstrip())
            out += ["    " + line for line in d.body]
            at += 1
            while at < len(lines) and lines[at].startswith("    "):
                at += 1
        with open(self.path, "w", encoding="utf-8") as f:
            f.write("\n".join(out))


def examples_of(path, part=""):
    """Commands of the EXAMPLES section of an mdoc page (.Dl $ command). In a Markdown file: those
    lines of its ```sh blocks that start with "$ ", and indented lines that run one of our tools."""
    with open(path, encoding="utf-8") as f:
        lines = f.read().split("\n")
    found, inside, heading = [], False, ""
    for line in lines:
        if path.endswith(".md"):
            heading = line[3:] if line.startswith("## ") else heading
            if part and heading != part:
                continue
            if line.startswith("```"):
                inside = line.strip() in ("```sh", "```console") and not inside
            elif inside and line.startswith("$ "):
                found.append(line[2:])
            elif re.match(r"    (spgo|sptdump|sptaggregate) ", line):
                found.append(line[4:])
        elif line.startswith(".Sh"):
            inside = line.strip() == ".Sh EXAMPLES"
        elif inside and line.startswith(".Dl $ "):
            found.append(line[6:].replace("\\&", "").replace("\\(dq", '"').replace("\\(rs", "\\").replace("\\(aq", "'").replace("\\-", "-")
                         .replace("\\e", "\\"))
    return found


# ---------------------------------------------------------------- all of them


def start_wine():
    """The server that wine leaves running would keep the pipes of the first test open."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL,
             "stderr": subprocess.DEVNULL}
    env = dict(os.environ, WINEDEBUG="-all")
    subprocess.run(["wineserver", "-p60"], env=env, check=False, **quiet)
    subprocess.run(["wine", "cmd", "/c", "exit"], env=env, check=False, **quiet)


def find_cases(names):
    for folder, subfolders, files in sorted(os.walk(HERE)):
        subfolders.sort()
        for name in sorted(files):
            path = os.path.join(folder, name)
            case = os.path.relpath(path, HERE)[: -len(".test")]
            if name.endswith(".test") and (
                not names or any(case == n or case.startswith(n + "/") for n in names)
            ):
                yield path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--helpers")
    parser.add_argument("--wine", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    tools = Tools(options)
    if options.wine:
        start_wine()
    passed = failed = skipped = 0
    for path in find_cases(options.names):
        case = Case(path, tools, options.update)
        try:
            case.execute()
            passed += 1
        except Skip as reason:
            skipped += 1
            print(f"skipped {case.name}: {reason}")
        except Failure as failure:
            failed += 1
            print(f"FAILED  {case.name}\n{failure}\n")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
