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
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/checkpoint-restore/go-criu/v7/crit/images/regfile"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/messagequeue"
)

// restorer serves the images of a restore.
type restorer struct {
	image   *Image
	source  Source
	init    int
	group   cgroup            // the program's
	frozen  bool              // the group was frozen before, and is frozen when the restore ends
	stdio   [3]*os.File       // the program's new standard streams
	input   []byte            // bytes that the program had not read of its old standard input
	reaper  atomic.Bool       // the root is to be made a subreaper
	handed  map[uint32]string // names of files that criu is given open, by their numbers
	queues  *messagequeue.State
	opened  map[uint32]string // names of message queues that criu is given open, by their numbers in files.img
	renamed map[string]string // files with another name now than in the image
	// personalities are the processes that are to set theirs, by the image that they wait for.
	personalities map[string]Process
	semaphores    map[uint32]bool   // eventfds that criu is given open, by their numbers in files.img
	reset         map[uint32]bool   // unix sockets that are restored as closed, and their other ends
	terminals     map[uint32]string // names of terminals that criu is given open, by the numbers of their paths in files.img
}

// Restore makes the program of img again, in the namespaces of p.Init and the cgroup p.Cgroup; the
// rest of p is img's. When Restore returns nil, the root is a child of the capsule's init and the
// program runs, or is frozen if p.Cgroup was frozen.
//
// stdio must have the files that img.Program.Stdio names as pipes or sockets: the new ends. Other files are opened by
// path. Input that the program had not read is put before the bytes in the new pipe. The caller keeps stdio.
//
// Processes that are in p.Cgroup before are killed: they are left from a restore of the program by a daemon that has
// died.
//
// The capsule was made with capsule.Spec.Restore, and LoadLastPID is called after the
// last Restore in it. Several programs of a capsule may be restored side by side, if
// their cgroups are different or none is frozen.
//
// An error is an *Error, or an *UnsupportedHost; no process of the program is left then. Restore gives
// up in the same way when ctx ends, but waits for calls of src that do not return.
func Restore(ctx context.Context, img *Image, p Program, stdio [3]*os.File, src Source) error {
	root := img.Program.PID
	fail := func(err error) error { return &Error{Op: "restore", PID: root, Err: err} }
	host, err := hostWith("")
	if err != nil {
		return fail(err)
	}
	if err := img.Fits(host); err != nil {
		return err
	}
	if err := img.checkAsRoot(p.AsRoot); err != nil {
		return err
	}
	if err := img.checkSound(); err != nil {
		return fail(err)
	}
	group := cgroup(p.Cgroup)
	if err := img.freePIDs(ctx, p.Init, group); err != nil {
		return fail(err)
	}
	frozen, err := group.isFrozen()
	if err != nil {
		return fail(err)
	}
	c := command{init: p.Init, args: append(commonOptions("restore"), "--restore-detached")}
	args, files, err := inheritOptions(img.Program.Stdio, stdio)
	if err != nil {
		return fail(err)
	}
	c.args, c.files = append(c.args, args...), files
	r := &restorer{
		image: img, source: src, init: p.Init, group: group, frozen: frozen, stdio: stdio,
		renamed: p.Renamed, queues: p.Queues, personalities: img.personalitiesToSet(),
	}
	if r.input, err = readPipeContents(src, img.Program.Stdio[0]); err != nil {
		return fail(fmt.Errorf("standard input: %w", err))
	}
	if group != "" {
		if c.cgroup, err = os.Open(p.Cgroup); err != nil {
			return fail(err)
		}
		defer c.cgroup.Close()
	}
	handed, err := r.prepareCommand(ctx, &c, p.Groups)
	if err != nil {
		return fail(err)
	}
	defer handed.closeFiles()
	return r.runRestore(ctx, c)
}

