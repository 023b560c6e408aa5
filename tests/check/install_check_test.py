#!/usr/bin/env python3
"""What `cmake --install` puts down is complete and usable: programs, manual pages, and a library
that C and C++ programs find through pkg-config.

Usage: install_check_test.py CMAKE BUILD_FOLDER VERSION C_COMPILER [CXX_COMPILER]
"""
import os
import shutil
import subprocess
import sys
import tempfile

PROGRAM = """
#include <spgo/spt.h>
#include <spgo/version.h>
#include <stdio.h>

/* Names that the library uses inside are the program's own all the same. */
int arena_new(int size);
int arena_new(int size)
{
    return size;
}

int main(void)
{
    const uint8_t text[] = "hello, this is no SPT file";
    spgo_span file = {text, sizeof text};
    spgo_spt *spt;
    spgo_error err;
    if (spgo_spt_open(file, &spt, &err) != SPGO_CORRUPT)
        return arena_new(1);
    printf("%s: %s\\n", SPGO_VERSION_STRING, spgo_code_name(err.code));
    return 0;
}
"""


def output_of(*argv, **options):
    return subprocess.run(argv, check=True, capture_output=True, text=True, **options).stdout


def check_files(prefix):
    man = os.path.join(os.path.dirname(__file__), "..", "..", "doc", "man")
    wanted = [f"bin/{tool}" for tool in ("spgo", "sptdump", "sptaggregate", "spddump")]
    wanted += [f"share/man/man1/{page}" for page in os.listdir(man)]
    wanted += ["include/spgo/spt.h", "share/doc/OpenSPGO/LICENSE"]
    missing = [name for name in wanted if not os.path.isfile(os.path.join(prefix, name))]
    assert not missing, f"not installed: {missing}"


def check_tools(prefix, version):
    for tool in ("spgo", "sptdump", "sptaggregate", "spddump"):
        said = output_of(os.path.join(prefix, "bin", tool), "--version")
        assert version in said, f"{tool} --version: {said}"


def check_library(prefix, version, compiler, language):
    folders = [folder for folder, _, files in os.walk(prefix) if "spgo.pc" in files]
    assert len(folders) == 1, f"spgo.pc is in {folders}"
    env = dict(os.environ, PKG_CONFIG_PATH=folders[0])
    flags = output_of("pkg-config", "--cflags", "--libs", "spgo", env=env).split()
    source = os.path.join(prefix, f"user.{language}")
    program = os.path.join(prefix, f"user_{language}")
    with open(source, "w", encoding="utf-8") as f:
        f.write(PROGRAM)
    output_of(compiler, "-Wall", "-Werror", source, "-o", program, *flags)
    said = output_of(program)
    assert said == f"{version}: corrupt\n", f"{program}: {said}"


def main():
    cmake, build, version, *compilers = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="spgo-install-") as prefix:
        output_of(cmake, "--install", build, "--prefix", prefix)
        check_files(prefix)
        check_tools(prefix, version)
        for compiler, language in zip(compilers, ("c", "cc")):
            if shutil.which(compiler) and shutil.which("pkg-config"):
                check_library(prefix, version, compiler, language)


try:
    main()
except (AssertionError, subprocess.CalledProcessError) as failure:
    sys.exit(f"{failure}\n{getattr(failure, 'stderr', '') or ''}")
