#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: GNU's build system: autoreconf, a configure script with its hundreds of small programs, libtool, make check, make dist
# Needs: autoconf automake libtool gcc make
#SBATCH --job-name=autotools --ntasks=1 --output=log
set -eu
echo "preparing"
mkdir pack
cd pack
cat >configure.ac <<'A'
AC_INIT([pack], [1.0], [nobody@example.org])
AC_CONFIG_AUX_DIR([aux])
AM_INIT_AUTOMAKE([foreign no-installinfo])
LT_INIT
AC_PROG_CC
AC_CHECK_HEADERS([stdint.h unistd.h sys/mman.h pthread.h sys/epoll.h linux/io_uring.h windows.h])
AC_CHECK_FUNCS([mmap fork memfd_create pthread_create no_such_function])
AC_C_BIGENDIAN
AC_CHECK_SIZEOF([long])
AC_CONFIG_FILES([Makefile])
AC_CONFIG_HEADERS([config.h])
AC_OUTPUT
A
cat >Makefile.am <<'A'
lib_LTLIBRARIES = libpack.la
libpack_la_SOURCES = one.c two.c
bin_PROGRAMS = pack
pack_SOURCES = main.c
pack_LDADD = libpack.la
TESTS = first.test second.test
EXTRA_DIST = $(TESTS)
A
echo 'int one(int x) { return x * 7919 % 1009; }' >one.c
echo 'int two(int x) { return x * 104729 % 2003; }' >two.c
cat >main.c <<'C'
#include "config.h"
#include <stdio.h>
int one(int), two(int);
int main(void)
{
	for (int i = 0; i < 2000; i++)
		printf("%d %d %d\n", i, one(i), two(i));
	return SIZEOF_LONG != 8;
}
C
printf '#!/bin/sh\n./pack | sha256sum | grep -q .\n' >first.test
printf '#!/bin/sh\n[ $(./pack | wc -l) = 2000 ]\n' >second.test
chmod +x *.test
autoreconf -i >../output 2>&1
echo "configuring"
mkdir ../build
cd ../build
../pack/configure --prefix=/usr --disable-static | grep '^checking for [a-z_/]*\.h\.\.\.\|^checking for [a-z_]*\.\.\.\|^checking size' >../checks
echo "making"
make -s -j2 >>../output 2>&1
make -s check 2>&1 | grep '^# [A-Z]*: '
make -s install DESTDIR="$PWD/tree" >>../output 2>&1
make -s dist >>../output 2>&1
tar xOf pack-1.0.tar.gz pack-1.0/Makefile.am | cmp - ../pack/Makefile.am && echo "packed"
LD_LIBRARY_PATH=tree/usr/lib tree/usr/bin/pack >../numbers
cd ..
rm -r build pack output
sha256sum checks numbers