// runRestore has the criu of c restore the program, and ends the processes that criu has made if it fails. A frozen
// cgroup is thawed meanwhile.
func (r *restorer) runRestore(ctx context.Context, c command) error {
	img := r.image
	fail := func(err error) error { return &Error{Op: "restore", PID: img.Program.PID, Err: err} }
	s, err := newCriuRun(serveSocket, c.as)
	if err != nil {
		return fail(err)
	}
	defer s.closeRun()
	if r.frozen {
		if err := r.group.setFrozen(ctx, false); err != nil {
			return fail(errors.Join(err, r.group.setFrozen(context.WithoutCancel(ctx), true)))
		}
	}
	s.grace = restoreGrace
	r.reaper.Store(img.hasReaper())
	s.carry = r.sendStream
	s.check = func() error { return img.compareOpened(r.init, r.renamed) }
	s.pass = func(script int) error {
		if err := s.firstFailure(); err != nil {
			return err
		}
		if err := r.completeProgram(c); err != nil || !r.frozen {
			return err
		}
		return s.freezeAround(ctx, r.init, r.group, script)
	}
	if err := s.runCriu(ctx, c); err != nil {
		err = errors.Join(err, r.killRestored(ctx))
		failed := s.failureOf("restore", img.Program, err)
		if changed := img.changedPath(r.init); changed != nil && c.as != nil && errors.As(err, new(*exec.ExitError)) {
			failed.Obstacle = changed.Error()
		}
		return failed
	}
	return nil
}

// completeProgram completes processes that criu has restored, before the program runs: it gives them the input that
// they had not read, the user's ownership of pipes if criu ran as root, and the properties that are in no image. c is
// that criu's command.
func (r *restorer) completeProgram(c command) error {
	if err := restoreUnreadInput(r.input, r.stdio[0]); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	if c.as == nil && r.image.Program.UID != 0 {
		if err := r.image.ownPipes(r.init, r.stdio); err != nil {
			return fmt.Errorf("pipes: %w", err)
		}
	}
	return r.image.completeProcesses(r.init)
}

// killRestored ends the processes of a restore that has failed. The cgroup is frozen again if it was frozen before.
func (r *restorer) killRestored(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := killProcesses(ctx, r.init, r.image.listPIDs())
	if r.frozen {
		err = errors.Join(err, r.group.setFrozen(ctx, true))
	}
	return err
}

// prepareCommand has c run with the rights of the program's user, and adds the files that c cannot open itself.
func (r *restorer) prepareCommand(ctx context.Context, c *command, groups []uint32) (*handedFiles, error) {
	var err error
	if r.reset, err = r.image.resetSockets(r.source); err != nil {
		return nil, err
	}
	handed, err := r.limitRights(ctx, c, groups)
	if err != nil {
		return nil, err
	}
	for _, hand := range []func(context.Context, *command) ([]*os.File, error){r.handQueues, r.handSemaphores, r.handTerminals} {
		files, err := hand(ctx, c)
		if err != nil {
			handed.closeFiles()
			return nil, err
		}
		handed.files = append(handed.files, files...)
	}
	return handed, nil
}

// limitRights has c run with the rights of the program's user, and adds the files that c cannot open with
// these. groups are the user's if the image does not say.
func (r *restorer) limitRights(ctx context.Context, c *command, groups []uint32) (*handedFiles, error) {
	p := r.image.Program
	handed := &handedFiles{}
	switch {
	case p.UID == 0:
		return handed, nil
	case r.image.RestoredByRoot():
		return handed, r.image.checkRecreatedPaths(r.init, r.source, r.reset)
	case p.Groups != nil:
		groups = p.Groups
	}
	c.as = &rights{uid: p.UID, gid: p.GID, groups: groups, keep: restoreCapabilities}
	c.args = append(c.args, "--unprivileged")
	if r.image.HasSysV() {
		var err error
		if c.preload, err = findLibrary(); err != nil {
			return nil, err
		}
	}
	if err := prepareKernel(ctx); err != nil {
		return nil, err
	}
	if err := lendPipes(c.files, c.as); err != nil {
		return nil, fmt.Errorf("standard streams: %w", err)
	}
	handed, err := r.image.handFiles(r.init, c.as, r.source, r.nameOf)
	if err != nil {
		return nil, err
	}
	c.args = append(c.args, handed.criuOptions(firstFree+len(c.files))...)
	c.files = append(append([]*os.File{}, c.files...), handed.files...)
	r.handed = handed.names
	return handed, nil
}

