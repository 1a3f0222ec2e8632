// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/operators"
)

// userDirectory knows which users are more than ordinary users.
type userDirectory struct {
	slurmUser uint32
	operators operators.List

	mu    sync.Mutex
	known map[uint32]lookup
}

// lookup is the answer of a look-up: whether a user was an operator at that time.
type lookup struct {
	isOperator bool
	at         time.Time
}

// lookupTTL is the time for which a lookup is valid: groups change seldom, and a look-up may cost a
// request to LDAP.
const lookupTTL = time.Minute

func newPeople(slurmUser uint32, names []string) *userDirectory {
	return &userDirectory{slurmUser: slurmUser, operators: operators.Parse(names), known: make(map[uint32]lookup)}
}

// isDaemon says whether daemons run as this user.
func (p *userDirectory) isDaemon(uid uint32) bool { return uid == 0 || uid == p.slurmUser }

// isOperator says whether the user may act on the jobs of other users.
func (p *userDirectory) isOperator(ctx context.Context, uid uint32) (bool, error) {
	if p.isDaemon(uid) {
		return true, nil
	}
	if p.operators.Empty() {
		return false, nil
	}
	p.mu.Lock()
	l, ok := p.known[uid]
	p.mu.Unlock()
	if ok && time.Since(l.at) < lookupTTL {
		return l.isOperator, nil
	}
	user, err := p.operators.LookUp(ctx, uid, runID)
	if err != nil {
		return false, fmt.Errorf("user %d: %w", uid, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[uid] = lookup{user.Listed, time.Now()}
	return user.Listed, nil
}

// runID runs id(1) and returns its output.
func runID(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "id", args...).Output()
	return string(out), err
}
