// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// ErrNoCgroup means that a program cannot be frozen, for lack of a cgroup of its own: Spec.Cgroups
// was "", or the kernel refused (init.log has the reason).
var ErrNoCgroup = fmt.Errorf("no cgroup v2 of its own: %w", errors.ErrUnsupported)

// Freeze freezes the named programs, or all running programs if no name is given, and returns when all their processes
// are frozen. A frozen program gets no signal except SIGKILL, and stays frozen when the maker dies, until Thaw.
//
// A program that ends meanwhile is no error. After any error all named programs run, also programs that were
// frozen before; the error wraps ErrNoCgroup if a program has no cgroup.
func (c *Capsule) Freeze(ctx context.Context, programs ...string) error {
	groups, err := c.listCgroups(ctx, programs)
	if err != nil {
		return c.withCapsule("freeze", err)
	}
	err = freezeGroups(ctx, groups)
	for end := time.Now().Add(vforkWithin); err == nil && waitsInVfork(groups) && time.Now().Before(end); {
		err = forEachGroup(groups, group.thaw)
		for err == nil && waitsInVfork(groups) && time.Now().Before(end) {
			err = waitFor(ctx, vforkLook) // the kernel sends no notice when a child starts its program
		}
		if err == nil {
			err = freezeGroups(ctx, groups)
		}
	}
	if err != nil {
		err = errors.Join(err, forEachGroup(groups, group.thaw))
	}
	return c.withCapsule("freeze", err)
}

// A process in vfork waits, without handling any signal except SIGKILL, until its child has started another program or
// ended. The kernel counts the process as frozen, but its memory cannot be inspected, and a frozen child never starts a
// program or ends. So such programs are thawed until no process waits in vfork, and frozen at once.
const (
	vforkWithin = time.Second
	vforkLook   = 200 * time.Microsecond
)

// waitsInVfork tells whether a thread waits in vfork: in a frozen group, only such threads are in
// uninterruptible sleep. In a running group, threads may wait for a disk in the same state.
func waitsInVfork(groups []group) bool {
	return slices.ContainsFunc(groups, func(g group) bool { return g.hasState('D') })
}

func freezeGroups(ctx context.Context, groups []group) error {
	err := forEachGroup(groups, group.freeze)
	if err == nil {
		err = forEachGroup(groups, func(g group) error { return waits.WaitForCgroupEvent(ctx, string(g), "frozen 1") })
	}
	// A thread that is about to wait in vfork counts as frozen a moment before it sleeps.
	onTheirWay := func() bool { return slices.ContainsFunc(groups, func(g group) bool { return g.hasState('R') }) }
	for end := time.Now().Add(vforkWithin); err == nil && onTheirWay() && time.Now().Before(end); {
		err = waitFor(ctx, vforkLook)
	}
	return err
}

func waitFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Thaw lets the named programs run, or all programs if no name is given. A program that is not frozen, or has ended, is
// no error.
func (c *Capsule) Thaw(ctx context.Context, programs ...string) error {
	groups, err := c.listCgroups(ctx, programs)
	if err == nil {
		err = forEachGroup(groups, group.thaw)
	}
	return c.withCapsule("thaw", err)
}

// forEachGroup calls f with every group, also after an error.
func forEachGroup(groups []group, f func(group) error) error {
	var errs []error
	for _, g := range groups {
		if err := f(g); !isGone(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// listCgroups returns the cgroups of the named programs, or of all running programs, as paths of the
// maker.
func (c *Capsule) listCgroups(ctx context.Context, names []string) ([]group, error) {
	all, err := c.listPrograms(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]Program{}
	var running []string
	for _, p := range all {
		known[p.Name] = p
		if !p.Ended && !p.Waiting {
			running = append(running, p.Name)
		}
	}
	if len(names) == 0 {
		names = running
	}
	var groups []group
	for _, name := range names {
		p, ok := known[name]
		switch {
		case !ok:
			return nil, &RefusedError{name, syscall.ENOENT, "no such program"}
		case p.Ended:
			continue
		case p.Cgroup == "":
			return nil, fmt.Errorf("program %q: %w", name, ErrNoCgroup)
		}
		groups = append(groups, c.outsidePath(p.Cgroup))
	}
	return groups, nil
}

// outsidePath returns the maker's path of a folder of the capsule.
func (c *Capsule) outsidePath(path string) group {
	return group(fmt.Sprintf("/proc/%d/root%s", c.rec.PID, path))
}
