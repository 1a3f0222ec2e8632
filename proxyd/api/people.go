// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// people knows who is more than an ordinary user.
type people struct {
	slurmUser     uint32
	users, groups []string
	// ask runs id(1). Users of a cluster come from LDAP as often as from a file, and only
	// libc can look there; a Go program without cgo cannot.
	ask func(ctx context.Context, args ...string) (string, error)

	mu    sync.Mutex
	known map[uint32]verdict
}

// verdict is whether someone is an operator, as of then.
type verdict struct {
	is   bool
	then time.Time
}

// remembered is for how long a verdict holds: groups change seldom, and looking them up
// may ask a server.
const remembered = time.Minute

func newPeople(slurmUser uint32, operators []string) *people {
	p := &people{slurmUser: slurmUser, known: make(map[uint32]verdict)}
	for _, name := range operators {
		if group, ok := strings.CutPrefix(name, "@"); ok {
			p.groups = append(p.groups, group)
		} else {
			p.users = append(p.users, name)
		}
	}
	p.ask = func(ctx context.Context, args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "id", args...).Output()
		return string(out), err
	}
	return p
}

// daemon says whether the user is one that daemons run as.
func (p *people) daemon(uid uint32) bool { return uid == 0 || uid == p.slurmUser }

// operator says whether the user may act on the jobs of others.
func (p *people) operator(ctx context.Context, uid uint32) (bool, error) {
	if p.daemon(uid) {
		return true, nil
	}
	if len(p.users)+len(p.groups) == 0 {
		return false, nil
	}
	p.mu.Lock()
	v, ok := p.known[uid]
	p.mu.Unlock()
	if ok && time.Since(v.then) < remembered {
		return v.is, nil
	}
	is, err := p.lookUp(ctx, uid)
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[uid] = verdict{is, time.Now()}
	return is, nil
}

func (p *people) lookUp(ctx context.Context, uid uint32) (bool, error) {
	number := "+" + strconv.FormatUint(uint64(uid), 10) // the sign: not a user of that name
	name, err := p.ask(ctx, "-un", number)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return false, nil // this node does not know the user
	}
	if err != nil {
		return false, fmt.Errorf("user %d: look up its name: %w", uid, err)
	}
	if slices.Contains(p.users, strings.TrimSuffix(name, "\n")) {
		return true, nil
	}
	if len(p.groups) == 0 {
		return false, nil
	}
	groups, err := p.ask(ctx, "-Gnz", number)
	if err != nil {
		return false, fmt.Errorf("user %d: look up its groups: %w", uid, err)
	}
	for group := range strings.SplitSeq(groups, "\x00") {
		if group != "" && slices.Contains(p.groups, group) {
			return true, nil
		}
	}
	return false, nil
}
