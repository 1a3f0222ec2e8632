//go:build control

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"fmt"
	"strings"
)

// looksEnough is how many looks at the cluster show that policies leave a job alone: preemptd looks once a second, and after 5 s
// the rules of configurePolicies allow that a job is resized again.
const looksEnough = 8

// readLooks returns how often preemptd has looked at the cluster.
func (s *site) readLooks() int {
	s.Helper()
	var state struct{ Number int }
	if err := json.Unmarshal([]byte(s.runOn("ctl", "root", "curl -sS http://127.0.0.1:6832/api/v1/state")), &state); err != nil {
		s.Fatal(err)
	}
	return state.Number
}

// waitForLooks waits until preemptd has looked at the cluster so often again.
func (s *site) waitForLooks(more int) {
	s.Helper()
	from := s.readLooks()
	s.waitFor(fmt.Sprintf("preemptd looks %d times", more), func() (bool, string) {
		now := s.readLooks()
		return now >= from+more, fmt.Sprintf("it has looked %d times", now-from)
	})
}

// waitForGPUs waits until preemptd has counted that the job runs on so many GPUs.
func (j *job) waitForGPUs(want int) {
	j.Helper()
	j.waitFor(fmt.Sprintf("job %s has %d GPUs", j.name, want), func() (bool, string) {
		_, stands := j.readHistory()
		return stands.GPUs == want && stands.Action == "", fmt.Sprintf("%+v", stands)
	})
}

// chosenSizesStay: a person has a job go on with fewer GPUs than it was submitted with, and another without the GPU that a policy had
// lent to it. Both GPUs are idle then, policies would give them to the jobs, and leave them idle until the person takes that back.
func chosenSizesStay(s *site) {
	s.configurePolicies("elastic, tiers")
	own := s.submitTraining("c1", "--qos=basic --gpus-per-node=2 --singularity-gpus=1-2")
	lent := s.submitTraining("c2", "--qos=basic --gpus-per-node=1 --singularity-gpus=1-2")
	lent.waitForShares(2)
	own.waitForProgress()
	s.runOn("ctl", "alice", fmt.Sprintf("singctl resize %s --gpus 1 --reason cheaper & singctl resize %s --gpus 1 --reason cheaper; wait $!", own.id, lent.id))
	lent.waitForShares(1)
	own.waitForProgress()
	s.waitForLooks(looksEnough)
	own.checkActs("resize by alice")
	lent.checkActs("resize by policy elastic", "resize by alice")
	own.waitForGPUs(1)
	lent.waitForGPUs(1)
	// The person chooses anew; and a run begins with the GPUs that its job asks for, and policies lend more to it.
	s.runOn("ctl", "alice", fmt.Sprintf("singctl resize %s --gpus 2 --reason faster & singctl preempt %s --reason faster; wait $!", own.id, lent.id))
	own.waitForGPUs(2)
	lent.waitForShares(2)
	lent.checkActs("resize by policy elastic", "resize by alice", "preempt by alice", "resize by policy elastic")
	own.checkActs("resize by alice", "resize by alice")
	for _, j := range []*job{own, lent} {
		j.waitForProgress()
		j.endAndCompare()
	}
}

// leaseWithoutCPU: other jobs have all CPUs of a job's node, so that no lease could start there. The operator is told so by
// the result, the job is requeued in its new size at once, and its owner can shrink a job that leases made larger.
func leaseWithoutCPU(s *site) {
	s.configurePolicies("")
	grows := s.submitTraining("n1", "--qos=basic --gpus-per-node=1 --singularity-gpus=1-2")
	grows.waitForProgress()
	node := grows.currentState().nodes
	fills := &job{s, s.runOn("ctl", "bob", fmt.Sprintf("idle=$(scontrol show node -o %[1]s | sed 's/.*CPUAlloc=\\([0-9]*\\) .*CPUTot=\\([0-9]*\\) .*/\\2-\\1/'); "+
		"sbatch --parsable --cpus-per-task=$((idle)) --mem=64M --time=10 --nodelist=%[1]s --output=/dev/null --wrap 'exec sleep 600'", node)), "fills"}
	fills.waitForState("RUNNING")
	said := s.runOn("ctl", "operator", "singctl resize "+grows.id+" --gpus 2 --reason more")
	if !strings.Contains(said, "for a lease, "+node+" lacks idle CPUs (0 of 1)") {
		s.Errorf("a resize where no CPU is idle: %s", said)
	}
	if st := grows.waitForState("RUNNING"); st.restarts != 1 || st.gres != "gres/gpu:2" {
		s.Errorf("resized by a requeue: %s", st)
	}
	s.runOn("ctl", "bob", "scancel "+fills.id)
	grows.waitForProgress()
	grows.endAndCompare()

	lent := s.submitTraining("n2", "--qos=basic --gpus-per-node=1 --singularity-gpus=1-2")
	lent.waitForProgress()
	s.runOn("ctl", "operator", "singctl resize "+lent.id+" --gpus 2 --reason more")
	lent.waitForShares(2)
	lease := s.runOn("ctl", "root", "squeue -h -t R -n lease-of-"+lent.id+" -o %i")
	said = s.runOn("ctl", "operator", "singctl resize "+lease+" --gpus 2 2>&1 || :")
	if !strings.Contains(said, "it is a lease, which lends its GPUs to job "+lent.id) {
		s.Errorf("a resize of a lease: %s", said)
	}
	s.waitFor("the owner is told that MAX is reached", func() (bool, string) {
		said := s.runOn("ctl", "alice", "singctl resize "+lent.id+" --gpus 3 2>&1 || :")
		return strings.Contains(said, "its MAX is reached"), said
	})
	s.runOn("ctl", "root", "scancel "+lease)
	lent.waitForShares(1)
	lent.waitUntil("has a comment that says that the lease has ended", func(st state) bool {
		return strings.Contains(st.comment, "was resized in place, to 2 GPUs") && strings.Contains(st.comment, "; its leases have changed since")
	})
	lent.waitForProgress()
	if st := lent.endAndCompare(); st.restarts != 0 {
		s.Errorf("the job was restarted %d times", st.restarts)
	}
}
