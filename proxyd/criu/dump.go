// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/syscalls"
)

// ghostLimit is the largest removed file that the program may have open; the file's content is an image.
const ghostLimit = "1G"

// dumper takes in the images of a dump.
type dumper struct {
	sink   Sink
	frozen bool   // the program was frozen before the dump, and stays so
	noted  *Image // properties of processes that a dump notes while they stand still

	mu    sync.Mutex // everything below; no call under mu blocks
	files []File
	tree  bytes.Buffer      // a copy of pstreeName
	cores map[string][]byte // images of threads' states, not in sink yet (signals.go)
}

// Dump captures p, and leaves p as it was: running, or frozen if p.Cgroup was. The images are in
// sink when Dump returns nil. Only if p.Cgroup was frozen is it sure that the program has not run
// since the moment that the images show, and that the system calls in which threads wait go on
// (package syscalls). The caller does not thaw the cgroup meanwhile. Dumps of
// several programs may run side by side. The caller has cut the network (proven: links down, or a
// table of nftables that drops everything), else connections may end when they are restored.
//
// An error is an *Error, or an *UnsupportedHost if the host lacks something; the images in sink are then worthless. When
// ctx ends, Dump gives up and returns soon, but waits for calls of sink that do not return.
func Dump(ctx context.Context, p Program, sink Sink) (*Image, error) {
	version, err := criuVersion(ctx)
	if err != nil {
		return nil, err
	}
	host, err := hostWith(version)
	if err != nil {
		return nil, err
	}
	if err := prepareKernel(ctx); err != nil {
		return nil, err
	}
	fail := func(err error) error { return &Error{Op: "dump", PID: p.PID, Err: err} }
	frozen, err := cgroup(p.Cgroup).isFrozen()
	if err != nil {
		return nil, fail(err)
	}
	if p.Groups, err = readSupplementaryGroups(p); err != nil {
		return nil, fail(err)
	}
	c, err := dumpCommand(p)
	if err != nil {
		return nil, fail(err)
	}
	s, err := newCriuRun(captureSocket, c.as)
	if err != nil {
		return nil, fail(err)
	}
	defer s.closeRun()
	d := &dumper{sink: sink, frozen: frozen, noted: &Image{}, cores: map[string][]byte{}}
	s.carry, s.endStrays = d.saveStream, true
	if frozen {
		if err := refuseProcesses(p); err != nil {
			return nil, s.failureOf("dump", p, err)
		}
		if d.noted.calls, err = rewindCalls(ctx, cgroup(p.Cgroup), &p); err != nil {
			return nil, errors.Join(fail(err), d.noted.SetTimeLeft())
		}
	} else { // a frozen program does not run before the streams have ended anyway
		s.pass = func(int) error { return d.recordStopped(s, p) }
	}
	if err := s.runCriu(ctx, c); err != nil {
		return nil, s.failureOf("dump", p, errors.Join(err, d.refreezeCgroup(ctx, p)))
	}
	if err := s.checkWatches(p); err != nil {
		_ = d.noted.SetTimeLeft()
		return nil, err
	}
	i, err := d.describeImage(&s.log)
	if err == nil {
		i.Program, i.Host = p, host
		err = d.completeImage(i)
	}
	if err != nil {
		return nil, &Error{Op: "dump", PID: p.PID, Err: err, Log: s.log.lastLines()}
	}
	return i, nil
}

// dumpCommand returns the command that dumps p, with its options and rights.
func dumpCommand(p Program) (command, error) {
	sysV, err := usesSysV(p)
	if err != nil {
		return command{}, err
	}
	terminals, drives, err := ownTerminals(p)
	if err != nil {
		return command{}, err
	}
	c := command{init: p.Init, noIPC: sysV, args: dumpArgs(p, terminals)}
	return c, errors.Join(c.confineDump(p), c.declareOutside(p.Outside), c.preserveTerminalData(drives))
}

// refreezeCgroup freezes the cgroup of a program again after a failed dump, if it was frozen before: a criu that was
// killed has thawed the cgroup and not frozen it again.
func (d *dumper) refreezeCgroup(ctx context.Context, p Program) error {
	var err error
	if now, _ := cgroup(p.Cgroup).isFrozen(); d.frozen && !now {
		err = cgroup(p.Cgroup).setFrozen(context.WithoutCancel(ctx), true)
	}
	_ = d.noted.SetTimeLeft() // else calls wait as long as they still had to when the program was frozen
	return err
}

