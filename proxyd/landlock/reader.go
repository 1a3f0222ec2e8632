// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package landlock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/threaddata"
)

// errHidden means that the kernel's data cannot be read.
var errHidden = errors.New("the kernel does not show the credentials of threads")

// blobSize is how much of a blob is searched for Landlock's pointer. All modules of Linux 6.18 together have fewer than
// 200 bytes there.
const blobSize = 256

// loadReader returns the reader of the words in which threads have the pointers to their domains. The reader is nil if
// the kernel has no Landlock. An error is the reason why this kernel does not show domains.
var loadReader = sync.OnceValues(func() (*threaddata.Reader, error) {
	if !hasLandlock() {
		return nil, nil //nolint:nilnil // no domains to read
	}
	var reader *threaddata.Reader
	err := onOwnThread(func() (err error) {
		reader, err = makeReader()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read Landlock domains by BPF: %w", err)
	}
	return reader, nil
})

// Prepare makes the first FindConfined as quick as any other. Prepare takes a second. It tells whether the kernel has
// Landlock, and returns an error if the kernel does not show domains.
func Prepare() (there bool, err error) {
	reader, err := loadReader()
	return reader != nil || err != nil, err
}

// hasLandlock asks for the version of Landlock. A kernel without Landlock, or that has booted without it, does not know
// the call; with any other answer domains may exist.
func hasLandlock() bool {
	_, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	return errno != unix.ENOSYS && errno != unix.EOPNOTSUPP
}

// onOwnThread calls f on a thread that ends afterwards, so that f may change the thread.
func onOwnThread(f func() error) error {
	answer := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() { // the first thread of a process does not end with its goroutine
			defer runtime.UnlockOSThread()
			answer <- onOwnThread(f)
			return
		}
		answer <- f()
	}()
	return <-answer
}

// makeReader makes the reader. The calling thread is confined afterwards.
func makeReader() (*threaddata.Reader, error) {
	blobs, err := newThreadReader(false, 0, blobSize)
	if err != nil {
		return nil, err
	}
	before, err := readOwnBlob(blobs)
	if err != nil {
		return nil, err
	}
	if err := confineThread(); err != nil {
		return nil, err
	}
	after, err := readOwnBlob(blobs)
	if err != nil {
		return nil, err
	}
	place, err := findPointer(before, after)
	if err != nil {
		return nil, err
	}
	reader, err := newThreadReader(true, place, 8)
	if err != nil {
		return nil, err
	}
	self, found := threaddata.ID{Namespace: threaddata.NamespaceOf(os.Getpid()), Number: uint32(os.Getpid())}, false
	err = readDomains(reader, func(process threaddata.ID) { found = found || process == self })
	if err == nil && !found {
		err = errHidden
	}
	return reader, err
}

// newThreadReader makes a reader of bytes of the threads' blobs.
func newThreadReader(ofProcess bool, at, size uint32) (*threaddata.Reader, error) {
	return threaddata.NewReader(threaddata.ReaderSpec{Name: "sing_landlock", OfProcess: ofProcess, ChooseFields: func(spec *btf.Spec) ([]threaddata.Field, error) {
		// real_cred: the kernel lends a thread other credentials as cred for the length of an operation.
		credentials, err := threaddata.MemberOf(spec, "task_struct", "real_cred")
		if err != nil {
			return nil, err
		}
		blob, err := threaddata.MemberOf(spec, "cred", "security")
		if err != nil {
			return nil, err
		}
		return []threaddata.Field{{Path: []uint32{credentials, blob, at}, Size: size}}, nil
	}})
}

// readOwnBlob returns the blob of the calling thread.
func readOwnBlob(blobs *threaddata.Reader) ([]byte, error) {
	self := threaddata.ID{Namespace: threaddata.NamespaceOf(os.Getpid()), Number: uint32(unix.Gettid())}
	var own []byte
	err := blobs.ReadThreads(func(thread threaddata.ID, blob []byte) {
		if thread == self {
			own = append([]byte(nil), blob...)
		}
	})
	if err == nil && own == nil {
		err = errHidden
	}
	return own, err
}

// findPointer returns the offset of the first word that is null in the blob of a thread before the thread has confined
// itself, and not null in the blob afterwards.
func findPointer(before, after []byte) (uint32, error) {
	for at := 0; at < blobSize; at += 8 {
		if binary.NativeEndian.Uint64(before[at:]) == 0 && binary.NativeEndian.Uint64(after[at:]) != 0 {
			return uint32(at), nil
		}
	}
	return 0, errHidden
}

// confineThread has the calling thread, and its children, make no block devices from then on.
func confineThread() error {
	rules := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK}
	// Each version of Landlock knows the first member.
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), unsafe.Sizeof(rules.Handled_access_fs), 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_create_ruleset", errno)
	}
	defer unix.Close(int(ruleset))
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return os.NewSyscallError("landlock_restrict_self", errno)
	}
	return nil
}
