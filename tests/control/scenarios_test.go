//go:build control

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestControl runs all scenarios in turn on a single cluster: the jobs of each scenario need the whole cluster.
func TestControl(t *testing.T) {
	t.Parallel()
	s := raiseSite(t, *name, 3, 2, 2)
	for _, scenario := range []struct {
		name string
		play func(*site)
	}{
		{"nobody decides", nobodyDecides},
		{"premium preempts basic", premiumPreempts},
		{"room is kept from the first of the queue", roomIsKeptFromFirst},
		{"room is kept from short jobs", roomIsKeptFromShort},
		{"room is given up", roomIsGivenUp},
		{"shrink instead of preempt, and grow back", shrinkAndGrow},
		{"idle GPUs are lent, and come back", idleGPUs},
		{"leases by hand", leasesByHand},
		{"a job that is lent GPUs is cancelled", cancelledWithLeases},
		{"resize in place, or by a requeue", resizeInPlace},
		{"a node lacks what a lease needs", leaseWithoutCPU},
		{"what a person chose stays", chosenSizesStay},
		{"rolling drain", rollingDrain},
		{"defrag makes room", defragMakesRoom},
		{"power cap", powerCap},
		{"a node fails during a migration", nodeFails},
		{"the journal is removed during an action", journalRemoved},
		{"an action is undone", undoneAtOnce},
		{"a proxyd is stopped, another loses its folder", proxydStops},
		{"policies crash, hang and flood", policiesFail},
		{"the site's own policy", sitePolicy},
		{"two preemptd", twoControllers},
		{"two preemptd with two journals", twoJournals},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			s := s.withTest(t)
			defer s.runOn("ctl", "root", "scancel --quiet --user=alice; until [ -z \"$(squeue -h)\" ]; do sleep 0.2; done")
			scenario.play(s)
		})
	}
}

// fillCluster submits basic jobs that hold all GPUs, and waits until they train.
func (s *site) fillCluster(prefix, options string) []*job {
	s.Helper()
	var all []*job
	for i := range 3 {
		all = append(all, s.submitTraining(fmt.Sprintf("%s%d", prefix, i+1), "--qos=basic --gpus-per-node=2 "+options))
	}
	for _, j := range all {
		j.waitForProgress()
	}
	return all
}

// Without a policy, preemptd makes no decisions, and tells people that wait: in the log once, and by singctl.
func nobodyDecides(s *site) {
	s.configurePolicies("")
	basic := s.fillCluster("n", "--singularity")
	premium := s.submitTraining("np", "--qos=premium --gpus-per-node=1 --singularity")
	s.waitFor("singctl history says why the job waits", func() (bool, string) {
		_, stands := premium.readHistory()
		return strings.Contains(stands.Waits, "no policy is configured") && strings.Contains(stands.Waits, "it would fit if these gave way"), stands.Waits
	})
	s.waitFor("preemptd's log says that the job waits", func() (bool, string) {
		return strings.Contains(s.preemptdLog(), "msg=waits job="+premium.id+" tier=premium"), ""
	})
	if shown := s.runOn("ctl", "alice", "singctl show "+premium.id); !strings.Contains(shown, "waits: no policy makes room for it; it would fit if these gave way") || !strings.Contains(shown, "(no policy is configured)") {
		s.Errorf("shown: %s", shown)
	}
	if n := strings.Count(s.preemptdLog(), "msg=waits job="+premium.id+" "); n != 1 {
		s.Errorf("logged %d times", n)
	}
	s.checkInfeasibleShown()
	for _, j := range basic {
		j.checkActs()
		j.endAndCompare()
	}
	premium.waitForProgress()
	premium.endAndCompare()
}

