//go:build control

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// waitForLent waits until proxyd of a node has logged that the job has want GPUs because of a lease. It does not need
// preemptd.
func (j *job) waitForLent(node string, lease *job, want int) {
	j.Helper()
	j.waitFor(fmt.Sprintf("proxyd of %s has logged that job %s has %d GPUs by lease %s", node, j.name, want, lease.id), func() (bool, string) {
		log, err := os.ReadFile(j.cluster.Log(node, "proxyd"))
		if err != nil {
			return false, err.Error()
		}
		last := "nothing is logged of the lease"
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, "the GPUs of the job have changed") && strings.Contains(line, " lease="+lease.id+" ") {
				last = strings.TrimSpace(line)
			}
		}
		return strings.Contains(last+" ", fmt.Sprintf(" has=%d ", want)), last
	})
}

// preemptBySlurm has Slurm itself requeue jobs of QOS basic for jobs of QOS premium.
func (s *site) preemptBySlurm() {
	s.Helper()
	s.runOn("ctl", "root", "sacctmgr -i modify qos premium set preempt=basic preemptmode=requeue")
	for _, host := range []string{"ctl", "n1"} {
		s.runOn(host, "root", `sed -i 's,^PreemptType=.*,PreemptType=preempt/qos\nPreemptMode=REQUEUE,' /etc/slurm/slurm.conf`)
	}
	s.runMinicluster("restart", "ctl", "slurmctld")
	s.waitFor("Slurm preempts by QOS", func() (bool, string) {
		said := s.runOn("ctl", "root", "scontrol show config 2>&1 | grep '^Preempt' || :; sinfo -h -N -n n1 -p main -o %T 2>&1 || :")
		return strings.Contains(said, "preempt/qos") && strings.Contains(said, "idle"), said
	})
}

// TestLeasesWithoutController: proxyd and Slurm alone lend a GPU to a running job and take the GPU back: preemptd stands still.
// Slurm itself preempts a lease; another lease is requeued while its node drains, and begins again. The running job is
// never requeued, and has the results of the undisturbed training.
func TestLeasesWithoutController(t *testing.T) {
	t.Parallel()
	s := raiseSite(t, *name+"-alone", 1, 2, 2)
	s.configurePolicies("")
	s.preemptBySlurm()
	j := s.submitTraining("alone", "--qos=standard --gpus-per-node=1 --singularity-gpus=1-2")
	j.waitForProgress()
	s.runOn("ctl", "root", "kill -STOP $(pidof preemptd)")

	lease := s.submitBorrower("lends", "alice", j, "--qos=basic --no-requeue")
	j.waitForLent("n1", lease, 2)
	j.waitForProgress()
	premium := &job{s, s.runOn("ctl", "bob", "sbatch --parsable --time=10 --job-name=premium --output=/dev/null --qos=premium --gpus-per-node=1 --wrap 'exec sleep 600'"), "premium"}
	lease.waitForState("PREEMPTED")
	j.waitForLent("n1", lease, 1)
	premium.waitForState("RUNNING")
	j.waitForProgress()
	s.runOn("ctl", "bob", "scancel "+premium.id)
	premium.waitForState("CANCELLED")

	lease = s.submitBorrower("drains", "alice", j, "--qos=basic")
	j.waitForLent("n1", lease, 2)
	s.runOn("ctl", "root", "scontrol update NodeName=n1 State=DRAIN Reason=test")
	j.waitForProgress() // a job that runs on a draining node goes on
	s.runOn("ctl", "root", "scontrol requeue "+lease.id)
	j.waitForLent("n1", lease, 1)
	lease.waitForState("PENDING")
	j.waitForProgress()
	s.runOn("ctl", "root", "scontrol update NodeName=n1 State=RESUME")
	s.waitFor("the lease runs again", func() (bool, string) { // Slurm would wait for two minutes
		s.runOn("ctl", "root", "scontrol update JobId="+lease.id+" StartTime=now || :")
		st := lease.currentState()
		return st.is == "RUNNING", st.String()
	})
	j.waitForLent("n1", lease, 2)
	j.waitForProgress()

	s.runOn("ctl", "root", "kill -CONT $(pidof preemptd)")
	j.waitForShares(2) // preemptd learns of the changes meanwhile
	if st := j.endAndCompare(); st.restarts != 0 {
		t.Errorf("the job was restarted %d times", st.restarts)
	}
	lease.waitUntil("ends with the job that it lent to", func(st state) bool { return st.is == "CANCELLED" })
}
