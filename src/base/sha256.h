/*
 * SHA-256 (FIPS 180-4), which debug information uses in two places: Microsoft's compiler names
 * inlined functions by the hash of their decorated name, and line tables carry hashes of source
 * files. Nothing here is about security, and nothing else needs a hash that the outside defines.
 */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <spgo/types.h>

enum { SHA256_SIZE = 32 };

void sha256(spgo_span data, uint8_t out[SHA256_SIZE]);

#endif
