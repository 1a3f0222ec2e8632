// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestLibraries: after a restore on a node where the files of libraries have other inodes, dlopen by another path finds
// a library that is loaded, in the process that loaded it and in its child.
func TestLibraries(t *testing.T) {
	needCRIU(t)
	work := workDir(t)
	c := newCapsule(t)
	r := c.runProgram("/usr/bin/python3", "-c", fmt.Sprintf("WORK = %q", work)+`
import ctypes, os, shutil
libc = next(line.split()[5] for line in open('/proc/self/maps') if '/libc.so.6' in line)
shutil.copy(os.path.dirname(libc) + '/libanl.so.1', WORK + '/lib.so'); os.symlink('lib.so', WORK + '/other.so')
loaded = ctypes.CDLL(WORK + '/lib.so')
r, w = os.pipe(); r2, w2 = os.pipe()
def found():
    try: return ctypes.CDLL(WORK + '/other.so', mode=os.RTLD_NOLOAD | os.RTLD_NOW)._handle == loaded._handle
    except OSError as e: return e
if os.fork() == 0:
    while os.read(r, 1): os.write(w2, b'%9r' % found())
    os._exit(0)
print('ready', flush=True)
while True:
    input(); os.write(w, b'.')
    print(found(), os.read(r2, 9).decode().strip(), flush=True)`)
	r.expectLine("ready")
	// Ask for each path once only: the C library notes each path by which a library was found.
	dir := newImageFolder(t)
	img := dumpProgram(t, r.program, dir)
	c.endCapsule()

	lib := filepath.Join(work, "lib.so")
	b, err := os.ReadFile(lib)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(lib)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lib+".new", b, st.Mode()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(lib+".new", user, user); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(lib+".new", lib); err != nil {
		t.Fatal(err)
	}
	_, r = restoreImage(t, img, dir)
	r.askAndExpect("?", "True True")
}

// TestListThatLeadsBack: renewLists follows a list of the C library's that a program has made endless for a while only,
// and changes nothing but the numbers in it.
func TestListThatLeadsBack(t *testing.T) {
	const debug, entry, numbers = 0, 64, 64 + 40
	b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	begin := uint64(uintptr(unsafe.Pointer(&b[0])))
	for at, value := range map[int]uint64{
		debug: 2, debug + 8: begin + entry, debug + 40: begin + debug, // r_version, r_map, r_next
		entry + 24: begin + entry, // l_next
	} {
		binary.NativeEndian.PutUint64(b[at:], value)
	}
	was, is := library{5, 7}, library{6, 8}
	copy(b[numbers:], was.encodeNumbers())
	want := slices.Clone(b)
	copy(want[numbers:], is.encodeNumbers())
	m := processMemory{host: os.Getpid(), parts: []addressRange{{begin, begin + uint64(len(b))}}}
	if seen := m.renewLists(begin+debug, changes{string(was.encodeNumbers()): is.encodeNumbers()}); seen > maxLibraries {
		t.Errorf("looked at %d entries", seen)
	}
	if !bytes.Equal(b, want) {
		t.Error("something else was changed")
	}
}