func (r *restorer) sendStream(st *stream) error {
	in, err := r.source.Open(st.name)
	f, was := r.image.findFile(st.name)
	exists := err == nil
	switch {
	case exists:
		defer in.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case was:
		return fmt.Errorf("%d bytes are missing: %w", f.Size, err)
	default:
		st.refused.Store(true)
	}
	// A process that asks waits for the answer; criu lets only one process ask at a time.
	if r.reaper.Load() {
		done, err := makeReaper(r.init, r.image.Program.PID)
		if err != nil {
			return err
		}
		r.reaper.Store(!done)
	}
	if err := r.setPersonality(st.name); err != nil {
		return err
	}
	reply, err := replyTo(exists)
	if err != nil {
		return err
	}
	if err := st.run.replyToCriu(reply); err != nil || !exists {
		return err
	}
	return st.usePipe(func(pipe *os.File) error {
		n, err := r.fillPipe(pipe, in, st.name)
		switch {
		case errors.Is(err, unix.EPIPE):
			return nil // criu has read as much of the image as it wanted
		case err == nil && was && n != f.Size:
			return fmt.Errorf("%d bytes of %d", n, f.Size)
		}
		return err
	})
}

// fillPipe moves an image into its pipe, as criu is to see it. The result is the size of the image in the source.
func (r *restorer) fillPipe(pipe *os.File, in io.Reader, name string) (int64, error) {
	change := r.chooseEditor(name)
	if change == nil {
		return fillPipe(pipe, in, name)
	}
	other, size, err := change(in)
	if err != nil {
		return 0, err
	}
	_, err = fillPipe(pipe, other, name)
	return size, err
}

// nameOf returns the name by which criu is to open a file, "" for the image's name.
func (r *restorer) nameOf(f *regfile.RegFileEntry) string {
	if name := cmp.Or(r.handed[f.GetId()], r.opened[f.GetId()], r.terminals[f.GetId()]); name != "" {
		return "/" + name // criu leaves the first character out
	}
	return r.renamed[f.GetName()]
}

// chooseEditor returns the function that changes an image before criu gets it, and returns its size before the change; or
// nil: nearly all images are restored as they were dumped.
func (r *restorer) chooseEditor(name string) func(io.Reader) (*bytes.Reader, int64, error) {
	switch {
	case isMaps(name):
		return clearReserved
	case strings.HasPrefix(name, descriptorsPrefix) && len(r.semaphores) > 0:
		return r.placeDescriptors
	case name == terminalsName:
		return r.nameForegrounds
	case name == filesName:
		return r.rewriteFiles
	}
	return nil
}

// freezeAround freezes a cgroup in which the restored processes stand, and criu too; it first moves criu out, with its
// script and nsenter.
func (s *criuRun) freezeAround(ctx context.Context, init int, group cgroup, script int) error {
	members, err := listMembers(init)
	if err != nil {
		return err
	}
	if err := group.moveOut(s.nsenter, s.criuPID, members[script].host); err != nil {
		return err
	}
	late, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	return group.setFrozen(late, true)
}

func (i *Image) listPIDs() []int {
	var all []int
	for _, p := range i.Processes {
		all = append(all, p.PID)
		all = append(all, p.Threads...)
	}
	return all
}

// checkSound returns an error if i cannot be a program's image: after a failure Restore kills the processes that i
// names.
func (i *Image) checkSound() error {
	for n, p := range i.Processes {
		if p.PID <= 1 || n == 0 && p.PID != i.Program.PID {
			return fmt.Errorf("%w: process %d of it is %d", errImage, n, p.PID)
		}
	}
	if len(i.Processes) == 0 {
		return fmt.Errorf("%w: no process", errImage)
	}
	return nil
}

// freePIDs ends the processes that an earlier restore of i has left, and returns an error if the PIDs of i are not free
// in a capsule. Processes left from another program's earlier restore may have the PIDs, and are about to end.
func (i *Image) freePIDs(ctx context.Context, init int, group cgroup) error {
	if err := group.endLeftovers(ctx, init); err != nil {
		return err
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(5 * time.Second); ; {
		err := i.checkRoom(init)
		if err == nil || time.Now().After(end) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// checkRoom returns an error if a PID of i is taken in a capsule.
func (i *Image) checkRoom(init int) error {
	members, err := listMembers(init)
	if err != nil {
		return fmt.Errorf("the capsule: %w", err)
	}
	for _, pid := range i.listPIDs() {
		if m, taken := members[pid]; taken {
			return fmt.Errorf("PID %d is taken by %s", pid, m.name)
		}
	}
	return nil
}
