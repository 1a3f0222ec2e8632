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

// InputRelay has the two files of a warden for the standard input of its program (slurm-spank/warden/input.c): the pipe
// from slurmstepd, and the queue, a file with the input for which the program's pipe has no room.
//
// The warden is a process of the user, and may have any other file in their places, also one of a file system that the
// user serves: even to close a copy of such a file would wait for the server. So a descriptor is first opened with
// O_PATH, and only a pipe or a file in memory is then opened anew.
//
// Slurm may kill the warden while a checkpoint is made. So pipe and queue are kept open from a moment before the
// program is frozen (KeptInputs), and Settle completes the work of a killed warden.
type InputRelay struct {
	warden, stepd Process
	payer         Payer
	from          int // -1 after the end of the input
	queue         int
	at            int64  // offset of the queue's first byte in its file
	info          string // path of the file in /proc that has this offset now
	over          bool   // no input comes after the bytes in the queue
	settled       bool   // at is right also after the end of the warden
	taken         int64  // how many bytes drainPipe has moved
	turns         int    // how often drainPipe has found bytes in the pipe
}

// queueLink is the queue among the descriptors of a warden.
const queueLink = "/memfd:sing-input (deleted)"

// wardenDescriptors bounds the descriptors of a warden that are looked at. A warden has some ten; its user may have
// given the process any number.
const wardenDescriptors = 1024

// OpenInputRelay opens the pipe and the queue of a warden. pipe is the program's standard input, as in Program.Stdio;
// the memory of bytes that are written into the queue is counted for payer. The result is nil if the warden passes no
// input on: the program's input is no pipe or at its end, or the warden is of an older release, or has ended.
func OpenInputRelay(warden Process, pipe string, payer Payer) (*InputRelay, error) {
	if warden.PID == 0 || !strings.HasPrefix(pipe, "pipe:[") {
		return nil, nil
	}
	r := &InputRelay{warden: warden, payer: payer, from: -1, queue: -1}
	err := r.openDescriptors(fmt.Sprintf("/proc/%d", warden.PID), pipe)
	if err == nil {
		r.stepd, err = findParent(warden)
	}
	if isGone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH); isGone || warden.HasEnded() {
		r.Close() // the open files may be another process's
		return nil, nil
	}
	if err == nil && r.queue >= 0 {
		seals, err := unix.FcntlInt(uintptr(r.queue), unix.F_GET_SEALS, 0)
		r.over = r.from < 0 || err == nil && seals&unix.F_SEAL_GROW != 0
		return r, nil
	}
	r.Close()
	return nil, err
}

// findParent returns the slurmstepd of a warden.
func findParent(warden Process) (Process, error) {
	pid, err := ParentPID(warden.PID)
	if err != nil {
		return Process{}, err
	}
	return NewProcess(pid)
}

