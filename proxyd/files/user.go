// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// Arg is the hidden first argument by which a main runs Run.
const Arg = "files"

// User says with which user's rights files are read and written, and where.
type User struct {
	PID    int // of the capsule's init, in the caller's PID namespace; 0: the caller's own mounts
	UID    uint32
	GID    uint32
	Groups []uint32
	Cgroup string // of the job: a helper that has much to do is in it; "": the daemon's own
}

// muchWork is the estimated size from which on a helper runs in the job's cgroup. With less work the helper needs
// little memory and runs outside, so that a job at its limit of memory can still be captured.
const muchWork = 4 << 20

// estimateWork estimates the memory that a State and entries take.
func estimateWork(s *State, entries []Entry) (size int) {
	if s != nil {
		for p, f := range s.Files {
			size += 256 + len(p) + len(f.Target) + 128*len(f.Data) + f.Xattrs.countBytes()
		}
	}
	for _, e := range entries {
		size += e.countBytes()
	}
	return size
}

// Job has facts about a job's files that are not in the change list.
type Job struct {
	Exclude []string // absolute paths: these, and all paths below, are neither recorded nor touched
	Logs    []string // absolute paths of the files that Slurm writes, as the capsule sees them: likewise

	// For PutBack. Left: the job has left its nodes at the cut, and no program of it has run since: others have made what
	// the change list does not have. What they have appended to a file stays, unless the file is in Fixed, the absolute
	// paths of files that must have the size of the cut, for a program had them mapped, or open so that CRIU compares it.
	Left  bool
	Fixed []string
}

// userHelper is a process that does the work with the user's rights in the capsule's mount namespace.
// The helper ends when its pipes close.
type userHelper struct {
	*pipe
	cmd    *exec.Cmd
	stderr tail
	in     io.Closer
}

// tail keeps the beginning of a dying helper's error output.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p[:min(len(p), 4096-len(t.b))]...)
	return len(p), nil
}

// startHelper starts a helper for work of a size. The end of ctx kills the helper.
func startHelper(ctx context.Context, u User, work int) (*userHelper, error) {
	h := &userHelper{}
	// By the link and not by the path: the daemon may have been upgraded on disk.
	h.cmd = exec.CommandContext(ctx, "/proc/self/exe", Arg)
	h.cmd.Args[0] = "singularity-files"
	h.cmd.Env = []string{}
	h.cmd.Dir = "/"
	h.cmd.Stderr = &h.stderr
	h.cmd.WaitDelay = 5 * time.Second
	if u.PID != 0 {
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", u.PID))
		if err != nil {
			return nil, err
		}
		defer ns.Close()
		h.cmd.ExtraFiles = []*os.File{ns}
		h.cmd.Args = append(h.cmd.Args, joinArg)
	}
	in, err := h.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.in = in
	h.pipe = newPipe(out, in)
	if u.Cgroup == "" || work < muchWork {
		return h, h.cmd.Start()
	}
	return h, h.startInCgroup(u.Cgroup)
}

// startInCgroup starts the helper in a cgroup of the job: the job's limits then hold for the helper. Where memory is
// short there, the kernel kills the helper before any process of the job: the checkpoint fails, and the job runs on.
func (h *userHelper) startInCgroup(path string) error {
	group, err := os.Open(path)
	if err != nil {
		return err
	}
	defer group.Close()
	h.cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	if err := h.cmd.Start(); err != nil {
		return err
	}
	err = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", h.cmd.Process.Pid), []byte("1000"), 0)
	if err != nil {
		return errors.Join(err, h.cmd.Process.Kill(), h.cmd.Wait())
	}
	return nil
}

// sendOrder sends the messages with which both operations begin.
func (h *userHelper) sendOrder(o order, s *State, entries []Entry) error {
	if err := h.sendJSON(frameOrder, o); err != nil {
		return err
	}
	if s == nil {
		s = &State{}
	}
	if err := h.sendJSON(frameState, s); err != nil {
		return err
	}
	var b []byte
	for _, e := range entries {
		b = appendRecord(b, e)
	}
	return h.sendFrame(frameEntries, b)
}

// nextMessage returns the helper's next message; a failure of the helper becomes the error.
func (h *userHelper) nextMessage() (kind byte, b []byte, err error) {
	kind, b, err = h.receiveFrame()
	if err == nil && kind == frameFailure {
		told := &localsock.ToldError{}
		if err = json.Unmarshal(b, told); err == nil {
			err = told
		}
	}
	return kind, b, err
}

// failureBehind returns the failure that a helper has sent before its end, instead of the error that the pipe is
// broken.
func (h *userHelper) failureBehind(err error) error {
	if !errors.Is(err, syscall.EPIPE) {
		return err
	}
	h.w.Reset(io.Discard)
	if _, _, reason := h.nextMessage(); reason != nil {
		return reason
	}
	return err
}

// endHelper ends the helper. If the helper's death has caused err, the result says so.
func (h *userHelper) endHelper(ctx context.Context, err error) error {
	h.in.Close()
	if err != nil {
		h.cmd.Process.Kill()
	}
	ended := h.cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		return ended
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrClosed):
		return fmt.Errorf("helper died: %w: %s", ended, h.stderr.b)
	}
	return err
}

func namesOf(all []string) []Name {
	var out []Name
	for _, s := range all {
		out = append(out, Name(s))
	}
	return out
}

func (u User) orderFor(job Job) order {
	return order{UID: u.UID, GID: u.GID, Groups: u.Groups, Exclude: namesOf(job.Exclude), Logs: namesOf(job.Logs), Left: job.Left, Fixed: namesOf(job.Fixed)}
}

