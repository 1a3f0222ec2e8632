// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
)

// TestOverTheRing: the same round trip over the ring that will carry it.
func TestOverTheRing(t *testing.T) {
	ring, err := wire.Create(wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	x := &echo{random: rand.New(rand.NewPCG(1, 2)), fails: true}
	served := make(chan error, 1)
	go func() {
		served <- ring.Serve(func(m *wire.Message) {
			in := append(make([]byte, 0, len(m.Args)+m.BulkSize()), m.Args...)
			in = in[:len(m.Args)+m.Bulk(in[len(m.Args):cap(in)], 0)]
			out, r, err := Serve(x, Call{Thread: m.Thread}, m.Op, in, nil)
			info, _ := Look(m.Op)
			if err != nil || info.Posted != (m.Call() == nil) || info.Counted != m.Counted {
				t.Errorf("%s: %v, posted %v, counted %v", info.Symbol, err, m.Call() == nil, m.Counted)
			}
			if c := m.Call(); c != nil {
				if err := c.Answer(int32(r), out); err != nil {
					t.Errorf("%s: %v", info.Symbol, err)
				}
			}
		})
	}()
	var out, problem bytes.Buffer
	cmd := exec.Command(sanitized.file(t, "roundtrip-ring"), "calls", "11", "4")
	cmd.ExtraFiles = []*os.File{ring.File()}
	cmd.Env = append(os.Environ(), noLeaks)
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		t.Errorf("%v: %s", err, problem.String())
	}
	ring.Finish()
	if err := <-served; err != nil {
		t.Error(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != len(x.lines) || len(lines) < 4*300 {
		t.Fatalf("%d calls were made, %d arrived", len(lines), len(x.lines))
	}
	for i := range lines {
		if lines[i] != x.lines[i] {
			t.Fatalf("call %d:\nC  %s\nGo %s", i, lines[i], x.lines[i])
		}
	}
}
