/* What this test is compiled with: sanitizers take time and memory of their own. */
#ifndef TEST_SANITIZERS_H
#define TEST_SANITIZERS_H

#if defined(__has_feature)
#define TEST_HAS_FEATURE(x) __has_feature(x)
#else
#define TEST_HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_THREAD__) || TEST_HAS_FEATURE(thread_sanitizer)
#define TEST_UNDER_TSAN 1
#else
#define TEST_UNDER_TSAN 0
#endif

#if defined(__SANITIZE_ADDRESS__) || TEST_HAS_FEATURE(address_sanitizer) || TEST_UNDER_TSAN
#define TEST_UNDER_SANITIZER 1
#else
#define TEST_UNDER_SANITIZER 0
#endif

#endif