// Record records the state of the job's files. The programs must be frozen. before is the State that the last Record of
// this capsule returned, or nil; touched has the changes since its Mark. Contents that before does not have go to s, as
// a single stream.
//
// Record runs in a process of its own with the user's rights in the capsule's mount namespace: a file that the user
// could not read is not read. A file that cannot be recorded is in the State's Notes and is no error.
func Record(ctx context.Context, u User, job Job, before *State, touched TouchedFiles, s Saver) (*State, error) {
	state, err := recordFiles(ctx, u, job, before, touched, s)
	if err != nil {
		return nil, fmt.Errorf("record files: %w", err)
	}
	return state, nil
}

func recordFiles(ctx context.Context, u User, job Job, before *State, touched TouchedFiles, s Saver) (*State, error) {
	o := u.orderFor(job)
	keeper, ok := s.(Keeper)
	serial := 1
	if before != nil {
		serial = before.Serial + 1
	}
	o.Stream, o.Reuse, o.Lost, o.Mark = streamOf(serial), ok, touched.Lost || before != nil && before.Lost, touched.Until
	o.Most, o.MostXattrs, o.MostMissing = maxDescribed, maxStateXattrs, maxMissing
	h, err := startHelper(ctx, u, estimateWork(before, touched.Entries))
	if err != nil {
		return nil, err
	}
	state, err := h.recordFiles(o, before, touched, s)
	if err = h.endHelper(ctx, err); err != nil {
		return nil, err
	}
	state.Serial = serial
	if err := state.checkState(); err != nil {
		return nil, err
	}
	for name := range state.Streams {
		if name == o.Stream {
			continue
		}
		if err := keeper.Keep(ctx, name); err != nil {
			return nil, err
		}
	}
	return state, nil
}

func (h *userHelper) recordFiles(o order, before *State, touched TouchedFiles, s Saver) (*State, error) {
	if err := h.sendOrder(o, before, touched.Entries); err != nil {
		return nil, err
	}
	h.most = MaxState
	var out io.WriteCloser
	var size int64
	for {
		kind, b, err := h.nextMessage()
		switch {
		case err != nil:
			return nil, err
		case kind == frameData:
			if out == nil {
				if out, err = s.Create(o.Stream); err != nil {
					return nil, err
				}
			}
			if _, err := out.Write(b); err != nil {
				return nil, err
			}
			size += int64(len(b))
		case kind == frameResult:
			if out != nil {
				if err := out.Close(); err != nil {
					return nil, err
				}
			}
			return o.checkResult(b, before, size)
		default:
			return nil, fmt.Errorf("message %q from the helper", kind)
		}
	}
}

// checkResult takes the State that a helper returned. The helper runs as the user, so its word on
// streams is not believed.
func (o order) checkResult(b []byte, before *State, size int64) (*State, error) {
	state := &State{}
	if err := json.Unmarshal(b, state); err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, f := range state.Files {
		if f != nil {
			for _, g := range f.Data {
				used[g.Stream] = true
			}
		}
	}
	state.Streams = map[string]int64{}
	for name := range used {
		if name == o.Stream {
			state.Streams[name] = size
			continue
		}
		old, ok := int64(0), false
		if before != nil && o.Reuse {
			old, ok = before.Streams[name]
		}
		if !ok {
			return nil, fmt.Errorf("the helper named stream %.80q, which there is not", name)
		}
		state.Streams[name] = old
	}
	return state, nil
}

// PutBack restores the job's files to their state at a cut. after has the job's changes since then. No program of the
// job may be running. PutBack can be called again after an error.
//
// PutBack runs in a process of its own with the user's rights in the capsule's mount namespace. Files that other people
// have changed in the meantime are left alone and named in the Report, and so are files that the user may not change
// (tolerable). Any other reason why a file is not as at the cut, a full disk or an error of a file server, is an error:
// the programs must not go on with such a file.
func PutBack(ctx context.Context, u User, job Job, at *State, after TouchedFiles, l Loader) (Report, error) {
	r, err := putBack(ctx, u, job, at, after, l)
	if err != nil {
		err = fmt.Errorf("put files back: %w", err)
	}
	return r, err
}

func putBack(ctx context.Context, u User, job Job, at *State, after TouchedFiles, l Loader) (Report, error) {
	var r Report
	if err := at.checkState(); err != nil {
		return r, err
	}
	h, err := startHelper(ctx, u, estimateWork(at, after.Entries))
	if err != nil {
		return r, err
	}
	o := u.orderFor(job)
	o.PutBack, o.Lost = true, after.Lost
	err = h.putBack(o, at, after, l, &r)
	return r, h.endHelper(ctx, err)
}

func (h *userHelper) putBack(o order, at *State, after TouchedFiles, l Loader, r *Report) error {
	if err := h.sendOrder(o, at, after.Entries); err != nil {
		return err
	}
	kind, b, err := h.nextMessage()
	if err != nil {
		return err
	}
	var wants []wantedRange
	if kind != frameWants {
		return fmt.Errorf("message %q from the helper", kind)
	}
	if err := json.Unmarshal(b, &wants); err != nil {
		return err
	}
	if err := h.feedWanted(wants, l); err != nil {
		return h.failureBehind(err)
	}
	if kind, b, err = h.nextMessage(); err != nil {
		return err
	}
	if kind != frameResult {
		return fmt.Errorf("message %q from the helper", kind)
	}
	return json.Unmarshal(b, r)
}
