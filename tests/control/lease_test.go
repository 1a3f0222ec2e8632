//go:build control

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// submitBorrower submits a job that lends its GPU to another job.
func (s *site) submitBorrower(name, user string, to *job, options string) *job {
	s.Helper()
	id := s.runOn("ctl", user, fmt.Sprintf("sbatch --parsable --time=10 --output=%%x.log --job-name=%s --gpus-per-node=1 --nodelist=%s --singularity-lease=%s %s --wrap 'exec sleep 600'",
		name, to.currentState().nodes, to.id, options))
	return &job{s, id, name}
}

// waitForShares waits until a job's device server has so many GPUs at work.
func (j *job) waitForShares(want int) {
	j.Helper()
	j.waitFor(fmt.Sprintf("job %s has %d GPUs", j.name, want), func() (bool, string) {
		shown := j.runOn("ctl", "alice", "singctl show "+j.id+" 2>&1 || :") // the job may not have begun
		last := ""
		for line := range strings.Lines(shown) {
			if strings.Contains(line, " GPUs ") && strings.HasSuffix(strings.TrimSpace(line), "now") {
				last = line
			}
		}
		return strings.HasSuffix(strings.TrimSpace(last), fmt.Sprintf(": %d now", want)), shown
	})
}

// A running job gets a GPU of another job of its user, and leaves the GPU when the other job ends, however that ends: the running job is never requeued.
// No user can lend to, or take from, another.
func leasesByHand(s *site) {
	s.configurePolicies("")
	grows := s.submitTraining("l1", "--qos=basic --gpus-per-node=1 --singularity-gpus=1-2")
	grows.waitForProgress()
	s.submitBorrower("l0", "bob", grows, "").waitForState("FAILED")
	if said := s.runOn("ctl", "bob", "cat l0.log"); !strings.Contains(said, "no such job of the same user") {
		s.Errorf("bob lends to alice: %s", said)
	}
	lease := s.submitBorrower("l2", "alice", grows, "")
	lease.waitForState("RUNNING")
	grows.waitForShares(2)
	if shown := s.runOn("ctl", "alice", "singctl show "+grows.id); !strings.Contains(shown, "job "+lease.id+" lends it 1 GPU") {
		s.Errorf("shown: %s", shown)
	}
	if said, want := s.runOn("ctl", "alice", "singctl show "+lease.id), "it is a lease: it holds GPU "; !strings.Contains(said, want) || !strings.Contains(said, "for job "+grows.id) {
		s.Errorf("show of a lease, which does not say %q: %s", want, said)
	}
	grows.waitFor("singctl jobs counts the lease with the job that borrows", func() (bool, string) {
		shown := s.runOn("ctl", "alice", "singctl jobs")
		return strings.Contains(shown, " 1 + 1 leased ") && !strings.Contains(shown, " "+lease.name+" "), shown
	})
	grows.waitForProgress()
	s.runOn("ctl", "root", "scancel "+lease.id)
	lease.waitUntil("has left", func(st state) bool { return st.is == "CANCELLED" })
	grows.waitForShares(1)
	grows.waitForProgress()
	lease = s.submitBorrower("l5", "alice", grows, "")
	lease.waitForState("RUNNING")
	grows.waitForShares(2)
	s.runMinicluster("restart", grows.currentState().nodes, "proxyd") // its successor knows the lease
	grows.waitForProgress()
	s.runOn("ctl", "alice", "scancel "+lease.id)
	grows.waitForShares(1)
	grows.waitForProgress()
	lease = s.submitBorrower("l3", "alice", grows, "")
	lease.waitForState("RUNNING")
	grows.waitForShares(2)
	s.submitBorrower("l4", "alice", grows, "") // no GPU is left on the node: the job waits, and goes with the rest
	grows.waitForProgress()
	if st := grows.endAndCompare(); st.restarts != 0 {
		s.Errorf("the job was restarted %d times", st.restarts)
	}
	lease.waitUntil("ends with the job that it lent to", func(st state) bool { return st.is == "CANCELLED" })
}

