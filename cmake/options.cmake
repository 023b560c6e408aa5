# What every target is compiled with, as the interface target spgo_options.
add_library(spgo_options INTERFACE)
target_include_directories(spgo_options INTERFACE ${PROJECT_SOURCE_DIR}/include
                                                  ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(spgo_options INTERFACE _FILE_OFFSET_BITS=64)
if(WIN32)
  target_compile_definitions(spgo_options INTERFACE __USE_MINGW_ANSI_STDIO=1 WIN32_LEAN_AND_MEAN
                                                    UNICODE _UNICODE _WIN32_WINNT=0x0A00)
else()
  target_compile_definitions(spgo_options INTERFACE _GNU_SOURCE)
endif()
set(spgo_warnings
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual -Wformat=2
  -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla -Wwrite-strings -Wpointer-arith
  -Wimplicit-fallthrough)
if(SPGO_WERROR)
  list(APPEND spgo_warnings -Werror)
endif()
target_compile_options(spgo_options INTERFACE ${spgo_warnings})
if(MINGW)
  # isfinite() of its math.h names float in the branch it does not take.
  target_compile_options(spgo_options INTERFACE -Wno-float-conversion)
endif()
if(SPGO_SANITIZE)
  target_compile_options(spgo_options INTERFACE -fsanitize=${SPGO_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(spgo_options INTERFACE -fsanitize=${SPGO_SANITIZE})
endif()
if(SPGO_FUZZ)
  target_compile_options(spgo_options INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(spgo_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# Optional libraries: AUTO takes them where they are, ON insists, OFF goes without. Each one found
# sets SPGO_HAVE_<part> here and in the sources (1 or 0).
find_package(PkgConfig QUIET)
macro(spgo_optional part found package)
  set(SPGO_HAVE_${part} OFF)
  if(NOT SPGO_WITH_${part} STREQUAL "OFF")
    if(${found})
      set(SPGO_HAVE_${part} ON)
    elseif(SPGO_WITH_${part} STREQUAL "ON")
      message(FATAL_ERROR "SPGO_WITH_${part}=ON, but it was not found (Debian: ${package})")
    endif()
  endif()
  target_compile_definitions(spgo_options INTERFACE
                             SPGO_HAVE_${part}=$<BOOL:${SPGO_HAVE_${part}}>)
  string(APPEND spgo_parts " ${part} ${SPGO_HAVE_${part}}")
endmacro()

if(PkgConfig_FOUND)
  pkg_check_modules(ZSTD QUIET IMPORTED_TARGET libzstd)
  pkg_check_modules(LIBDW QUIET IMPORTED_TARGET libdw libelf)
endif()
find_package(Zydis QUIET CONFIG)
find_package(ZLIB QUIET)
spgo_optional(ZSTD ZSTD_FOUND libzstd-dev)
spgo_optional(ZYDIS Zydis_FOUND libzydis-dev)
spgo_optional(DWARF LIBDW_FOUND libdw-dev)
spgo_optional(ZLIB ZLIB_FOUND zlib1g-dev)
message(STATUS "OpenSPGO ${PROJECT_VERSION}:${spgo_parts}")
