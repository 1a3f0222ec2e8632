// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts/mountstest"
)

// TestInputRelay takes this process for a warden: the queue's bytes are the bytes from the file's offset on, also when
// the warden has let go of the queue.
func TestInputRelay(t *testing.T) {
	self, err := NewProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const pipe = "pipe:[1]" // no pipe of this process has this number
	if r, err := OpenInputRelay(self, pipe, Payer{}); r != nil || err != nil {
		t.Fatalf("without a queue: %v, %v", r, err)
	}
	// A file of that name is no queue.
	other, err := os.Create(filepath.Join(t.TempDir(), "memfd:sing-input (deleted)"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if r, err := OpenInputRelay(self, pipe, Payer{}); r != nil || err != nil {
		t.Fatalf("with a file: %v, %v", r, err)
	}
	queue, err := unix.MemfdCreate("sing-input", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenInputRelay(self, pipe, Payer{})
	if err != nil || r == nil {
		t.Fatalf("OpenInputRelay with a queue = %v, %v; want a relay", r, err)
	}
	defer r.Close()
	if b, err := r.Queue(); err != nil || b.Size() != 0 {
		t.Errorf("of a new queue: %v, %v", b, err)
	}
	if n, err := r.Fill(t.Context(), strings.NewReader("input of a task")); n != int64(len("input of a task")) || err != nil {
		t.Fatalf("Fill wrote %d bytes, %v; want the whole text", n, err)
	}
	if _, err := unix.Seek(queue, int64(len("input ")), 0); err != nil {
		t.Fatal(err)
	}
	if more, err := r.Settle(t.Context()); more || err != nil {
		t.Fatalf("Settle with a warden that runs = %v, %v; want no more", more, err)
	}
	kept, err := r.Copy()
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	unix.Close(queue)
	b, err := kept.Queue()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(b); string(got) != "of a task" || err != nil {
		t.Errorf("the rest of the queue = %q, %v; want \"of a task\"", got, err)
	}
	if err := unix.Ftruncate(r.queue, 3); err != nil {
		t.Fatal(err)
	}
	if b, err := kept.Queue(); err == nil {
		t.Errorf("of a file that ends before its offset: %d bytes", b.Size())
	}
	if err := unix.Ftruncate(r.queue, 1<<40); err != nil {
		t.Fatal(err)
	}
	if _, err := kept.Queue(); err == nil {
		t.Error("Queue of a file of a terabyte: no error")
	}
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(r.queue, 1<<41); err == nil {
		t.Error("the queue of an input that has ended has not been sealed")
	}
	if gone, err := OpenInputRelay(Process{PID: self.PID, Started: self.Started + 1}, pipe, Payer{}); gone != nil || err != nil {
		t.Errorf("of a warden that has ended: %v, %v", gone, err)
	}
}

// falseWarden is a process that has the files of a warden, and only sleeps.
type falseWarden struct {
	cmd     *exec.Cmd
	process Process
	stepd   *os.File // end of slurmstepd's pipe
	queue   *os.File
	payer   Payer
}

// startFalseWarden starts a process with the parts of a warden, and more files.
func startFalseWarden(t *testing.T, more ...*os.File) *falseWarden {
	t.Helper()
	fd, err := unix.MemfdCreate("sing-input", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	w := &falseWarden{cmd: exec.Command("sleep", "1000"), queue: os.NewFile(uintptr(fd), "queue")}
	from, stepd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	w.stepd, w.cmd.ExtraFiles = stepd, append([]*os.File{from, w.queue}, more...)
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.kill()
		w.stepd.Close()
		w.queue.Close()
	})
	if w.process, err = NewProcess(w.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *falseWarden) kill() {
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
}

// open opens the relay of the warden.
func (w *falseWarden) open(t *testing.T) *InputRelay {
	t.Helper()
	r, err := OpenInputRelay(w.process, "pipe:[1]", w.payer)
	if err != nil || r == nil {
		t.Fatalf("OpenInputRelay of the false warden = %v, %v; want a relay", r, err)
	}
	t.Cleanup(r.Close)
	return r
}

// TestInputEnd: that the input has ended is known of a copy if slurmstepd has closed its end, and not otherwise.
func TestInputEnd(t *testing.T) {
	for _, ended := range []bool{false, true} {
		w := startFalseWarden(t)
		r := w.open(t)
		if ended {
			w.stepd.Close()
		}
		if more, err := r.Settle(t.Context()); more || err != nil {
			t.Fatalf("Settle with a warden that runs = %v, %v; want no more", more, err)
		}
		for range 2 {
			r.ClosePipe()
			c, err := r.Copy()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if r = c; c.HasEnded() != ended {
				t.Errorf("ended %v: the copy says %v", ended, c.HasEnded())
			}
		}
	}
}

// TestInputOfKilledWarden: bytes that a killed warden has left in slurmstepd's pipe are appended to its queue. If the
// position in the queue is not known, or if slurmstepd has ended too, that is an error.
func TestInputOfKilledWarden(t *testing.T) {
	for _, k := range []struct {
		name            string
		queued          string
		settle, noStepd bool
		want, problem   string
	}{
		{name: "queue empty", want: "rest"},
		{name: "queue known", queued: "..queue", settle: true, want: "queuerest"},
		{name: "queue not known", queued: "..queue", problem: "was killed before all was in the queue"},
		{name: "slurmstepd has ended", settle: true, noStepd: true, problem: "slurmstepd has ended before the input has"},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := startFalseWarden(t)
			r := w.open(t)
			if _, err := w.queue.WriteString(k.queued); err != nil {
				t.Fatal(err)
			}
			if _, err := w.queue.Seek(int64(min(2, len(k.queued))), io.SeekStart); err != nil {
				t.Fatal(err)
			}
			if k.settle {
				if more, err := r.Settle(t.Context()); more || err != nil {
					t.Fatalf("Settle before the warden is killed = %v, %v; want no more", more, err)
				}
			}
			if _, err := w.stepd.WriteString("rest"); err != nil {
				t.Fatal(err)
			}
			w.kill()
			if k.noStepd {
				w.stepd.Close()
				r.stepd.Started++
			}
			if err := r.WaitUntilTaken(t.Context()); err != nil {
				t.Fatal(err)
			}
			var err error
			for more := true; more && err == nil; {
				more, err = r.Settle(t.Context())
			}
			if k.problem != "" {
				if err == nil || !strings.Contains(err.Error(), k.problem) {
					t.Errorf("Settle of a killed warden: %v, want %s", err, k.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			b, err := r.Queue()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(b); string(got) != k.want || err != nil || r.HasEnded() {
				t.Errorf("the queue = %q, %v, HasEnded %v", got, err, r.HasEnded())
			}
		})
	}
}

// TestInputFalsePosition: the user's processes set the position in the queue's file beyond its end, before the relay is
// settled or after, and go on sending when the warden has ended. No more than a queue is moved.
func TestInputFalsePosition(t *testing.T) {
	w := startFalseWarden(t)
	r := w.open(t)
	seek := func(at int64) {
		t.Helper()
		if _, err := w.queue.Seek(at, io.SeekStart); err != nil {
			t.Fatal(err)
		}
	}
	seek(1 << 40)
	if _, err := r.Settle(t.Context()); err == nil || !strings.Contains(err.Error(), "begins at 1099511627776") {
		t.Fatalf("settled: %v", err)
	}
	seek(0)
	if more, err := r.Settle(t.Context()); more || err != nil {
		t.Fatalf("Settle with the position back at 0 = %v, %v; want no more", more, err)
	}
	w.kill()
	seek(1 << 40)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		b := make([]byte, 1<<20)
		for range 2 * maxQueue >> 20 {
			if _, err := w.stepd.Write(b); err != nil {
				return // the pipe has no reader any more
			}
		}
	}()
	var err error
	for cut := 0; err == nil; cut++ {
		if err = r.WaitUntilTaken(t.Context()); err == nil {
			_, err = r.Settle(t.Context())
		}
		if cut%2 == 0 { // the moved bytes are removed again: not only memory is bounded, but also the number of turns
			_ = w.queue.Truncate(0)
		}
	}
	if !strings.Contains(err.Error(), "more is on its way than the 64 MiB") {
		t.Error(err)
	}
	if size, err := r.queueSize(); err != nil || size > maxQueue {
		t.Errorf("%d bytes are in the queue, %v", size, err)
	}
	r.Close()
	<-sent
}

// TestInputByTheByte: a user's process sends another byte each time that the last has been moved. That ends, long before the
// queue is full.
func TestInputByTheByte(t *testing.T) {
	w := startFalseWarden(t)
	r := w.open(t)
	w.kill()
	for turn := 0; ; turn++ {
		if _, err := w.stepd.WriteString("x"); err != nil {
			t.Fatal(err)
		}
		more, err := r.Settle(t.Context())
		if err != nil {
			if !strings.Contains(err.Error(), "after 16384 turns there is still more on its way") || turn != maxTurns {
				t.Errorf("Settle in turn %d: %v", turn, err)
			}
			break
		}
		if !more || turn > maxTurns {
			t.Fatalf("turn %d: more %v", turn, more)
		}
	}
	if size, err := r.queueSize(); err != nil || size != maxTurns {
		t.Errorf("%d bytes are in the queue, %v", size, err)
	}
}

// TestInputIsPaid: the input that a killed warden has left is written by a process of the user, in the job's cgroup; if
// Slurm has removed the cgroup, this daemon writes no more than a pipe holds.
func TestInputIsPaid(t *testing.T) {
	group := makeCgroup(t)
	w := startFalseWarden(t)
	w.payer = Payer{UID: 1001, GID: 1001, Cgroup: group}
	r := w.open(t)
	if more, err := r.Settle(t.Context()); more || err != nil {
		t.Fatalf("Settle before the warden is killed = %v, %v; want no more", more, err)
	}
	w.kill()
	send := func() (bool, error) {
		t.Helper()
		if _, err := w.stepd.Write(bytes.Repeat([]byte("rest"), 1<<10)); err != nil {
			t.Fatal(err)
		}
		return r.Settle(t.Context())
	}
	if more, err := send(); !more || err != nil {
		t.Fatalf("Settle with bytes in the pipe and a cgroup = %v, %v; want more", more, err)
	}
	// Where the cgroup counts memory; TestFillInCgroup shows that the process is in the cgroup.
	if peak, err := os.ReadFile(filepath.Join(group, "memory.peak")); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(peak))); err != nil || n < 4<<10 {
			t.Errorf("the cgroup has had at most %d bytes, %v", n, err)
		}
	}
	if err := os.Remove(group); err != nil {
		t.Fatal(err)
	}
	if more, err := send(); !more || err != nil {
		t.Errorf("Settle with bytes in the pipe and no cgroup = %v, %v; want more", more, err)
	}
	r.taken = maxUnpaid
	if more, err := send(); more || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Settle after maxUnpaid bytes: more %v, error %v; want ErrNotExist", more, err)
	}
	b, err := r.Queue()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(b); string(got) != strings.Repeat("rest", 2<<10) || err != nil {
		t.Errorf("%d bytes are in the queue, %v", len(got), err)
	}
}