// checkInfeasibleShown submits a premium job for all 6 GPUs, while another premium job waits for a GPU, and drains a node.
// singctl shows that the promises of the job and of the tier cannot be kept, until the large job is cancelled.
func (s *site) checkInfeasibleShown() {
	s.Helper()
	large := s.submitUnprotected("large", "--qos=premium --nodes=3 --gpus-per-node=2")
	s.waitForShown(large, "", "premium: 6.7 GPUs are promised, 6 are there")
	s.runOn("ctl", "root", "scontrol update nodename=n3 state=drain reason=test")
	s.waitForShown(large, "its promise cannot be kept: it asks for 6 GPUs, and the nodes that it may use have 4; ", "premium: 6.7 GPUs are promised, 4 are there")
	s.runOn("ctl", "root", "scontrol update nodename=n3 state=resume; scancel "+large.id)
	s.waitFor("no promise is too much", func() (bool, string) {
		shown := s.runOn("ctl", "alice", "singctl status")
		return !strings.Contains(shown, "not all promises can be kept"), shown
	})
}

// waitForShown waits until singctl show has a text about a job and about a tier, and singctl status the text about the tier.
func (s *site) waitForShown(j *job, ofJob, ofTier string) {
	s.Helper()
	s.waitFor(ofTier, func() (bool, string) {
		// Until preemptd has looked, show knows nothing of the job, and fails.
		shown, status := s.runOn("ctl", "alice", "singctl show "+j.id+" || true"), s.runOn("ctl", "alice", "singctl status")
		return strings.Contains(shown, ofJob+"not all promises can be kept: "+ofTier) && strings.Contains(status, "not all promises can be kept: "+ofTier), shown + status
	})
}

// A premium job comes to a full cluster: a single basic job gives way, and goes on by itself when there is room again.
func premiumPreempts(s *site) {
	s.configurePolicies("tiers")
	basic := s.fillCluster("p", fmt.Sprintf("--singularity --export=ALL,BALLAST=%d", *more))
	checkpoint, slurm := s.measureUndisturbed(basic[0])
	alone := checkpoint + slurm
	asked := time.Now()
	premium := s.submitTraining("pp", "--qos=premium --gpus-per-node=1 --singularity")
	premium.waitForState("RUNNING")
	took := time.Since(asked)
	s.Logf("premium runs %.1f s after it was submitted; checkpoint, Slurm's own requeue and start: %.1f s; ratio %.2f", took.Seconds(), alone.Seconds(), took.Seconds()/alone.Seconds())
	// The aim is 1.3 times. docs/performance.md has the measured ratio; here only the wait above fails if premium does
	// not run.
	var left *job
	for _, j := range basic {
		acts, _ := j.readHistory()
		switch {
		case len(acts) == 0:
		case left != nil:
			s.Errorf("jobs %s and %s both gave way", left.name, j.name)
		default:
			left = j
		}
	}
	if left == nil {
		s.Fatal("no job gave way")
	}
	left.waitUntil("waits, and says why", func(st state) bool {
		return st.is == "PENDING" && st.restarts == 1 && !st.held && strings.Contains(st.comment, "preempted by policy tiers: premium job "+premium.id)
	})
	left.checkActs("preempt by policy tiers")
	acts, _ := left.readHistory()
	steps, checkpoint := left.describeCourse(acts[0], asked)
	s.Logf("job %s gave way: %s; with its own checkpoint of %.1f s the ratio is %.2f", left.name, steps, checkpoint.Seconds(), took.Seconds()/(checkpoint+slurm).Seconds())
	s.waitFor("preemptd has counted that one gets less", func() (bool, string) { // the job may have begun first
		_, less := left.readHistory()
		for _, j := range basic {
			if _, stands := j.readHistory(); stands.Tier != "basic" || j != left && stands.Fraction <= less.Fraction {
				return false, fmt.Sprintf("job %s: %+v; job %s, which gave way: %+v", j.name, stands, left.name, less)
			}
		}
		return true, ""
	})
	if _, stands := premium.readHistory(); stands.Tier != "premium" || stands.Promised != 0.95 {
		s.Errorf("the count of the premium job: %+v", stands)
	}
	premium.waitForProgress()
	premium.endAndCompare()
	left.waitForProgress() // by itself
	for _, j := range basic {
		st := j.endAndCompare()
		if want := map[bool]int{true: 1}[j == left]; st.restarts != want {
			s.Errorf("job %s was restarted %d times, want %d", j.name, st.restarts, want)
		}
	}
}

