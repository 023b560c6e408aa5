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
target_compile_options(spgo_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual -Wformat=2
  -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla -Wwrite-strings -Wpointer-arith
  -Wimplicit-fallthrough)
if(MINGW)
  # isfinite() of its math.h names float in the branch it does not take.
  target_compile_options(spgo_options INTERFACE -Wno-float-conversion)
endif()
if(SPGO_WERROR)
  target_compile_options(spgo_options INTERFACE -Werror)
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

set(SPGO_HAVE_ZSTD OFF)
if(NOT SPGO_WITH_ZSTD STREQUAL "OFF")
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(ZSTD QUIET IMPORTED_TARGET libzstd)
  endif()
  if(ZSTD_FOUND)
    set(SPGO_HAVE_ZSTD ON)
  elseif(SPGO_WITH_ZSTD STREQUAL "ON")
    message(FATAL_ERROR "SPGO_WITH_ZSTD=ON, but libzstd was not found (Debian: libzstd-dev)")
  endif()
endif()
target_compile_definitions(spgo_options INTERFACE SPGO_HAVE_ZSTD=$<BOOL:${SPGO_HAVE_ZSTD}>)
message(STATUS "OpenSPGO ${PROJECT_VERSION}: zstd ${SPGO_HAVE_ZSTD}")
