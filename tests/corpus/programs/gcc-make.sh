#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: make builds a library of generated C files with gcc, links, tests and rebuilds it
# Needs: gcc make binutils
#SBATCH --job-name=gcc-make --ntasks=1 --output=log
set -eu
echo "generating"
for i in $(seq 24); do
	cat >"f$i.c" <<C
#include <stdint.h>
#include <string.h>
#include "all.h"
static uint64_t table[64];
uint64_t f$i(uint64_t x)
{
	for (int k = 0; k < 64; k++)
		table[k] = table[(k + $i) & 63] * 6364136223846793005ULL + x + k;
	for (int k = 0; k < $((i * 3)); k++)
		x ^= table[x & 63] >> (k & 31), x = x << 13 | x >> 51;
	char text[64];
	memset(text, 'a' + $i, sizeof(text));
	return x + strnlen(text, $i);
}
C
	echo "uint64_t f$i(uint64_t);"
done >prototypes
{ echo '#include <stdint.h>'; cat prototypes; } >all.h
{
	echo '#include <stdio.h>'
	echo '#include <inttypes.h>'
	echo '#include "all.h"'
	echo 'int main(void) { uint64_t x = 1; for (int n = 0; n < 2000; n++) {'
	for i in $(seq 24); do echo "x = f$i(x);"; done
	echo '} printf("%016" PRIx64 "\n", x); return 0; }'
} >main.c
printf '%s\n' 'CFLAGS = -O2 -Wall' 'prog: main.o libf.a' '	$(CC) -o $@ $^' \
	'libf.a: $(patsubst %.c,%.o,$(wildcard f*.c))' '	ar rcD $@ $^' '$(wildcard *.o): all.h' >Makefile
make -j2 --no-print-directory | sort
./prog
for level in 1 3 s; do
	echo "again with -O$level"
	touch all.h f?.c
	make --no-print-directory CFLAGS="-O$level" | wc -l
	./prog
done
gcc -O2 -fPIC -shared -o libf.so f1.c f2.c
objdump -d --no-show-raw-insn libf.so | sed 1,3d | sha256sum
rm -f ./*.o prog libf.a libf.so
