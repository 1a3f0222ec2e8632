//go:build control

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"fmt"
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