// dumpArgs returns criu's arguments. terminals are external files for criu (ctty.go).
func dumpArgs(p Program, terminals []string) []string {
	args := append(commonOptions("dump"), "--tree", strconv.Itoa(p.PID), "--leave-running", "--ghost-limit", ghostLimit)
	if p.Cgroup != "" {
		args = append(args, "--freeze-cgroup", p.Cgroup)
	}
	for _, what := range append(externalSockets(p.Stdio), terminals...) {
		args = append(args, "--external", what)
	}
	return append(args, queueOptions(p.Queues)...)
}

func (d *dumper) saveStream(st *stream) error {
	if isCore(st.name) {
		return d.keepThreadState(st)
	}
	w, err := d.sink.Create(st.name)
	if err != nil {
		return err
	}
	n, err := d.drainStream(w, st)
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files = append(d.files, File{st.name, n})
	return nil
}

func (d *dumper) drainStream(w io.Writer, st *stream) (n int64, err error) {
	if st.name == pstreeName {
		w = io.MultiWriter(w, &d.tree) // there is only one image of this name
	}
	err = st.usePipe(func(pipe *os.File) (err error) {
		n, err = drainPipe(w, pipe)
		return err
	})
	return n, err
}

// recordStopped looks at the program while criu has stopped the program.
func (d *dumper) recordStopped(s *criuRun, p Program) error {
	if err := s.waitForStreams(); err != nil {
		return err
	}
	if err := refuseProcesses(p); err != nil {
		return err
	}
	return d.recordProcesses(p.Init)
}

// recordProcesses notes the properties of the dumped processes that are in no image.
func (d *dumper) recordProcesses(init int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.noted
	var err error
	if i.Processes, err = readTree(bytes.NewReader(d.tree.Bytes())); err != nil {
		return fmt.Errorf("image %s: %w", pstreeName, err)
	}
	return i.recordProcesses(init)
}

// describeImage returns the processes and the images of the dump. The caller adds the program and its host.
func (d *dumper) describeImage(l *logbook) (*Image, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	tree, err := readTree(&d.tree)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", pstreeName, err)
	}
	if len(tree) == 0 {
		return nil, fmt.Errorf("image %s: no process", pstreeName)
	}
	for n := range tree {
		tree[n].Name = l.processName(tree[n].PID)
	}
	for name, b := range d.cores {
		d.files = append(d.files, File{name, int64(len(b))})
	}
	slices.SortFunc(d.files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	for n := 1; n < len(d.files); n++ {
		if d.files[n].Name == d.files[n-1].Name {
			return nil, fmt.Errorf("image %s: criu made it twice", d.files[n].Name)
		}
	}
	return &Image{Processes: tree, Files: d.files}, nil
}

// completeImage adds to the description of a dump the properties that criu does not know: those of processes, which
// were noted during the dump or are noted now if the program is frozen, and the message queues.
func (d *dumper) completeImage(i *Image) error {
	if d.frozen {
		if err := i.recordProcesses(i.Program.Init); err != nil {
			return err
		}
	} else {
		i.Opened, i.Libraries = d.noted.Opened, d.noted.Libraries
		for n, p := range d.noted.Processes {
			i.Processes[n].ProcessFacts = p.ProcessFacts
		}
	}
	i.calls, i.Queues = d.noted.calls, queueNames(i.Program.Queues)
	return d.releaseKept(i)
}

// rewindCalls has the threads of a frozen program make their system calls again after the dump, which otherwise return
// EINTR. A call that cannot be made again returns EINTR as without this function, so that is not reported as an error.
func rewindCalls(ctx context.Context, group cgroup, p *Program) (*syscalls.Rewound, error) {
	threads, err := group.listThreads()
	if err != nil {
		return nil, err
	}
	calls, _ := syscalls.Rewind(threads, p.Observed, p.ClocksRead)
	if calls.Count() == 0 {
		return nil, nil //nolint:nilnil // a program without such calls
	}
	// Threads that ptrace has stopped count as not frozen for a moment.
	return calls, group.setFrozen(ctx, true)
}

// SetTimeLeft gives the system calls in which the dumped program waits the time that they have left by now. The caller
// calls it before it thaws the program to go on in place; otherwise these calls wait longer, by the time that the
// program was frozen. SetTimeLeft may be called again.
func (i *Image) SetTimeLeft() error {
	if i.calls == nil {
		return nil
	}
	return i.calls.SetTimeLeft()
}
