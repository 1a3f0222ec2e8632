// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
)

// InputRelay is what a warden has for the standard input of its program (slurm-spank/warden/input.c): the
// pipe from slurmstepd, and the queue, which has what the program's pipe has no room for.
//
// The warden is a process of the user, and may have anything in their places, also a file of a server of the user: even to
// close a copy of that would wait for the server. So a descriptor is first looked at by O_PATH, and only a pipe or a file in
// memory is opened, anew.
type InputRelay struct {
	from  int // -1 after the end of the input
	queue int
	at    int64  // where the queue's first byte is in its file
	info  string // path that says where that is now; "" for a copy
	over  bool   // the input had ended before the program was restored, or when the queue was copied
}

// queueLink is the queue among the descriptors of a warden.
const queueLink = "/memfd:sing-input (deleted)"

// maxQueue bounds what is saved of a queue; a warden keeps no more.
const maxQueue = 64 << 20

// OpenInputRelay returns what a warden has. pipe is the program's standard input, as in Program.Stdio.
// The result is nil if the warden passes nothing on: the program's input is no pipe or at its end, or the
// warden is of an older release, or has ended.
func OpenInputRelay(warden Process, pipe string) (*InputRelay, error) {
	if warden.PID == 0 || !strings.HasPrefix(pipe, "pipe:[") {
		return nil, nil
	}
	r := &InputRelay{from: -1, queue: -1}
	err := r.openDescriptors(fmt.Sprintf("/proc/%d", warden.PID), pipe)
	if isGone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH); isGone || warden.HasEnded() {
		r.Close() // what is open may be another process's
		return nil, nil
	}
	if err == nil && r.queue >= 0 {
		seals, err := unix.FcntlInt(uintptr(r.queue), unix.F_GET_SEALS, 0)
		r.over = err == nil && seals&unix.F_SEAL_GROW != 0
		return r, nil
	}
	r.Close()
	return nil, err
}

// openDescriptors opens the parts of the relay of the warden with a folder of /proc.
func (r *InputRelay) openDescriptors(dir, pipe string) error {
	kinds, err := fileKinds()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, "fd", e.Name())
		link, err := os.Readlink(path)
		if err != nil || !strings.HasPrefix(link, "pipe:[") && link != queueLink || link == pipe {
			continue
		}
		place, mode, kind := &r.from, unix.O_RDONLY, kinds.pipe
		if link == queueLink {
			place, mode, kind = &r.queue, unix.O_RDWR, kinds.memory
		}
		info := filepath.Join(dir, "fdinfo", e.Name())
		at, flags, err := positionOf(info)
		if err != nil || flags&unix.O_ACCMODE != mode || *place >= 0 {
			continue
		}
		fd, err := openIf(path, kind, mode)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, errOtherKind) {
			continue
		}
		if err != nil {
			return err
		}
		*place = fd
		if link == queueLink {
			r.at, r.info = at, info
		}
	}
	return nil
}

// fileKind is what files of a kind have in common.
type fileKind struct {
	device uint64 // of a file system that no user can mount
	format uint32 // S_IFIFO, for instance
}