// measureUndisturbed measures the times that a premium job has to wait in any case: for a checkpoint of the job that
// gives way, and for Slurm itself, from a job's submission on, if another job is requeued at once, as when Slurm
// preempts by itself.
func (s *site) measureUndisturbed(of *job) (checkpoint, slurm time.Duration) {
	s.Helper()
	began := time.Now()
	s.runOn("ctl", "alice", "singctl checkpoint --quiet "+of.id)
	checkpoint = time.Since(began)
	plain := func(name, options string) *job {
		return &job{s, s.runOn("ctl", "alice", "sbatch --parsable --time=10 --output=/dev/null --job-name="+name+" "+options+" --wrap='sleep 1000'"), name}
	}
	// CPUs stand for GPUs: these are all in use.
	gives := plain("gives", "--qos=basic --ntasks=1 --cpus-per-task=3 --nodelist=n1")
	gives.waitForState("RUNNING")
	began = time.Now()
	waits := plain("waits", "--qos=premium --ntasks=1 --cpus-per-task=3 --nodelist=n1")
	s.runOn("ctl", "root", "scontrol requeuehold "+gives.id)
	waits.waitForState("RUNNING")
	slurm = time.Since(began)
	s.runOn("ctl", "root", "scancel "+gives.id+" "+waits.id)
	s.Logf("checkpoint %.1f s, Slurm's requeue and start %.1f s", checkpoint.Seconds(), slurm.Seconds())
	return checkpoint, slurm
}

// Where a job can be shrunk no job is preempted; and the job gets back the GPUs that its user asked for.
func shrinkAndGrow(s *site) {
	s.configurePolicies("elastic, tiers")
	basic := s.fillCluster("s", "--singularity=gpus=1-2")
	premium := s.submitTraining("sp", "--qos=premium --gpus-per-node=1 --singularity")
	premium.waitForState("RUNNING")
	var small *job
	for _, j := range basic {
		if acts, _ := j.readHistory(); len(acts) > 0 {
			small = j
		}
	}
	if small == nil {
		s.Fatal("no job was shrunk")
	}
	st := small.waitUntil("runs on one GPU", func(st state) bool { return st.is == "RUNNING" && st.gres == "gres/gpu:1" })
	if on := premium.currentState().nodes; st.nodes != on {
		s.Errorf("the job that was shrunk is on %s, and the premium job on %s", st.nodes, on)
	}
	small.waitForProgress()
	s.waitFor("preemptd has counted that", func() (bool, string) { // a restarted preemptd asks the job's node anew how few GPUs are enough
		_, stands := small.readHistory()
		return stands.GPUs == 1 && stands.Requested == 2 && stands.Least == 1, fmt.Sprintf("%+v", stands)
	})
	premium.waitForProgress()
	premium.endAndCompare()
	s.waitFor("job "+small.name+" has two GPUs again", func() (bool, string) { // lent to the running job, or its own after a requeue
		_, stands := small.readHistory()
		return stands.GPUs == 2 && small.currentState().is == "RUNNING", fmt.Sprintf("%+v", stands)
	})
	small.waitForProgress()
	small.checkActs("resize by policy tiers", "resize by policy tiers")
	for _, j := range basic {
		if j != small {
			j.checkActs()
		}
		j.endAndCompare()
	}
}

