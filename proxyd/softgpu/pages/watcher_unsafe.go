// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel can tell which pages were written (Linux 6.7): memory that is registered with a userfaultfd in its asynchronous mode
// is write-protected, the first write to a page takes the protection away silently, and PAGEMAP_SCAN says from which
// pages it was taken.
const (
	uffdAPI          = 0xc018aa3f // UFFDIO_API
	uffdRegister     = 0xc020aa00 // UFFDIO_REGISTER
	uffdWriteProtect = 0xc018aa06 // UFFDIO_WRITEPROTECT
	pagemapScan      = 0xc0606610 // PAGEMAP_SCAN
	uffdVersion      = 0xaa
	uffdUserModeOnly = 1
	uffdWPAsync      = 1 << 15
	uffdModeWP       = 1 << 1
	uffdProtect      = 1 << 0
	pageWritten      = 1 << 1 // PAGE_IS_WRITTEN
)

// Watcher asks the kernel which pages were written.
type Watcher struct {
	uffd    int
	pagemap *os.File
}

// Watching is this process's Watcher; nil if the kernel does not offer userfaultfd's asynchronous mode.
var Watching = sync.OnceValue(func() *Watcher {
	f := Map()
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK|uffdUserModeOnly, 0, 0)
	if f == nil || errno != 0 {
		return nil
	}
	api := [3]uint64{uffdVersion, uffdWPAsync}
	if callIoctl(int(fd), uffdAPI, unsafe.Pointer(&api)) != nil {
		_ = unix.Close(int(fd))
		return nil
	}
	return &Watcher{int(fd), f}
})

// Map is /proc/self/pagemap, or nil where the kernel does not offer it.
var Map = sync.OnceValue(func() *os.File {
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil
	}
	return f
})

// OpenMap has Map open the file now. A process of root that is about to become a user's, and that the user must not look
// into, calls OpenMap before: its file is root's, and stays so. The process does not get the physical addresses of its
// pages, which root may read and the user may not.
func OpenMap() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had, now [2]unix.CapUserData
	if err := unix.Capget(&h, &had[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	now = had
	now[unix.CAP_SYS_ADMIN/32].Effective &^= 1 << (unix.CAP_SYS_ADMIN % 32)
	if err := unix.Capset(&h, &now[0]); err != nil { // of this thread
		return fmt.Errorf("capset: %w", err)
	}
	Map()
	if err := unix.Capset(&h, &had[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return nil
}

// addressOf is the address of bytes in this process.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func callIoctl(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// Register has the kernel watch an arena, until the arena is unmapped.
func (w *Watcher) Register(b []byte) error {
	arg := [4]uint64{addressOf(b), uint64(len(b)), uffdModeWP}
	if err := callIoctl(w.uffd, uffdRegister, unsafe.Pointer(&arg)); err != nil {
		return fmt.Errorf("watch %d bytes: %w", len(b), err)
	}
	return nil
}

// region is a page_region: its start, its end and its categories.
type region [3]uint64

// scanArg is a pm_scan_arg.
type scanArg struct {
	size, flags, start, end, walkEnd uint64
	vec                              *region
	vecLen, maxPages                 uint64
	inverted, mask, anyOf, returned  uint64
}

// Protect has writes to b noticed from now on, or no longer.
func (w *Watcher) Protect(b []byte, on bool) error {
	arg := [3]uint64{addressOf(b), uint64(len(b)), 0}
	if on {
		arg[2] = uffdProtect
	}
	return callIoctl(w.uffd, uffdWriteProtect, unsafe.Pointer(&arg))
}

// IsWritten tells whether pages of b were written since its protection. If the kernel does not tell, IsWritten says
// yes.
func (w *Watcher) IsWritten(b []byte) bool {
	var found region
	arg := scanArg{start: addressOf(b), end: addressOf(b) + uint64(len(b)), vec: &found, vecLen: 1, maxPages: 1, mask: pageWritten, returned: pageWritten}
	arg.size = uint64(unsafe.Sizeof(arg))
	err := callIoctl(int(w.pagemap.Fd()), pagemapScan, unsafe.Pointer(&arg))
	return err != nil || found != (region{})
}
