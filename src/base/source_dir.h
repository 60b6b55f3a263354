// For tests: the checkout that was built, to find tests/goldens. Defined in the test binary alone
// (cmake/source_dir.cc.in), so that no other object depends on where the checkout lies and the
// compiler cache serves every clone.
#ifndef TANDEM_BASE_SOURCE_DIR_H_
#define TANDEM_BASE_SOURCE_DIR_H_

namespace tandem {
extern const char kSourceDir[];
}  // namespace tandem

#endif  // TANDEM_BASE_SOURCE_DIR_H_