// cancelledWithLeases: a job that is lent a GPU by an action is cancelled while it runs. Its lease is cancelled, and a
// second lease, which waits for a GPU, fails or is cancelled, for there is no job to which it could lend. No action is
// left under way, and all GPUs are free again.
func cancelledWithLeases(s *site) {
	s.configurePolicies("")
	grows := s.submitTraining("c1", "--qos=basic --gpus-per-node=1 --singularity-gpus=1-2")
	grows.waitForProgress()
	s.runOn("ctl", "operator", "singctl resize "+grows.id+" --gpus 2 --reason more")
	grows.waitForShares(2)
	lease := &job{s, s.runOn("ctl", "root", "squeue -h -t R -n lease-of-"+grows.id+" -o %i"), "lease-of-" + grows.id}
	waits := s.submitBorrower("c3", "alice", grows, "")
	waits.waitForState("PENDING")
	node := grows.currentState().nodes
	s.runOn("ctl", "alice", "scancel "+grows.id)
	for _, j := range []*job{grows, lease} {
		j.waitUntil("is cancelled", func(st state) bool { return st.is == "CANCELLED" })
	}
	waits.waitUntil("has ended", func(st state) bool { return st.is == "CANCELLED" || st.is == "FAILED" })
	grows.checkActs("resize by operator")
	next := s.submitTraining("c4", "--qos=basic --gpus-per-node=2 --singularity --nodelist="+node)
	next.waitForProgress()
	next.endAndCompare()
}

// A job of a single GPU that can use two gets the idle GPU, and gives the GPU back when another job waits, and is
// never requeued.
func idleGPUs(s *site) {
	s.configurePolicies("elastic")
	grows := s.submitTraining("e1", "--qos=basic --gpus-per-node=1 --singularity-gpus=1-2")
	grows.waitForShares(2)
	grows.waitForProgress()
	full := []*job{s.submitTraining("e2", "--qos=basic --gpus-per-node=2 --singularity"), s.submitTraining("e3", "--qos=basic --gpus-per-node=2 --singularity")}
	for _, j := range full {
		j.waitForState("RUNNING")
	}
	waits := s.submitTraining("e4", "--qos=basic --gpus-per-node=1 --singularity")
	st := waits.waitForState("RUNNING")
	grows.waitForShares(1)
	if on := grows.currentState().nodes; st.nodes != on {
		s.Errorf("the job that gave its GPU back is on %s, and the job that waited for it on %s", on, st.nodes)
	}
	grows.waitForProgress()
	grows.checkActs("resize by policy elastic", "resize by policy elastic")
	for _, j := range append(full, waits, grows) {
		if st := j.endAndCompare(); st.restarts != 0 {
			s.Errorf("job %s was restarted %d times", j.name, st.restarts)
		}
	}
}

