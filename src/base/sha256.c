/* SHA-256: see sha256.h. */
#include <base/sha256.h>

#include <string.h>

enum { BLOCK = 64, LENGTH_SIZE = 8 };

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, unsigned by)
{
    return x >> by | x << (32 - by);
}

static uint32_t load_big_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_big_u32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

static void expand(uint32_t w[64], const uint8_t *block)
{
    for (size_t i = 0; i < 16; i++)
        w[i] = load_big_u32(block + 4 * i);
    for (size_t i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
}

static void mix_block(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64], s[8];
    expand(w, block);
    memcpy(s, state, sizeof s);
    for (size_t i = 0; i < 64; i++) {
        uint32_t a = s[0], e = s[4];
        uint32_t first = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                         ((e & s[5]) ^ (~e & s[6])) + round_constants[i] + w[i];
        uint32_t second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                          ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += first;
        s[0] = first + second;
    }
    for (size_t i = 0; i < 8; i++)
        state[i] += s[i];
}

void sha256(spgo_span data, uint8_t out[SHA256_SIZE])
{
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    size_t whole = data.len - data.len % BLOCK, rest = data.len - whole;
    for (size_t at = 0; at < whole; at += BLOCK)
        mix_block(state, data.ptr + at);
    /* The rest, a one bit, zeros, and the length in bits: one block or two. */
    uint8_t tail[2 * BLOCK] = {0};
    if (rest > 0)
        memcpy(tail, data.ptr + whole, rest);
    tail[rest] = 0x80;
    size_t end = rest + 1 + LENGTH_SIZE <= BLOCK ? BLOCK : 2 * BLOCK;
    uint64_t bits = 8 * (uint64_t)data.len;
    store_big_u32(tail + end - 8, (uint32_t)(bits >> 32));
    store_big_u32(tail + end - 4, (uint32_t)bits);
    for (size_t at = 0; at < end; at += BLOCK)
        mix_block(state, tail + at);
    for (size_t i = 0; i < 8; i++)
        store_big_u32(out + 4 * i, state[i]);
}
