//go:build control

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"strings"
)

// lend submits a job that lends its GPU to another.
func (s *site) lend(name, user string, to *job, options string) *job {
	s.Helper()
	id := s.on("ctl", user, fmt.Sprintf("sbatch --parsable --time=10 --output=%%x.log --job-name=%s --gpus-per-node=1 --nodelist=%s --singularity-lease=%s %s --wrap 'exec sleep 600'",
		name, to.now().nodes, to.id, options))
	return &job{s, id, name}
}

// shares waits until a job's device server has so many GPUs at work.
func (j *job) shares(want int) {
	j.Helper()
	j.until(fmt.Sprintf("job %s has %d GPUs", j.name, want), func() (bool, string) {
		shown := j.on("ctl", "alice", "singctl show "+j.id)
		last := ""
		for line := range strings.Lines(shown) {
			if strings.Contains(line, " GPUs ") && strings.HasSuffix(strings.TrimSpace(line), "now") {
				last = line
			}
		}
		return strings.HasSuffix(strings.TrimSpace(last), fmt.Sprintf(": %d now", want)), shown
	})
}

// A running job gets a GPU of another job of its user, and leaves it when that ends, however it ends: it is never requeued.
// No user can lend to, or take from, another.
func leasesByHand(s *site) {
	s.configure("")
	grows := s.train("l1", "--qos=basic --gpus-per-node=1 --singularity-gpus=1-2")
	grows.trains()
	s.lend("l0", "bob", grows, "").becomes("FAILED")
	if said := s.on("ctl", "bob", "cat l0.log"); !strings.Contains(said, "no such job of the same user") {
		s.Errorf("bob lends to alice: %s", said)
	}
	lease := s.lend("l2", "alice", grows, "")
	lease.becomes("RUNNING")
	grows.shares(2)
	grows.trains()
	s.on("ctl", "root", "scancel "+lease.id)
	lease.is("has left", func(st state) bool { return st.is == "CANCELLED" })
	grows.shares(1)
	grows.trains()
	lease = s.lend("l3", "alice", grows, "")
	lease.becomes("RUNNING")
	grows.shares(2)
	s.lend("l4", "alice", grows, "") // no GPU is left on the node: it waits, and goes with the others
	grows.trains()
	if st := grows.ends(); st.restarts != 0 {
		s.Errorf("the job was restarted %d times", st.restarts)
	}
	lease.is("ends with the job that it lent to", func(st state) bool { return st.is == "CANCELLED" })
}
