// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package operators says whether a user is an operator: the configuration of a daemon names
// operators, by user or by group.
package operators

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// List is the operators that a configuration names.
type List struct{ users, groups []string }

// Parse returns the list of those names; "@NAME" names a group.
func Parse(names []string) List {
	var l List
	for _, name := range names {
		if group, ok := strings.CutPrefix(name, "@"); ok {
			l.groups = append(l.groups, group)
		} else {
			l.users = append(l.users, name)
		}
	}
	return l
}

// Empty reports whether the list names no user and no group.
func (l List) Empty() bool { return len(l.users)+len(l.groups) == 0 }

// User is a user, as a node knows him.
type User struct {
	Name   string // "": this node does not know the user
	Listed bool   // by name or by a group
}

// LookUp looks a user up on this node. runID runs id(1) and returns its output. The reason for
// id(1): users of a cluster come from LDAP as often as from a file, only libc can look there, and a
// Go program without cgo has no libc.
func (l List) LookUp(ctx context.Context, uid uint32, runID func(ctx context.Context, args ...string) (string, error)) (User, error) {
	number := "+" + strconv.FormatUint(uint64(uid), 10) // the sign: not a user of that name
	name, err := runID(ctx, "-un", number)
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil { // id was not killed: it says that there is no such user
		return User{}, nil
	}
	if err != nil {
		return User{}, fmt.Errorf("look up its name: %w", err)
	}
	u := User{Name: strings.TrimSuffix(name, "\n")}
	u.Listed = slices.Contains(l.users, u.Name)
	if u.Listed || len(l.groups) == 0 {
		return u, nil
	}
	groups, err := runID(ctx, "-Gnz", number)
	if err != nil {
		return User{}, fmt.Errorf("look up its groups: %w", err)
	}
	for group := range strings.SplitSeq(groups, "\x00") {
		u.Listed = u.Listed || group != "" && slices.Contains(l.groups, group)
	}
	return u, nil
}
