#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Meson: options, generated sources, a shared library, tests and benchmarks that run side by side, a second configuration with a sanitizer
# Needs: meson ninja-build gcc
#SBATCH --job-name=meson-tests --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d)
echo "setting up"
mkdir -p src
cd src
cat >meson.build <<'M'
project('sums', 'c', default_options: ['c_std=gnu11', 'warning_level=2'])
gen = find_program('gen.py')
sources = []
foreach i : range(1, 9)
  sources += custom_target('part@0@'.format(i), output: 'part@0@.c'.format(i), command: [gen, i.to_string(), '@OUTPUT@'])
endforeach
lib = shared_library('sums', sources)
foreach i : range(1, 9)
  exe = executable('t@0@'.format(i), 't.c', c_args: '-DPART=@0@'.format(i), link_with: lib)
  test('sum @0@'.format(i), exe, args: [get_option('rounds').to_string()], timeout: 600)
endforeach
configure_file(output: 'config.h', configuration: {'ROUNDS': get_option('rounds')})
M
echo "option('rounds', type: 'integer', value: 40)" >meson.options
cat >gen.py <<'P'
#!/usr/bin/env python3
import sys
n = int(sys.argv[1])
with open(sys.argv[2], "w") as f:
    for i in range(60):
        print(f"unsigned f{n}_{i}(unsigned x) {{ for (int j = 0; j < {i + 9}; j++) x = x * {2 * i + n}u + (x >> {i % 13 + 1}); return x; }}", file=f)
    print(f"unsigned part{n}(unsigned x) {{ return " + " ^ ".join(f"f{n}_{i}(x)" for i in range(60)) + "; }", file=f)
P
chmod +x gen.py
cat >t.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define NAME_(n) part##n
#define NAME(n) NAME_(n)
unsigned NAME(PART)(unsigned);
int main(int argc, char **argv)
{
	unsigned x = argc;
	for (int i = 0; i < atoi(argv[1]); i++) {
		x = NAME(PART)(x + i);
		usleep(30000);
	}
	printf("part %d: %u\n", PART, x);
	return 0;
}
C
cd ..
for kind in plain sanitized; do
	meson setup build-$kind src -Drounds=$([ $kind = plain ] && echo 60 || echo 20) $([ $kind = plain ] || echo -Db_sanitize=undefined) >output 2>&1
	meson compile -C build-$kind -j 2 >>output
	echo "built $kind"
	meson test -C build-$kind --num-processes 4 --quiet >>output 2>&1
	python3 - build-$kind/meson-logs/testlog.json <<'P' >>results
import json, sys
for t in sorted((json.loads(line) for line in open(sys.argv[1])), key=lambda t: t["name"]):
    print(t["name"], t["result"], t["stdout"].strip())
P
	echo "$kind: $(grep -c OK results) good"
done
rm -r build-* output "$HOME"
sha256sum results
