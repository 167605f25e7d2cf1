// Whether a sanitizer watches. It looks for wrong memory and races, not for wrong numbers, and
// costs a factor of ten: sweeps leave out there what touches no other memory. The release build has
// all.
#pragma once

// GCC defines the macros; clang answers the question.
#if defined(__has_feature)
#define ORRERY_SANITIZER(name) __has_feature(name)
#else
#define ORRERY_SANITIZER(name) 0
#endif

namespace orrery::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    ORRERY_SANITIZER(address_sanitizer) || ORRERY_SANITIZER(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace orrery::test

#undef ORRERY_SANITIZER