// TestInputDescriptors: a process with more descriptors than any warden has is not looked through.
func TestInputDescriptors(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	w := startFalseWarden(t, slices.Repeat([]*os.File{null}, wardenDescriptors)...)
	if r, err := OpenInputRelay(w.process, "pipe:[1]", w.payer); err == nil || !strings.Contains(err.Error(), "more than 1024 descriptors") {
		t.Errorf("a warden with too many descriptors: relay %v, error %v; want an error about descriptors", r, err)
	}
}

// watchedReader calls a function at each read.
type watchedReader struct {
	io.Reader
	watch func()
}

func (w watchedReader) Read(b []byte) (int, error) {
	w.watch()
	return w.Reader.Read(b)
}

// TestFillInCgroup: a process of the user, in a cgroup of the job, fills the queue of a restored task's warden.
func TestFillInCgroup(t *testing.T) {
	group := makeCgroup(t)
	r := startFalseWarden(t).open(t)
	data := bytes.Repeat([]byte("input"), 1<<20)
	var uids []string
	from := watchedReader{bytes.NewReader(data), func() {
		pids, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		if err != nil {
			t.Error(err)
		}
		for _, pid := range strings.Fields(string(pids)) {
			program, err := os.Readlink("/proc/" + pid + "/exe") // before its user: setpriv runs as root at first, and writes no input
			if err != nil {
				t.Error(err)
			}
			b, err := os.ReadFile("/proc/" + pid + "/status")
			if err != nil {
				t.Error(err)
			}
			_, uid, _ := strings.Cut(string(b), "\nUid:\t")
			uid, _, _ = strings.Cut(uid, "\t")
			if filepath.Base(program) != "setpriv" {
				uids = append(uids, uid)
			}
		}
	}}
	r.payer = Payer{UID: 1001, GID: 1001, Cgroup: group}
	n, err := r.Fill(t.Context(), from)
	if n != int64(len(data)) || err != nil {
		t.Fatalf("Fill wrote %d bytes, %v; want all", n, err)
	}
	if uids = slices.Compact(uids); !slices.Equal(uids, []string{"1001"}) {
		t.Errorf("processes of the users %v were in the cgroup", uids)
	}
	b, err := r.Queue()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(b); !bytes.Equal(got, data) || err != nil {
		t.Errorf("%d bytes are in the queue, %v", len(got), err)
	}
	r.payer.Cgroup = t.TempDir()
	if n, err := r.Fill(t.Context(), strings.NewReader("x")); err == nil {
		t.Errorf("%d bytes were written outside of a cgroup", n)
	}
}