// fileKinds returns the kinds of the parts of a relay.
func fileKinds() (all struct{ pipe, memory fileKind }, err error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return all, os.NewSyscallError("pipe2", err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	memory, err := unix.MemfdCreate("kind", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL) // which a node may ask for (vm.memfd_noexec)
	if errors.Is(err, unix.EINVAL) {                                               // before Linux 6.3
		memory, err = unix.MemfdCreate("kind", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return all, os.NewSyscallError("memfd_create", err)
	}
	defer unix.Close(memory)
	for fd, kind := range map[int]*fileKind{pipe[0]: &all.pipe, memory: &all.memory} {
		f, err := mounts.Fstat(fd)
		if err != nil {
			return all, err
		}
		*kind = fileKind{f.Device, f.Kind()}
	}
	return all, nil
}

// errOtherKind is the error for a descriptor that is not what its link says.
var errOtherKind = errors.New("another kind of file")

// openIf opens a descriptor of another process, by its link in /proc, if it is of a kind.
func openIf(path string, kind fileKind, mode int) (int, error) {
	look, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("open", err)
	}
	defer unix.Close(look)
	f, err := mounts.Fstat(look)
	if err != nil {
		return -1, err
	}
	if f.Device != kind.device || f.Kind() != kind.format {
		return -1, errOtherKind
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", look), mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	return fd, os.NewSyscallError("open", err)
}

// positionOf reads a file of fdinfo.
func positionOf(info string) (at int64, flags int, err error) {
	b, err := os.ReadFile(info)
	if err == nil {
		_, err = fmt.Sscanf(string(b), "pos: %d\nflags: %o\n", &at, &flags)
	}
	return at, flags, err
}

// WaitUntilTaken returns when the warden has read everything from slurmstepd's pipe.
func (r *InputRelay) WaitUntilTaken(ctx context.Context) error {
	if r.from < 0 {
		return nil
	}
	return waitUntilEmpty(ctx, r.from)
}

// CopyQueue returns the queue alone, as it is now, which stays when the warden ends. The warden must be idle, and be there
// still. The caller closes the copy.
func (r *InputRelay) CopyQueue() (*InputRelay, error) {
	at := r.at
	if r.info != "" {
		var err error
		if at, _, err = positionOf(r.info); err != nil {
			return nil, err
		}
	}
	fd, err := unix.FcntlInt(uintptr(r.queue), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return &InputRelay{from: -1, queue: fd, at: at, over: r.HasEnded()}, nil
}

// HasEnded tells whether nothing comes after what is in the queue.
func (r *InputRelay) HasEnded() bool {
	if r.from < 0 || r.over {
		return true
	}
	p := []unix.PollFd{{Fd: int32(r.from), Events: unix.POLLIN}}
	_, err := unix.Poll(p, 0)
	return err == nil && p[0].Revents == unix.POLLHUP // no writer, and nothing to read
}

// Queue returns what is in the queue of CopyQueue.
func (r *InputRelay) Queue() (*io.SectionReader, error) {
	var st unix.Stat_t
	if err := unix.Fstat(r.queue, &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if r.at < 0 || r.at > st.Size || st.Size-r.at > maxQueue {
		return nil, fmt.Errorf("the queue's file is of %d bytes, and begins at %d", st.Size, r.at)
	}
	return io.NewSectionReader(memoryFile(r.queue), r.at, st.Size-r.at), nil
}

// Fill puts what was in the queue of another warden into this one's, which must be empty, before the warden
// is told that its program has been restored. It returns how many bytes that was.
func (r *InputRelay) Fill(from io.Reader) (int64, error) {
	return io.Copy(io.NewOffsetWriter(memoryFile(r.queue), 0), io.LimitReader(from, maxQueue))
}

// End lets nothing come after what Fill has put into the queue. It is for an input of which HasEnded was true.
func (r *InputRelay) End() error {
	_, err := unix.FcntlInt(uintptr(r.queue), unix.F_ADD_SEALS, unix.F_SEAL_GROW)
	return os.NewSyscallError("F_ADD_SEALS", err)
}

// memoryFile is a descriptor of a file in memory.
type memoryFile int

// ReadAt is that of io.ReaderAt.
func (m memoryFile) ReadAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		got, err := unix.Pread(int(m), b[n:], at+int64(n))
		if err != nil {
			return n, os.NewSyscallError("read the queue", err)
		}
		if got == 0 {
			return n, io.ErrUnexpectedEOF
		}
		n += got
	}
	return n, nil
}

// WriteAt is that of io.WriterAt.
func (m memoryFile) WriteAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		wrote, err := unix.Pwrite(int(m), b[n:], at+int64(n))
		if err != nil {
			return n, os.NewSyscallError("write the queue", err)
		}
		n += wrote
	}
	return n, nil
}

// Close gives up the copies. As long as they are open, slurmstepd does not see the warden close its own.
func (r *InputRelay) Close() {
	for _, fd := range []int{r.from, r.queue} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
