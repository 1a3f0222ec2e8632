#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: CMake configures a C++ project, ninja builds it with two compilers at a time, ctest runs its tests; a header changes and all begins again
# Needs: cmake ninja-build g++
#SBATCH --job-name=cmake-ninja --ntasks=1 --output=log
set -eu
echo "configuring"
mkdir -p src/tests
cd src
cat >CMakeLists.txt <<'C'
cmake_minimum_required(VERSION 3.20)
project(shapes CXX)
set(CMAKE_CXX_STANDARD 20)
include(CTest)
file(GLOB parts CONFIGURE_DEPENDS part*.cc)
add_custom_command(OUTPUT table.h COMMAND sh ${CMAKE_SOURCE_DIR}/table.sh > table.h DEPENDS table.sh VERBATIM)
add_library(parts STATIC ${parts} table.h)
target_include_directories(parts PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
foreach(n RANGE 1 3)
  add_executable(test${n} tests/test${n}.cc)
  target_link_libraries(test${n} parts)
  add_test(NAME test${n} COMMAND test${n} ${n})
endforeach()
C
echo 'echo "constexpr int table[] = {"; seq -s, 40; echo "};"' >table.sh
echo 'constexpr int scale = 3;' >scale.h
for i in $(seq 6); do
	printf '#include <map>\n#include <string>\n#include "scale.h"\n#include "table.h"\nint part%d(int x) { std::map<int, std::string> m; for (int t : table) m[t * scale %% %d] += "x"; return m.size() * x + %d; }\n' $i $((i + 5)) $i >part$i.cc
done
for n in 1 2 3; do
	printf '#include <iostream>\nint part%d(int); int part%d(int);\nint main(int, char **v) { int n = std::stoi(v[1]), s = part%d(n) * 100 + part%d(n); std::cout << "sum " << s << std::endl; return s < 0; }\n' $n $((n + 3)) $n $((n + 3)) >tests/test$n.cc
	sed -i 's/^#include <iostream>/&\n#include <string>/' tests/test$n.cc
done
cd ..
cmake -S src -B build -G Ninja -DCMAKE_BUILD_TYPE=Release >output
echo "configured"
for turn in 1 2; do
	ninja -C build -j 2 >>output
	(cd build && ctest -j 2 --output-log out --verbose >/dev/null && grep -o 'sum [0-9]*' out | sort >>../sums)
	echo "turn $turn: $(wc -l <sums) sums"
	echo "constexpr int scale = $((turn + 4));" >src/scale.h
done
rm -r build output
sha256sum sums