// openDescriptors opens the parts of the relay of the warden with a folder of /proc.
func (r *InputRelay) openDescriptors(dir, pipe string) error {
	kinds, err := fileKinds()
	if err != nil {
		return err
	}
	folder, err := os.Open(dir + "/fd")
	if err != nil {
		return err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(wardenDescriptors + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(names) > wardenDescriptors {
		return fmt.Errorf("sing-warden has more than %d descriptors", wardenDescriptors)
	}
	for _, name := range names {
		if err := r.openDescriptor(dir, name, pipe, kinds); err != nil {
			return err
		}
	}
	return nil
}

// openDescriptor opens a descriptor of the warden if it is a part of the relay.
func (r *InputRelay) openDescriptor(dir, name, pipe string, kinds relayKinds) error {
	path := filepath.Join(dir, "fd", name)
	link, err := os.Readlink(path)
	if err != nil || !strings.HasPrefix(link, "pipe:[") && link != queueLink || link == pipe {
		return nil //nolint:nilerr // the descriptor has been closed
	}
	place, mode, kind := &r.from, unix.O_RDONLY, kinds.pipe
	if link == queueLink {
		place, mode, kind = &r.queue, unix.O_RDWR, kinds.memory
	}
	info := filepath.Join(dir, "fdinfo", name)
	at, flags, err := parsePosition(info)
	if err != nil || flags&unix.O_ACCMODE != mode || *place >= 0 {
		return nil //nolint:nilerr // as above
	}
	fd, err := openIf(path, kind, mode)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, errOtherKind) {
		return nil
	}
	if err != nil {
		return err
	}
	*place = fd
	if link == queueLink {
		r.at, r.info = at, info
	}
	return nil
}

// fileKind identifies files of a kind.
type fileKind struct {
	device uint64 // of a file system that no user can mount
	format uint32 // S_IFIFO, for instance
}

// relayKinds are the kinds of the parts of a relay.
type relayKinds struct{ pipe, memory fileKind }

// fileKinds returns the kinds of the parts of a relay.
func fileKinds() (all relayKinds, err error) {
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

// errOtherKind is the error for a descriptor that is not of the kind that its link says.
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

// parsePosition reads a file of fdinfo.
func parsePosition(info string) (at int64, flags int, err error) {
	b, err := os.ReadFile(info)
	if err == nil {
		_, err = fmt.Sscanf(string(b), "pos: %d\nflags: %o\n", &at, &flags)
	}
	return at, flags, err
}

// Stepd returns the slurmstepd that the input comes from.
func (r *InputRelay) Stepd() Process { return r.stepd }

// WaitUntilTaken returns when the warden has read everything from slurmstepd's pipe, or has ended.
func (r *InputRelay) WaitUntilTaken(ctx context.Context) error {
	if r.from < 0 {
		return nil
	}
	return waitUntilEmpty(ctx, r.from, r.warden.HasEnded)
}

// errInputCut is the error for input of which a part may be lost.
var errInputCut = errors.New("slurmstepd has ended before the input has")

// Settle notes where the queue begins, and whether the input has ended. The program must be frozen, and slurmstepd and
// the warden must have been idle since. If Slurm has killed the warden, Settle moves the bytes that are left in
// slurmstepd's pipe into the queue. more is true if there were any: slurmstepd may have sent more since then, and
// Settle is to be called again.
func (r *InputRelay) Settle(ctx context.Context) (more bool, err error) {
	at, _, err := parsePosition(r.info)
	if !r.warden.HasEnded() {
		if err != nil {
			return false, err
		}
		if _, err := r.checkQueue(at); err != nil {
			return false, err
		}
		r.at, r.settled = at, true
	} else if more, err = r.drainPipe(ctx); more || err != nil {
		return more, err
	}
	ended := r.HasEnded()
	if !r.over && r.stepd.HasEnded() { // else slurmstepd has closed its end because the input is at its end
		return false, errInputCut
	}
	r.over = ended
	return false, nil
}

// Copy returns a relay with descriptors of its own. The caller closes the copy.
func (r *InputRelay) Copy() (*InputRelay, error) {
	c := *r
	c.from, c.queue = -1, -1
	for from, to := range map[int]*int{r.from: &c.from, r.queue: &c.queue} {
		if from < 0 {
			continue
		}
		fd, err := unix.FcntlInt(uintptr(from), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			c.Close()
			return nil, os.NewSyscallError("fcntl", err)
		}
		*to = fd
	}
	return &c, nil
}

// ClosePipe closes slurmstepd's pipe: no more input comes. As long as the pipe is open, slurmstepd does not see that
// the warden has closed its end.
func (r *InputRelay) ClosePipe() {
	if r.from >= 0 {
		unix.Close(r.from)
		r.from = -1
	}
}

// IsSettled tells whether Settle has noted where the queue begins.
func (r *InputRelay) IsSettled() bool { return r.settled }

// HasEnded tells whether no input comes after the bytes in the queue.
func (r *InputRelay) HasEnded() bool {
	if r.over || r.from < 0 {
		return r.over
	}
	p := []unix.PollFd{{Fd: int32(r.from), Events: unix.POLLIN}}
	_, err := unix.Poll(p, 0)
	return err == nil && p[0].Revents == unix.POLLHUP // no writer, and no bytes to read
}

// Close gives up pipe and queue.
func (r *InputRelay) Close() {
	r.ClosePipe()
	if r.queue >= 0 {
		unix.Close(r.queue)
		r.queue = -1
	}
}
