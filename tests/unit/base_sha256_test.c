/* SHA-256 against the vectors that its standard publishes, and at every length around a block. */
#include "test_data.h"

#include <string.h>

#include <base/bytes.h>
#include <base/sha256.h>

static void check(const void *data, size_t len, const char *hex)
{
    uint8_t digest[SHA256_SIZE];
    char text[2 * SHA256_SIZE + 1] = {0};
    sha256((spgo_span){data, len}, digest);
    for (size_t i = 0; i < SHA256_SIZE; i++) {
        text[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        text[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    assert_string_equal(text, hex);
}

static void published_vectors(void **state)
{
    (void)state;
    check(NULL, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    check(two_blocks, 56, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void a_million_letters(void **state)
{
    (void)state;
    bytes b = {0};
    bytes_fill(&b, 'a', 1000000);
    assert_false(b.failed);
    check(b.ptr, b.len, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    bytes_free(&b);
}

/* Where the padding just fits into a block, and where it needs another. */
static void lengths_around_the_padding(void **state)
{
    (void)state;
    uint8_t zeros[64] = {0};
    check(zeros, 55, "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7");
    check(zeros, 56, "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb");
    check(zeros, 64, "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors),
        cmocka_unit_test(a_million_letters),
        cmocka_unit_test(lengths_around_the_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
