// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// containers are the containers that init shows.
type containers struct {
	folder  string     // where their roots are shown; "": this capsule has no containers
	opening sync.Mutex // held while a container is mounted, which may wait for a file server

	mu    sync.Mutex // taken after opening; no step under it waits
	shown map[string]*shownContainer
}

// shownContainer is a container that is shown until no program has it.
type shownContainer struct {
	Container
	programs map[string]bool
	stays    bool // shown for unknown programs: never released
}

// obeyContainer shows a container.
func (s *server) obeyContainer(o *containerOrder) (*Container, error) {
	cs := &s.containers
	if o == nil || cs.folder == "" {
		return nil, fmt.Errorf("containers: %w", syscall.ENOSYS)
	}
	cs.opening.Lock()
	defer cs.opening.Unlock()
	if o.Spool != "" {
		return nil, makeSpoolFolder(o.Spool, o.As)
	}
	var shown *Container
	err := runWithRightsOf(o.As, func() error {
		plan := o.Plan
		if plan == nil {
			read, err := readPlan(*o.Want)
			if err != nil {
				return err
			}
			plan = &read
		}
		if err := plan.checkBounds(); err != nil {
			return err
		}
		var err error
		if shown, err = cs.addPrograms(*plan, o.Programs); shown != nil || err != nil {
			return err
		}
		shown = &Container{Plan: *plan, Root: filepath.Join(cs.folder, plan.folderName())}
		rootfs, err := s.cloneRoot(*plan, o)
		if err != nil {
			return fmt.Errorf("root %s: %w", plan.Rootfs, err)
		}
		defer unix.Close(rootfs)
		if err := plan.showAt(shown.Root, rootfs, cs.checkMounts); err != nil {
			return err
		}
		cs.addContainer(*shown, o.Programs)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("container: %w", err)
	}
	return shown, nil
}

// cloneRoot returns a clone of a container's root. The calling thread has the user's rights on files.
func (s *server) cloneRoot(p ContainerPlan, o *containerOrder) (int, error) {
	if o.NodePID != 0 {
		return cloneOnNode(s.proc, o.NodePID, p.Rootfs, o.As)
	}
	return cloneOrdinary(p.Rootfs)
}

// addPrograms gives programs a container that is shown already. It returns nil if no such container is shown, and an
// error if the capsule may have no more containers.
func (cs *containers) addPrograms(plan ContainerPlan, programs []string) (*Container, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if known := cs.shown[plan.folderName()]; known != nil {
		known.addPrograms(programs)
		return &known.Container, nil
	}
	if len(cs.shown) >= maxContainers {
		return nil, fmt.Errorf("the job has %d on this node, and may have no more at a time", maxContainers)
	}
	return nil, nil
}

// addContainer notes a container that is mounted.
func (cs *containers) addContainer(c Container, programs []string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.shown == nil {
		cs.shown = map[string]*shownContainer{}
	}
	added := &shownContainer{Container: c, programs: map[string]bool{}}
	added.addPrograms(programs)
	cs.shown[c.Plan.folderName()] = added
}

func (c *shownContainer) addPrograms(names []string) {
	c.stays = c.stays || len(names) == 0
	for _, name := range names {
		c.programs[name] = true
	}
}

// releaseFor unmounts the containers that no program has any more after the end of this one: while they are mounted,
// neither the folders that are mounted nor the mount points can be removed in the capsule. A process of another program
// that looks into such a container no longer sees its files.
func (cs *containers) releaseFor(program string) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var errs []error
	for name, c := range cs.shown {
		if !c.programs[program] {
			continue
		}
		delete(c.programs, program)
		if len(c.programs) > 0 || c.stays {
			continue
		}
		delete(cs.shown, name)
		errs = append(errs, unix.Unmount(c.Root, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW), unix.Rmdir(c.Root))
	}
	return errors.Join(errs...)
}

// countMounts counts the mounts of a table (mountinfo) that are below a folder. Fields are separated by single spaces. In
// the names that a user gives, which come before the place of a mount, the kernel escapes spaces, and no other character
// that counts as white space.
func countMounts(table []byte, folder string) (n int) {
	for line := range bytes.Lines(table) {
		if f := bytes.SplitN(line, []byte(" "), 6); len(f) == 6 && bytes.HasPrefix(f[4], []byte(folder+"/")) {
			n++
		}
	}
	return n
}

// checkMounts returns an error if the containers have too many mounts.
func (cs *containers) checkMounts() error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if n := countMounts(b, cs.folder); n > maxMountsOfContainers {
		return fmt.Errorf("the job would have %d mounts in containers, and may have no more than %d on this node", n, maxMountsOfContainers)
	}
	return nil
}
