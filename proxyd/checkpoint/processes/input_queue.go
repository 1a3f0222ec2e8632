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
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/asuser"
)

const (
	// maxQueue bounds the saved bytes of a queue; a warden keeps no more.
	maxQueue = 64 << 20
	// maxTurns bounds how often drainPipe finds bytes in the pipe: each time it starts a process. If a process writes
	// large pieces, the kernel has a page or more of them each time, so the queue is full first. But the user's processes
	// may write single bytes.
	maxTurns = maxQueue / (4 << 10)
	// maxUnpaid bounds the bytes of a killed warden's input that this daemon itself moves if the cgroup was removed
	// together with the warden. It is the capacity of a user's pipe.
	maxUnpaid = 1 << 20
)

// Payer is the user that memory is taken for, and the cgroup that counts it; "" is this daemon's own.
type Payer struct {
	UID, GID uint32
	Cgroup   string
}

func (r *InputRelay) queueSize() (int64, error) {
	var st unix.Stat_t
	err := unix.Fstat(r.queue, &st)
	return st.Size, os.NewSyscallError("fstat", err)
}

// checkQueue returns the size of the queue's file, with an error if the queue cannot begin at a position, which the user's
// processes can set as they like, or has more than a warden keeps.
func (r *InputRelay) checkQueue(at int64) (int64, error) {
	size, err := r.queueSize()
	if err == nil && (at < 0 || at > size || size-at > maxQueue) {
		err = fmt.Errorf("the queue's file is of %d bytes, and begins at %d", size, at)
	}
	return size, err
}

// Queue returns the bytes of the queue, as Settle has found them.
func (r *InputRelay) Queue() (*io.SectionReader, error) {
	size, err := r.checkQueue(r.at)
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(memoryFile(r.queue), r.at, size-r.at), nil
}

// drainPipe moves the bytes in slurmstepd's pipe into the queue, and tells whether there were any. The warden has
// ended.
func (r *InputRelay) drainPipe(ctx context.Context) (bool, error) {
	size, err := r.queueSize()
	if err != nil {
		return false, err
	}
	if !r.settled && size > 0 {
		return false, errors.New("sing-warden was killed before all was in the queue")
	}
	if !r.settled { // an empty queue begins at 0: the warden truncates it
		r.at, r.settled = 0, true
	}
	if r.from < 0 || r.over {
		return false, nil
	}
	if _, err := r.checkQueue(r.at); err != nil {
		return false, err
	}
	waiting, err := unix.IoctlGetInt(r.from, unix.TIOCINQ)
	if err != nil || waiting == 0 {
		return false, os.NewSyscallError("FIONREAD", err)
	}
	// taken is bounded as well: the queue's file may be cut while it is written to.
	if most := maxQueue - max(size-r.at, r.taken); int64(waiting) > most {
		return false, fmt.Errorf("more is on its way than the %d MiB that are kept", maxQueue>>20)
	}
	if r.turns++; r.turns > maxTurns {
		return false, fmt.Errorf("after %d turns there is still more on its way", maxTurns)
	}
	r.taken += int64(waiting)
	n, err := r.writeQueue(ctx, io.LimitReader(waitingInput(r.from), int64(waiting)), size, r.payerNow())
	return n > 0, err
}

// payerNow returns the payer. If Slurm has removed the cgroup together with the warden, this daemon pays, for maxUnpaid
// bytes at most.
func (r *InputRelay) payerNow() Payer {
	payer := r.payer
	if payer.Cgroup == "" || r.taken > maxUnpaid {
		return payer
	}
	if _, err := os.Stat(payer.Cgroup); errors.Is(err, fs.ErrNotExist) {
		payer.Cgroup = ""
	}
	return payer
}

// waitingInput reads the bytes that are in a pipe now. Its end is the moment at which the pipe is empty.
type waitingInput int

// Read implements io.Reader.
func (w waitingInput) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(w), b)
		switch {
		case errors.Is(err, unix.EINTR):
		case n == 0 || errors.Is(err, unix.EAGAIN): // the user's processes may have read from the pipe, too
			return 0, io.EOF
		default:
			return max(n, 0), os.NewSyscallError("read", err)
		}
	}
}

// Fill puts the bytes of another warden's queue into the queue of this warden, which must be empty, before the warden
// is told that its program is restored. It returns the number of bytes.
func (r *InputRelay) Fill(ctx context.Context, from io.Reader) (int64, error) {
	return r.writeQueue(ctx, io.LimitReader(from, maxQueue), 0, r.payer)
}

// writeQueue writes into the queue's file from a position on, and returns how many bytes that was.
//
// The kernel counts memory for the process that writes first. So a process of the user writes, in the job's cgroup: else
// the tasks of a node could have this daemon pay for 64 MiB each.
func (r *InputRelay) writeQueue(ctx context.Context, from io.Reader, at int64, payer Payer) (int64, error) {
	if payer.Cgroup == "" {
		return io.Copy(io.NewOffsetWriter(memoryFile(r.queue), at), from)
	}
	group, err := os.Open(payer.Cgroup)
	if err != nil {
		return 0, err
	}
	defer group.Close()
	fd, err := unix.FcntlInt(uintptr(r.queue), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("fcntl", err)
	}
	queue := os.NewFile(uintptr(fd), "queue")
	defer queue.Close()
	if _, err := queue.Seek(at, io.SeekStart); err != nil {
		return 0, err
	}
	cmd := asuser.Command(ctx, payer.UID, payer.GID, group, "/bin/cat")
	cmd.Stdin, cmd.Stdout = from, queue
	cmd.WaitDelay = 5 * time.Second // another process of the user's may have taken the pipe to cat
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("fill the queue in %s: %w", payer.Cgroup, err)
	}
	size, err := r.queueSize()
	return size - at, err
}

// End marks the bytes that Fill has put into the queue as the last of the input. It is for an input of which HasEnded
// was true.
func (r *InputRelay) End() error {
	_, err := unix.FcntlInt(uintptr(r.queue), unix.F_ADD_SEALS, unix.F_SEAL_GROW)
	return os.NewSyscallError("F_ADD_SEALS", err)
}

// memoryFile is a descriptor of a file in memory.
type memoryFile int

// ReadAt implements io.ReaderAt.
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

// WriteAt implements io.WriterAt.
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
