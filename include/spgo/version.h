/* The only place the version is written; the build reads it from here. */
#ifndef SPGO_VERSION_H
#define SPGO_VERSION_H

#define SPGO_VERSION_MAJOR 0
#define SPGO_VERSION_MINOR 1
#define SPGO_VERSION_PATCH 0
#define SPGO_VERSION_STRING "0.1.0"

#endif
