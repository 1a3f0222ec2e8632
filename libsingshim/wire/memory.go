// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memory is the mapping. The only unsafe code of this package is here and in layout.go: an
// offset outside is a panic, as of any slice.
type memory []byte

const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// MemoryName and MemorySize are the name and the size by which a ring is found in a process's maps.
const (
	MemoryName = "singularity-ring"
	MemorySize = ringSize
)

// makeMemory makes the memfd of a ring.
func makeMemory() (*os.File, error) {
	fd, err := unix.MemfdCreate(MemoryName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make the ring's memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "ring")
	if err := f.Truncate(ringSize); err != nil {
		f.Close()
		return nil, fmt.Errorf("make the ring's memory: %w", err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, fmt.Errorf("seal the ring's memory: %w", err)
	}
	return f, nil
}

// checkMemory tells whether reading the mapping of f can never be a SIGBUS: no process can make
// the file shorter, and its pages are ordinary pages, of which there is no small reserve to run
// out.
func checkMemory(f *os.File) error {
	got, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("the ring is no memfd: %w", err)
	}
	if got&seals != seals {
		return fmt.Errorf("the ring's memory is not sealed: %#x", got)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		return err
	}
	if fs.Type != unix.TMPFS_MAGIC {
		return errors.New("the ring's memory is not of ordinary pages")
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.Size() != ringSize {
		return fmt.Errorf("the ring's memory has %d bytes and not %d", st.Size(), ringSize)
	}
	return nil
}

func mapMemory(f *os.File) (memory, error) {
	m, err := unix.Mmap(int(f.Fd()), 0, ringSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the ring: %w", err)
	}
	return m, nil
}

func (m memory) unmap() error { return unix.Munmap(m) }

func structAt[T any](m memory, offset uint32) *T {
	var t T
	return (*T)(unsafe.Pointer(unsafe.SliceData(m[offset : uintptr(offset)+unsafe.Sizeof(t)])))
}

func (m memory) viewRingHead() *ringHead { return structAt[ringHead](m, 0) }

func (m memory) laneAt(i int) *laneHead { return structAt[laneHead](m, lanesAt+uint32(i)*laneSize) }

// recordAt is the head at a unit, which must be a unit of a lane.
func (m memory) recordAt(unit uint32) *recordHead { return structAt[recordHead](m, unit*unitSize) }

// answerAt is the answer's head, which follows the record at a unit.
func (m memory) answerAt(unit uint32) *answerHead {
	return structAt[answerHead](m, unit*unitSize+recordSize)
}

func (m memory) countAt(offset uint32) (key uint64, n uint32) {
	c := structAt[count](m, offset)
	return atomic.LoadUint64(&c.key), atomic.LoadUint32(&c.n)
}

// halfOfOrder is a half of order, which futexes wait for.
func (m memory) halfOfOrder(i uint32) *uint32 {
	return structAt[uint32](m, uint32(unsafe.Offsetof(ringHead{}.order))+4*i)
}

// The halves of order, by the part of it that changes.
const (
	messagesHalf = 0
	gatesHalf    = 1
)

// waitForWord sleeps until word is woken, and not at all if word is not value. It returns after a
// second at the latest: another process can write the word and forget to wake.
func waitForWord(word *uint32, value uint32) {
	t := unix.Timespec{Sec: 1}
	// FUTEX_WAIT, not private. The caller looks again after any result.
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 0, uintptr(value), uintptr(unsafe.Pointer(&t)), 0, 0)
}

// wakeWaiters wakes up to n threads that wait for word.
func wakeWaiters(word *uint32, n int) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 1, uintptr(n), 0, 0, 0)
}