// resizeInPlace: a person gets a job more GPUs and fewer, in place where jobs can lend them, and is told in which way that was done.
func resizeInPlace(s *site) {
	s.configurePolicies("")
	grows := s.submitTraining("i1", "--qos=basic --gpus-per-node=1 --singularity-gpus=1-2")
	grows.waitForProgress()
	s.refuseSize(grows, "--gpus 3", "its programs see 2 there, and can use no more: 1 to 2 are possible (it was submitted with --singularity-gpus=1-2)")
	s.refuseSize(grows, "--nodes 2", "2 nodes")
	if said := s.runOn("ctl", "operator", "singctl resize "+grows.id+" --gpus 2 --reason more"); !strings.Contains(said, "in place; lent by: ") {
		s.Errorf("told: %s", said)
	}
	grows.waitForShares(2)
	if st := grows.currentState(); !strings.Contains(st.comment, "resized in place, to 2 GPUs") || st.restarts != 0 || st.is != "RUNNING" {
		s.Errorf("grown: %s", st)
	}
	s.waitFor("preemptd counts both", func() (bool, string) {
		_, stands := grows.readHistory()
		return stands.GPUs == 2 && stands.Requested == 1, fmt.Sprintf("%+v", stands)
	})
	grows.waitForProgress()
	s.runOn("ctl", "alice", "singctl resize "+grows.id+" --gpus 1 --reason less")
	grows.waitForShares(1)
	grows.waitForProgress()
	if said := s.runOn("ctl", "root", "squeue -h -u alice -o '%j %T'"); said != "i1 RUNNING" {
		s.Errorf("a lease is left: %s", said)
	}
	rigid := s.submitTraining("i2", "--qos=basic --gpus-per-node=2 --singularity-gpus=1-2")
	rigid.waitForProgress()
	s.refuseSize(rigid, "--gpus 4", "its programs see 2 there")
	s.runOn("ctl", "alice", "singctl resize "+rigid.id+" --gpus 1 --reason less") // of its own two: no lease can take such a GPU
	rigid.waitForProgress()
	if st := rigid.currentState(); st.restarts != 1 || st.gres != "gres/gpu:1" || strings.Contains(st.comment, "in place") {
		s.Errorf("shrunk: %s", st)
	}
	// While the job waits, its node cannot tell how many GPUs its programs see: any other node's proxyd can.
	s.runOn("ctl", "operator", fmt.Sprintf("singctl preempt %[1]s --hold && singctl resize %[1]s --gpus 2 && ! singctl resize %[1]s --gpus 3 && singctl resume %[1]s", rigid.id))
	if st := rigid.waitForState("RUNNING"); st.restarts != 2 || st.gres != "gres/gpu:2" {
		s.Errorf("grown while it waited: %s", st)
	}
	rigid.waitForProgress()
	rigid.endAndCompare()
	if st := grows.endAndCompare(); st.restarts != 0 {
		s.Errorf("the job was restarted %d times", st.restarts)
	}
}

// refuseSize has an operator ask for a size that a job cannot have: the request is refused with the reason, and no
// action begins.
func (s *site) refuseSize(j *job, size, why string) {
	s.Helper()
	before, _ := j.readHistory()
	said := s.runOn("ctl", "operator", "singctl resize "+j.id+" "+size+" 2>&1 || :")
	after, _ := j.readHistory()
	if st := j.currentState(); !strings.Contains(said, why) || len(after) != len(before) || st.is != "RUNNING" || st.restarts != 0 {
		s.Errorf("resize %s of job %s: %s; %s", size, j.name, st, said)
	}
}

// watchState returns the states that squeue shows of a job until ctx ends, each once.
func (s *site) watchState(ctx context.Context, j *job) string {
	var all []string
	for ctx.Err() == nil {
		state, err := s.cluster.Exec(ctx, "ctl", "root", "squeue", "-h", "-j", j.id, "-o", "%T")
		if err == nil && !slices.Contains(all, state) {
			all = append(all, state)
		}
	}
	return strings.Join(all, ", ")
}

// TestLeases: a training of four ranks on a single GPU of its own is put on two, three and four GPUs and back, at
// random moments; the training stays the same run of the same job, and has the results of the undisturbed training.
func TestLeases(t *testing.T) {
	t.Parallel()
	s := raiseSite(t, *name+"-four", 1, 4, 4)
	s.configurePolicies("")
	j := s.submitTraining("four", "--qos=basic --gpus-per-node=1 --singularity-gpus=1-4 --export=ALL,RANKS=4")
	j.waitForProgress()
	ctx, stop := context.WithCancel(t.Context())
	watched := make(chan string)
	go func() { watched <- s.watchState(ctx, j) }()
	r := rand.New(rand.NewPCG(*seed, 7))
	t.Logf("-seed %d", *seed)
	sizes := slices.Concat([]int{3}, r.Perm(4), r.Perm(4))
	for _, n := range sizes {
		s.runOn("ctl", "operator", fmt.Sprintf("singctl resize %s --gpus %d --reason test", j.id, n+1))
		j.waitForShares(n + 1)
		if r.IntN(2) == 0 {
			j.waitForProgress()
		}
	}
	j.waitForProgress()
	stop()
	if states := <-watched; states != "RUNNING" {
		t.Errorf("squeue has shown the job %s", states)
	}
	s.checkPlacements("n1", len(slices.Compact(sizes)))
	if st := j.endAndCompare(); st.restarts != 0 {
		t.Errorf("the job was restarted %d times", st.restarts)
	}
}

