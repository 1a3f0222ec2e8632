// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/operators"
)

// userDirectory knows the names of users, and which of them are operators.
type userDirectory struct {
	operators operators.List
	programs  Programs
	cluster   string
	// ask runs a program: id(1), or a program of programs.
	ask func(ctx context.Context, program string, args ...string) (string, error)

	lookups singleflight.Group

	mu    sync.Mutex
	known map[uint32]person
	super string // SlurmUser, once Slurm has told the name
}

// person is a user, as looked up at the time then.
type person struct {
	name     string
	operator bool
	then     time.Time
}

// remembered is for how long the groups and the level found for a user hold: they change seldom, and looking them up
// may ask a server.
const remembered = time.Minute

func newPeople(names []string, programs Programs, cluster string) *userDirectory {
	p := &userDirectory{operators: operators.Parse(names), programs: programs, cluster: cluster, known: map[uint32]person{}}
	p.ask = func(ctx context.Context, program string, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, program, args...).Output() //nolint:gosec // id, or a configured program
		return strings.TrimSuffix(string(out), "\n"), err
	}
	return p
}

// lookUpPerson returns the name and rights of a user.
func (p *userDirectory) lookUpPerson(ctx context.Context, uid uint32) (person, error) {
	if uid == 0 {
		return person{name: "root", operator: true}, nil
	}
	p.mu.Lock()
	one, ok := p.known[uid]
	p.mu.Unlock()
	if ok && time.Since(one.then) < remembered {
		return one, nil
	}
	// However many requests of a user come at a time, the user is looked up once: each lookup
	// takes processes, and long while LDAP or slurmdbd does not answer.
	found := p.lookups.DoChan(strconv.FormatUint(uint64(uid), 10), func() (any, error) {
		one, err := p.lookUp(context.WithoutCancel(ctx), uid)
		if err != nil {
			return one, fmt.Errorf("user %d: %w", uid, err)
		}
		one.then = time.Now()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.known[uid] = one
		return one, nil
	})
	select {
	case r := <-found:
		one, _ := r.Val.(person)
		return one, r.Err
	case <-ctx.Done():
		return person{}, ctx.Err()
	}
}

func (p *userDirectory) lookUp(ctx context.Context, uid uint32) (person, error) {
	user, err := p.operators.LookUp(ctx, uid, func(ctx context.Context, args ...string) (string, error) { return p.ask(ctx, "id", args...) })
	if err != nil {
		return person{}, err
	}
	if user.Name == "" { // this node does not know the user
		return person{name: fmt.Sprintf("user %d", uid)}, nil
	}
	name := user.Name
	one := person{name: name, operator: user.Listed}
	one.operator = one.operator || p.isSuper(ctx, name)
	if !one.operator && p.programs.Sacctmgr != "" {
		// A cluster without slurmdbd has no levels; while slurmdbd is away no user has a level.
		level, err := p.ask(ctx, p.programs.Sacctmgr, "--noheader", "--parsable2", "show", "user", "name="+name, "format=AdminLevel")
		one.operator = err == nil && (level == "Operator" || level == "Administrator")
	}
	return one, nil
}

// isSuper reports whether name is the user that slurmctld runs as. While Slurm does not name that
// user, no user is.
func (p *userDirectory) isSuper(ctx context.Context, name string) bool {
	p.mu.Lock()
	super := p.super
	p.mu.Unlock()
	if super == "" && p.programs.Scontrol != "" {
		out, err := p.ask(ctx, p.programs.Scontrol, "show", "config")
		if err != nil {
			return false
		}
		super = slurmUser(out)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.super = super
	}
	return super != "" && name == super
}

// slurmUser finds SlurmUser in the output of scontrol show config: "SlurmUser = slurm(64030)".
func slurmUser(config string) string {
	for line := range strings.Lines(config) {
		key, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(key) == "SlurmUser" {
			name, _, _ := strings.Cut(strings.TrimSpace(value), "(")
			return name
		}
	}
	return ""
}

// lookUpQOS returns the QOS that a user may have jobs of an account in, on this cluster: slurmdbd knows
// the QOS of other clusters too.
func (p *userDirectory) lookUpQOS(ctx context.Context, user, account string) ([]string, error) {
	if p.programs.Sacctmgr == "" {
		return nil, nil
	}
	out, err := p.ask(ctx, p.programs.Sacctmgr, "--noheader", "--parsable2", "show", "assoc", "cluster="+p.cluster, "user="+user, "account="+account, "format=QOS")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.programs.Sacctmgr, err)
	}
	all := strings.FieldsFunc(out, func(r rune) bool { return r == ',' || r == '\n' })
	slices.Sort(all)
	return slices.Compact(all), nil
}
