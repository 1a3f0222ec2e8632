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
)

// ErrNoCgroup is why a program cannot be frozen: it has no cgroup of its own, for
// Spec.Cgroups was "" or the kernel refused one (init.log has the reason).
var ErrNoCgroup = fmt.Errorf("no cgroup v2 of its own: %w", errors.ErrUnsupported)

// Freeze stops programs, all that run if none is named, and returns when not one of
// their processes runs any more. A frozen program gets no signal but SIGKILL, and it
// stays frozen when the maker dies, until Thaw.
//
// A program that ends meanwhile is no error. After any error all of them run, those too
// that were frozen before; it wraps ErrNoCgroup if one of them has none.
func (c *Capsule) Freeze(ctx context.Context, programs ...string) error {
	groups, err := c.groups(ctx, programs)
	if err != nil {
		return c.explain("freeze", err)
	}
	err = freeze(ctx, groups)
	for end := time.Now().Add(vforkWithin); err == nil && vforking(groups) && time.Now().Before(end); {
		err = each(groups, group.thaw)
		for err == nil && vforking(groups) && time.Now().Before(end) {
			err = pause(ctx, vforkLook) // nobody tells when a child has begun its program
		}
		if err == nil {
			err = freeze(ctx, groups)
		}
	}
	if err != nil {
		err = errors.Join(err, each(groups, group.thaw))
	}
	return c.explain("freeze", err)
}

// Who has called vfork waits, deaf to all but SIGKILL, until its child has begun another
// program or ended. The kernel calls it frozen, but nobody can look into it, and a frozen
// child never comes to that. So programs are let go until nobody waits so, and frozen at once.
const (
	vforkWithin = time.Second
	vforkLook   = 200 * time.Microsecond
)

// vforking tells whether a thread waits in vfork: in a frozen group, no other is in a sleep that
// cannot be interrupted. In one that runs, others are as they wait for a disk.
func vforking(groups []group) bool {
	return slices.ContainsFunc(groups, func(g group) bool { return g.has('D') })
}

func freeze(ctx context.Context, groups []group) error {
	err := each(groups, group.freeze)
	if err == nil {
		err = each(groups, func(g group) error { return g.await(ctx, "frozen 1") })
	}
	// Who is on its way into vfork's wait counts as frozen a moment before it sleeps.
	onTheirWay := func() bool { return slices.ContainsFunc(groups, func(g group) bool { return g.has('R') }) }
	for end := time.Now().Add(vforkWithin); err == nil && onTheirWay() && time.Now().Before(end); {
		err = pause(ctx, vforkLook)
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Thaw lets frozen programs go on, all if none is named. One that is not frozen, or has
// ended meanwhile, is no error.
func (c *Capsule) Thaw(ctx context.Context, programs ...string) error {
	groups, err := c.groups(ctx, programs)
	if err == nil {
		err = each(groups, group.thaw)
	}
	return c.explain("thaw", err)
}

// each calls f with every group, also after an error.
func each(groups []group, f func(group) error) error {
	var errs []error
	for _, g := range groups {
		if err := f(g); !isGone(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// groups returns those of the named programs, or of all that run, as the maker reaches
// them.
func (c *Capsule) groups(ctx context.Context, names []string) ([]group, error) {
	all, err := c.list(ctx)
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
		groups = append(groups, c.reach(p.Cgroup))
	}
	return groups, nil
}

// reach is a folder of the capsule, from outside.
func (c *Capsule) reach(path string) group {
	return group(fmt.Sprintf("/proc/%d/root%s", c.rec.PID, path))
}