// placed matches the line that a node logs when a job's devices are on other GPUs.
var placed = regexp.MustCompile(`msg="devices are placed".* took=(\S+)`)

// checkPlacements checks for how long a job stood still while its devices were put on other GPUs of a node: at least so
// often, and for less than a second in the median, which a machine that stands still at one of them does not change.
func (s *site) checkPlacements(node string, least int) {
	s.Helper()
	var all []time.Duration
	for _, m := range placed.FindAllStringSubmatch(s.runOn(node, "root", "cat /var/log/slurm/proxyd.log"), -1) {
		took, err := time.ParseDuration(m[1])
		if err != nil {
			s.Fatal(err)
		}
		all = append(all, took)
	}
	s.Logf("devices were placed in %v", all)
	slices.Sort(all)
	if len(all) < least || all[len(all)/2] > time.Second {
		s.Errorf("devices were placed %d times, want %d at least, and half of them within a second: %v", len(all), least, all)
	}
}

// TestLeasesOfNodes: a training on two nodes with a GPU each is lent one more on each of them and leaves these again, in
// place. The training goes on on a single node, by a requeue: there its capsules share a GPU and a device server, which are lent
// another GPU, as one; proxyd's successor knows the lease. The training has the results of the undisturbed training.
func TestLeasesOfNodes(t *testing.T) {
	t.Parallel()
	s := raiseSite(t, *name+"-lent", 2, 2, 4)
	s.configurePolicies("")
	j := s.submitTraining("lent", "--qos=basic --nodes=2 --ntasks=4 --ntasks-per-node=2 --overcommit --gpus-per-node=1 --singularity-gpus=2-4")
	j.waitForProgress()
	for _, gpus := range []int{2, 1, 2} {
		said := s.runOn("ctl", "operator", fmt.Sprintf("singctl resize %s --gpus %d --reason test", j.id, gpus))
		if !strings.Contains(said, "in place; lent by: ") {
			t.Errorf("singctl resize to %d GPUs on each node, want in place, by a lease: %s", gpus, said)
		}
		j.waitForShares(gpus)
		if on := strings.Fields(s.runOn("ctl", "root", "squeue -h -t R -n lease-of-"+j.id+" -o %N")); len(on) != 2*(gpus-1) {
			t.Errorf("leases on %v for %d GPUs on each of 2 nodes", on, gpus)
		}
		j.waitForProgress()
	}
	if st := j.currentState(); st.restarts != 0 || st.is != "RUNNING" {
		t.Errorf("after the leases on two nodes the job is %s, want RUNNING without a restart", st)
	}
	j.resizeNodes(1, 1)
	if capsules := j.shownCapsules(2); capsules[0].Devices.Server != capsules[1].Devices.Server || capsules[0].Devices.Server == "" {
		t.Errorf("two capsules on a node, want one device server: %+v", capsules)
	}
	lease := s.submitBorrower("more", "alice", j, "")
	lease.waitForState("RUNNING")
	j.waitForShares(2)
	j.waitForProgress()
	s.runMinicluster("restart", j.currentState().nodes, "proxyd")
	j.waitForProgress()
	s.runOn("ctl", "alice", "scancel "+lease.id)
	j.waitForShares(1)
	j.waitForProgress()
	s.runOn("ctl", "operator", "singctl resize "+j.id+" --gpus 2 --reason test")
	j.waitForShares(2)
	j.waitForProgress()
	if st := j.endAndCompare(); st.restarts != 1 {
		t.Errorf("the job was restarted %d times", st.restarts)
	}
}