// Each node is emptied in its turn, as for an upgrade, with the cluster at work: no work is lost.
func rollingDrain(s *site) {
	s.configurePolicies("drain")
	jobs := []*job{
		s.submitTraining("d1", "--qos=basic --gpus-per-node=2 --singularity"), s.submitTraining("d2", "--qos=premium --gpus-per-node=1 --singularity"),
		s.submitTraining("d3", "--qos=standard --gpus-per-node=1 --singularity"),
	}
	for _, j := range jobs {
		j.waitForProgress()
	}
	for _, node := range []string{"n1", "n2", "n3"} {
		s.runOn("ctl", "root", "scontrol update nodename="+node+" state=drain reason=upgrade")
		s.waitFor(node+" is empty", func() (bool, string) {
			said := s.runOn("ctl", "root", "squeue -h -t R,CG -w "+node+" -o '%j %T'; sinfo -h -n "+node+" -o %T")
			return said == "drained", said
		})
		s.runOn("ctl", "root", "scontrol update nodename="+node+" state=resume")
		for _, j := range jobs {
			j.waitForProgress()
		}
	}
	for _, j := range jobs {
		acts := j.listActs()
		for _, a := range acts {
			if a.Who != "policy drain" || a.State != "done" {
				s.Errorf("job %s: %+v", j.name, a)
			}
		}
		if st := j.endAndCompare(); st.restarts != len(acts) || len(acts) == 0 {
			s.Errorf("job %s was restarted %d times, and %d actions were done to it", j.name, st.restarts, len(acts))
		}
	}
}

// Three jobs of a single GPU are on three nodes, and one of two GPUs waits: two of them move together.
func defragMakesRoom(s *site) {
	s.writeSettings("defrag", "patience: 1s")
	defer s.writeSettings("defrag", "")
	s.configurePolicies("")
	var jobs []*job
	for node, others := range map[string]string{"n1": "n2,n3", "n2": "n1,n3", "n3": "n1,n2"} {
		// A node that the job asked for would bind the policy as well.
		s.runOn("ctl", "root", "scontrol update nodename="+others+" state=drain reason=test")
		j := s.submitTraining("f"+node, "--qos=basic --gpus-per-node=1 --singularity")
		j.waitForState("RUNNING")
		s.runOn("ctl", "root", "scontrol update nodename="+others+" state=resume")
		jobs = append(jobs, j)
	}
	for _, j := range jobs {
		j.waitForProgress()
	}
	large := s.submitTraining("fl", "--qos=basic --gpus-per-node=2 --singularity")
	large.waitUntil("waits", func(st state) bool { return st.is == "PENDING" && st.reason == "Resources" })
	s.configurePolicies("defrag")
	large.waitForState("RUNNING")
	moved := 0
	for _, j := range jobs {
		acts, _ := j.readHistory()
		moved += len(acts)
		j.waitForProgress()
	}
	if moved != 1 {
		s.Errorf("%d moves were made", moved)
	}
	large.waitForProgress()
	for _, j := range append(jobs, large) {
		j.endAndCompare()
	}
}

// The cluster must draw less power: basic jobs go on with fewer GPUs, then they are parked, and the premium job is not
// disturbed. When there is power again they go on.
func powerCap(s *site) {
	s.configurePolicies("power")
	premium := s.submitTraining("wp", "--qos=premium --gpus-per-node=2 --singularity=gpus=1-2")
	basic := []*job{
		s.submitTraining("w1", "--qos=basic --gpus-per-node=2 --singularity=gpus=1-2"), s.submitTraining("w2", "--qos=basic --gpus-per-node=2 --singularity=gpus=1-2"),
	}
	for _, j := range append(basic, premium) {
		j.waitForProgress()
	}
	// Six GPUs at work draw 2400 W: two of them must idle.
	s.configurePolicies("power", "power: {cap: 1800, busy: 400, idle: 60}")
	for _, j := range basic {
		j.waitUntil("runs on one GPU", func(st state) bool { return st.is == "RUNNING" && st.gres == "gres/gpu:1" })
		j.waitForProgress()
	}
	s.configurePolicies("power", "power: {cap: 1200, busy: 400, idle: 60}")
	for _, j := range basic {
		j.waitUntil("is parked", func(st state) bool { return st.is == "PENDING" && st.held && st.restarts == 2 })
	}
	s.configurePolicies("power")
	for _, j := range basic {
		j.waitForProgress()
		j.checkActs("resize by policy power", "preempt by policy power", "resume by policy power")
		j.endAndCompare()
	}
	premium.checkActs()
	premium.endAndCompare()
}
