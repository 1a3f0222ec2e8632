// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package operators_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/operators"
)

// runID answers as id(1) would of alice: user 1001 in the groups "alice" and "hpc admins".
func runID(_ context.Context, args ...string) (string, error) {
	switch strings.Join(args, " ") {
	case "-un +1001":
		return "alice\n", nil
	case "-Gnz +1001":
		return "alice\x00hpc admins\x00", nil
	}
	return "", exec.Command("false").Run()
}

func TestLookUp(t *testing.T) {
	for name, tt := range map[string]struct {
		list string
		uid  uint32
		want operators.User
	}{
		"no user is listed":               {"", 1001, operators.User{Name: "alice"}},
		"the user is listed":              {"bob,alice", 1001, operators.User{Name: "alice", Listed: true}},
		"a group of the user is listed":   {"@hpc admins", 1001, operators.User{Name: "alice", Listed: true}},
		"a user's name is no group":       {"@bob", 1001, operators.User{Name: "alice"}},
		"the empty group is no group":     {"@", 1001, operators.User{Name: "alice"}},
		"the node does not know the user": {"alice", 1002, operators.User{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := operators.Parse(strings.Split(tt.list, ",")).LookUp(t.Context(), tt.uid, runID)
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

// TestLookUpCancelled shows that a request which ends while id(1) runs is an error and not the
// answer "unknown user": daemons remember answers.
func TestLookUpCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	killed := func(context.Context, ...string) (string, error) {
		cancel()
		return "", exec.CommandContext(t.Context(), "false").Run()
	}
	if got, err := operators.Parse([]string{"alice"}).LookUp(ctx, 1001, killed); err == nil {
		t.Errorf("got %+v and no error", got)
	}
}
