// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"reflect"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// patience is for an answer, on a machine that is busy with something else.
const patience = time.Minute

// maxReason is how long a reason is at most: reasons are for people.
const maxReason = 1 << 10

// Run runs a policy and holds it to the contract: the rules for every decision.
func Run(t *testing.T, program string, args ...string) {
	t.Run("says who it is", func(t *testing.T) {
		d, err := Start(t, program, args...).Describe(t.Context())
		if err != nil || d.Name == "" || d.Summary == "" {
			t.Errorf("it is %+v, %v", d, err)
		}
	})
	t.Run("refuses settings that it does not have", func(t *testing.T) {
		if err := Start(t, program, args...).Configure(t.Context(), []byte(`{"no such setting": 1}`)); err == nil {
			t.Error("it takes them")
		}
	})
	t.Run("answers by the contract, and from the snapshot alone", func(t *testing.T) { compareProcesses(t, program, args) })
}

// compareProcesses asks two processes the same questions, the second process in another order.
func compareProcesses(t *testing.T, program string, args []string) {
	const snapshots = 60
	one, other := startConfigured(t, program, args), startConfigured(t, program, args)
	ask := func(c *sdk.Client, seed int) []sdk.Intent {
		s := &sdk.Snapshot{Time: Now}
		if seed > 0 {
			s = Random(rand.New(rand.NewPCG(uint64(seed), 3)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		intents, err := c.Decide(ctx, sdk.Encode(s))
		if err != nil {
			t.Fatalf("snapshot %d: %v", seed, err)
		}
		if err := Valid(s, intents); err != nil {
			t.Errorf("snapshot %d: %v", seed, err)
		}
		return intents
	}
	var first [snapshots][]sdk.Intent
	for seed := range snapshots {
		first[seed] = ask(one, seed)
	}
	for seed := snapshots - 1; seed >= 0; seed-- {
		if again := ask(other, seed); !reflect.DeepEqual(again, first[seed]) {
			t.Errorf("snapshot %d: asked again, it says %v, not %v", seed, again, first[seed])
		}
	}
}

// Valid says whether intents keep the contract: they name jobs and nodes of the snapshot, no job twice, and give a
// reason. It does not look at invariants.
func Valid(s *sdk.Snapshot, intents []sdk.Intent) error {
	named := map[sdk.JobID]bool{}
	for _, i := range intents {
		j, ok := s.Job(i.Job)
		switch {
		case !ok:
			return fmt.Errorf("%v: there is no such job", i)
		case j.Leader() != i.Job:
			return fmt.Errorf("%v: job %d leads its gang", i, j.Leader())
		case named[i.Job]:
			return fmt.Errorf("%v: the job has an intent already", i)
		case i.Reason == "" || len(i.Reason) > maxReason || !utf8.ValidString(i.Reason):
			return fmt.Errorf("%v: the reason is for people: %q", i, i.Reason)
		}
		named[i.Job] = true
		if _, ok := s.Job(i.For); i.For != 0 && !ok {
			return fmt.Errorf("%v: there is no job %d for whose sake it is", i, i.For)
		}
		for _, spot := range i.Where {
			if _, ok := s.Node(spot.Node); !ok {
				return fmt.Errorf("%v: there is no node %q", i, spot.Node)
			}
		}
	}
	return nil
}

// startConfigured is a process that can be asked.
func startConfigured(t *testing.T, program string, args []string) *sdk.Client {
	t.Helper()
	c := Start(t, program, args...)
	if err := c.Configure(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return c
}

// Start starts a policy, which ends with the test. The policy's standard error, a panic for example, is in the test's
// log.
func Start(t testing.TB, program string, args ...string) *sdk.Client {
	t.Helper()
	said := &output{}
	p := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  sdk.Handshake,
		Plugins:          plugin.PluginSet{sdk.PluginName: &sdk.Plugin{}},
		Cmd:              exec.Command(program, args...), //nolint:gosec // the caller's own
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
		Stderr:           said,
	})
	t.Cleanup(func() {
		p.Kill() // returns when all of the standard error was read
		if text := said.String(); text != "" {
			t.Logf("%s wrote:\n%s", program, text)
		}
	})
	conn, err := p.Client()
	if err != nil {
		t.Fatalf("start of %s: %v", program, err)
	}
	client, err := conn.Dispense(sdk.PluginName)
	if err != nil {
		t.Fatalf("client of %s: %v", program, err)
	}
	return client.(*sdk.Client) //nolint:errcheck // sdk.Plugin returns no other type
}

// output keeps a policy's standard error.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write keeps b.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// String returns the text written so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
