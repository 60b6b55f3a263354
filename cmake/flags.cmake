# Compiler settings shared by every target. Instruction-set units add their own -m flags
# (src/model/CMakeLists.txt); nothing here may assume more than x86-64 baseline.
set(CMAKE_CXX_STANDARD 23)  # libstdc++ 12's std::expected; the language features used are C++20's
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(TANDEM_FUZZ "Build the libFuzzer drivers in fuzz/ beside the tests" OFF)
set(TANDEM_SANITIZE "" CACHE STRING "address,undefined or thread")

# -ffp-contract=off: a contraction happens only where the source says fma (docs/contracts/numerics.md).
add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror
                    -ffp-contract=off -fno-omit-frame-pointer)
add_compile_definitions(BOOST_ASIO_SEPARATE_COMPILATION BOOST_BEAST_SEPARATE_COMPILATION)
if(NOT TANDEM_SANITIZE)
  # Sanitizer builds take the compiler's default: libraries and programs must not differ in it, because
  # they share precompiled headers (module.cmake).
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
else()
  add_compile_options(-fsanitize=${TANDEM_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TANDEM_SANITIZE})
endif()
if(TANDEM_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
add_link_options(-fuse-ld=lld-19)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
