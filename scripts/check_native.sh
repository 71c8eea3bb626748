#!/usr/bin/env bash
# The suffix tree under AddressSanitizer and UndefinedBehaviorSanitizer; needs a C++20 compiler only.
set -euo pipefail
cd "$(dirname "$0")/.."

build=build/native
mkdir -p "$build"
"${CXX:-g++}" -std=c++20 -O1 -g -Wall -Wextra -Wpedantic -Werror -D_GLIBCXX_ASSERTIONS \
  -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer \
  -Icsrc csrc/suffix_tree/*.cpp tests/native/suffix_tree_stress.cpp -o "$build/suffix_tree_stress"
"$build/suffix_tree_stress"