// makeCgroup returns the path of a new cgroup v2; it skips the test on a host where tests cannot make one.
func makeCgroup(t *testing.T) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			continue
		}
		if dir, err := os.MkdirTemp(root, "processes-test-"); err == nil {
			t.Cleanup(func() { _ = os.Remove(dir) })
			return dir
		}
	}
	t.Skip("needs root and cgroup v2")
	return ""
}

// TestKeptInputs: a relay that comes late is in no later attempt, and is closed.
func TestKeptInputs(t *testing.T) {
	w := startFalseWarden(t)
	var k KeptInputs
	isOpen := func(r *InputRelay) bool { return r.queue >= 0 }
	first, late, second := w.open(t), w.open(t), w.open(t)
	if err := k.Keep(1, "p", w.open(t)); err == nil {
		t.Error("kept before an attempt has begun")
	}
	k.Begin(1)
	if err := k.Keep(1, "p", first); err != nil || !isOpen(first) {
		t.Fatal(err)
	}
	k.Begin(1)
	c, err := k.Copy(1, "p")
	if err != nil || c == nil {
		t.Fatalf("Copy in the attempt that keeps a relay = %v, %v", c, err)
	}
	defer c.Close()
	k.Forget()
	if isOpen(first) || !isOpen(c) {
		t.Errorf("open after the attempt: %v, and a copy %v", isOpen(first), isOpen(c))
	}
	k.Begin(2)
	if err := k.Keep(1, "p", late); err == nil || isOpen(late) {
		t.Errorf("Keep of a relay that comes late: %v, want an error and a closed relay", err)
	}
	if c, err := k.Copy(2, "p"); c != nil || err != nil {
		t.Errorf("of the first attempt in the second: %v, %v", c, err)
	}
	if err := k.Keep(2, "p", second); err != nil {
		t.Fatal(err)
	}
	k.Close()
	k.Begin(3)
	if err := k.Keep(3, "p", w.open(t)); err == nil || isOpen(second) {
		t.Errorf("Keep after Close: %v, want an error", err)
	}
}

// TestInputOfServer: a file that a user serves, with the link of a queue, is not as much as closed, which would wait for the user's
// server.
func TestInputOfServer(t *testing.T) {
	self, err := NewProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	s := mountstest.Serve(t, 1001)
	fd, err := unix.Open(filepath.Join(s.Folder, "memfd:sing-input (deleted)"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Unmount(s.Folder, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil || link != queueLink {
		t.Fatalf("name of the unmounted file: %q, %v; want that of a queue", link, err)
	}
	s.Silence()
	if r, err := OpenInputRelay(self, "pipe:[1]", Payer{}); r != nil || err != nil {
		t.Errorf("OpenInputRelay of a file that a user's server serves: %v, %v; want nil", r, err)
	}
	if n := s.Closed(); n != 0 {
		t.Errorf("the server was told %d times that its file is closed", n)
	}
}
