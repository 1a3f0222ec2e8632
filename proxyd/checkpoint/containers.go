// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
)

// taskContainer is the container of a task that comes to its capsule.
type taskContainer struct {
	lc      *localCapsule
	task    nodesocket.Join
	program string
}

// showContainer has a capsule show the container of a task, if it has one, before the task's program is started or
// restored.
func (lc *localCapsule) showContainer(ctx context.Context, t nodesocket.Join, at taskPlacement) (*nodesocket.Container, error) {
	c := taskContainer{lc, t, at.program}
	switch {
	case t.ContainerPID != 0:
		return c.showJoined(ctx)
	case at.mode == nodesocket.Fresh && t.Container != "":
		return c.openBundle(ctx)
	}
	return nil, nil
}

// taskUser has the rights with which the paths of the container are opened.
func (c taskContainer) taskUser() capsule.User {
	return capsule.User{UID: c.task.UID, GID: c.task.GID, Groups: c.task.Groups}
}

// openBundle has the capsule show the container of a bundle, and notes it for the capsule's checkpoints.
func (c taskContainer) openBundle(ctx context.Context) (*nodesocket.Container, error) {
	lc, t, j := c.lc, c.task, c.lc.j
	want := capsule.ContainerRequest{Bundle: t.Container}
	if t.Step == records.BatchProgram {
		j.mu.Lock()
		want.Script = lc.note.Script
		j.mu.Unlock()
	}
	shown, err := lc.capsule.OpenContainer(ctx, want, c.program, c.taskUser())
	if errors.Is(err, syscall.ENOSYS) {
		err = errors.New("the capsule was made by a proxyd that knows no containers: requeue the job")
	}
	if err != nil {
		return nil, fmt.Errorf("container %s: %w", t.Container, err)
	}
	c.noteShown(shown)
	in := &nodesocket.Container{Root: shown.Root, Cwd: shown.Plan.Cwd}
	if want.Script != "" {
		in.Script = capsule.ContainerScript
	}
	return in, nil
}

// noteShown notes a container that the capsule shows the program.
func (c taskContainer) noteShown(shown capsule.Container) {
	lc, j := c.lc, c.lc.j
	j.mu.Lock()
	lc.note.addContainer(shown, c.program)
	lc.note.Groups = c.task.Groups
	lc.saveNote()
	lc.translateContainers()
	j.mu.Unlock()
	if err := lc.changes.NoteContainer(); err != nil {
		j.log.Error("cannot record changed files of a container", "capsule", lc.index, "error", err)
	}
}

// showJoined has the capsule show the task the container into which another plugin of Slurm's has put a process. That
// plugin makes the container again in each run, so this is also the way of a task whose program is restored.
func (c taskContainer) showJoined(ctx context.Context) (*nodesocket.Container, error) {
	inside, err := c.readJoined()
	if err == nil && c.task.Alive != nil {
		err = c.task.Alive() // else the PIDs may be other processes'
	}
	if err != nil {
		return nil, err
	}
	plan, err := inside.Plan()
	if err != nil {
		return nil, fmt.Errorf("the container cannot be shown: %w", err)
	}
	shown, err := c.lc.capsule.ShowJoined(ctx, plan, c.program, c.taskUser())
	if err != nil {
		return nil, fmt.Errorf("the container cannot be shown: %w", err)
	}
	if filepath.Base(shown.Root) != plan.Name {
		return nil, errors.New("the capsule was made by a proxyd that knows no containers of other plugins: requeue the job")
	}
	c.noteShown(shown)
	in := &nodesocket.Container{Root: shown.Root, Cwd: plan.Cwd}
	if inside.Script != "" {
		in.Script = capsule.ContainerScript
	}
	return in, nil
}

// readJoined reads what is mounted in the task's container. No file of the container is asked for, for the user may
// serve it.
func (c taskContainer) readJoined() (inside capsule.JoinedContainer, err error) {
	lc, t := c.lc, c.task
	inside = capsule.JoinedContainer{Step: stepOf(c.program), Folder: lc.j.c.ContainersDir, ScriptInside: t.Script}
	if t.Step == records.BatchProgram {
		lc.j.mu.Lock()
		inside.Script = lc.note.Script
		lc.j.mu.Unlock()
	}
	if inside.Mounts, err = mounts.ListOf(t.ContainerPID); err != nil {
		return inside, err
	}
	if inside.Node, err = mounts.ListOf(os.Getpid()); err != nil {
		return inside, err
	}
	if inside.Shown, err = mounts.ListOf(lc.capsule.PID()); err != nil {
		return inside, err
	}
	inside.Cwd, err = os.Readlink(fmt.Sprintf("/proc/%d/cwd", t.ContainerPID))
	return inside, err
}

// stepOf returns the name of a program without the number of its task.
func stepOf(program string) string {
	if i := strings.LastIndexByte(program, '.'); i >= 0 {
		return program[:i]
	}
	return program
}

// makeSpoolFolder makes the folder in which slurmstepd keeps its files for a container of a step
// (_generate_spooldir_pattern in slurmd/slurmstepd/container.c), if the capsule does not show it. With ContainerPath in
// oci.conf the folder is elsewhere, where the capsule covers no folder of slurmstepd.
func (lc *localCapsule) makeSpoolFolder(ctx context.Context, t nodesocket.Join) error {
	lc.j.mu.Lock()
	script := lc.note.Script
	lc.j.mu.Unlock()
	if t.Container == "" || t.Step == records.BatchProgram || script == "" {
		return nil
	}
	spool := filepath.Join(filepath.Dir(filepath.Dir(script)), fmt.Sprintf("oci-job%d-%s", t.Job, t.Step))
	return lc.capsule.MakeSpoolFolder(ctx, spool, capsule.User{UID: t.UID, GID: t.GID})
}

// restoreContainers has a capsule show the containers of a checkpoint, except those that another plugin makes again.
func (lc *localCapsule) restoreContainers(ctx context.Context, m *records.CapsuleMeta) error {
	rec := lc.j.run.Snapshot().Record
	var all []capsule.Container
	for _, c := range m.Containers {
		if c.IsJoined() {
			continue // shown when its first task is there
		}
		all = append(all, c)
		if err := lc.capsule.RestoreContainer(ctx, c, capsule.User{UID: rec.UID, GID: rec.GID, Groups: m.Groups}); err != nil {
			return err
		}
	}
	lc.note.Containers = all
	lc.translateContainers()
	return nil
}
