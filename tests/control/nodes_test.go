//go:build control

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// shownCapsule has the fields of a capsule in the output of singctl show --json.
type shownCapsule struct {
	Index   int
	Node    string
	Devices struct {
		Server  string
		Sharing []struct {
			Spaces                 int
			Saved, Unshared, Alike count
		}
	}
}

// count is a number in protobuf's JSON, a text if the number may be large.
type count uint64

func (c *count) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseUint(strings.Trim(string(b), `"`), 10, 64)
	*c = count(n)
	return err
}

// shownCapsules are the job's, when all of them show their devices.
func (j *job) shownCapsules(n int) (all []shownCapsule) {
	j.Helper()
	j.waitFor(fmt.Sprintf("job %s shows the devices of %d capsules", j.name, n), func() (bool, string) {
		var shown struct{ Capsules []shownCapsule }
		text := j.runOn("ctl", "alice", "singctl show --json "+j.id+" || :")
		if err := json.Unmarshal([]byte(text), &shown); err != nil {
			return false, text
		}
		all = shown.Capsules
		for _, c := range all {
			if len(c.Devices.Sharing) == 0 {
				return false, text
			}
		}
		return len(all) == n, text
	})
	return all
}

// deviceServers are the PIDs of the device servers on a node: of all, and of the servers that serve several capsules.
func (s *site) deviceServers(node string) (all, shared []string) {
	s.Helper()
	for line := range strings.Lines(s.runOn(node, "root", "ps -eo pid,args | grep '[p]roxyd device' || :")) {
		pid := strings.Fields(line)[0]
		if all = append(all, pid); strings.Contains(line, " --tenants ") {
			shared = append(shared, pid)
		}
	}
	return all, shared
}

// resizeNodes gives the job so many nodes, and waits until the job trains there.
func (j *job) resizeNodes(n, restarts int) state {
	j.Helper()
	j.runOn("ctl", "operator", fmt.Sprintf("singctl resize %s --nodes %d --reason test", j.id, n))
	st := j.waitUntil(fmt.Sprintf("has started again, on %d nodes", n), func(st state) bool { return st.is == "RUNNING" && st.restarts >= restarts })
	j.waitForProgress()
	return st
}

// TestFewerNodes: a training of four nodes with a GPU each goes on with all of its ranks on a single GPU, and comes back to four
// nodes, and has the results of the undisturbed training. On the single node its capsules share a device server, which
// keeps equal blocks of their ranks once; proxyd's successor finds the server again, and its end costs no more than any
// device server's.
func TestFewerNodes(t *testing.T) {
	t.Parallel()
	const extra = "600000" // parameters: blocks of memory that all ranks hold alike
	s := raiseSite(t, *name+"-nodes", 4, 1, 4, "--extra", extra)
	s.configurePolicies("")
	j := s.submitTraining("nodes", "--qos=basic --nodes=4 --ntasks=4 --ntasks-per-node=1 --gpus-per-node=1 --singularity --export=ALL,EXTRA="+extra)
	j.waitForProgress()
	node := j.resizeNodes(1, 1).nodes
	capsules := j.shownCapsules(4)
	for _, c := range capsules {
		counts := c.Devices.Sharing[0]
		if c.Node != node || c.Devices.Server == "" || c.Devices.Server != capsules[0].Devices.Server || counts.Spaces != 4 {
			t.Errorf("capsule %d does not share the device server of capsule 0 on the node: %+v", c.Index, c)
		}
		if counts.Saved+counts.Unshared == 0 {
			t.Errorf("capsule %d: nothing that the ranks held alike was there once: %+v", c.Index, counts)
		}
	}
	if text := s.runOn("ctl", "alice", "singctl show "+j.id); strings.Count(text, "take turns on one GPU") != 1 || !strings.Contains(text, "capsules 0, 1, 2 and 3: they take turns on one GPU") {
		t.Errorf("singctl show does not say once that four capsules take turns: %s", text)
	}
	all, shared := s.deviceServers(node)
	if len(all) != 1 || len(shared) != 1 {
		t.Fatalf("device servers %v, of several capsules %v", all, shared)
	}
	s.runMinicluster("restart", node, "proxyd")
	j.waitForProgress()
	if again, _ := s.deviceServers(node); len(again) != 1 || again[0] != all[0] {
		t.Errorf("device servers %v, and %v before proxyd was restarted", again, all)
	}
	s.runOn("ctl", "operator", "singctl checkpoint "+j.id)
	s.runOn(node, "root", "kill -KILL "+shared[0])
	j.waitUntil("is to run again", func(st state) bool { return st.restarts >= 2 && st.is == "PENDING" })
	s.waitFor("the job may start at once", func() (bool, string) { // Slurm would wait for two minutes
		s.runOn("ctl", "root", "scontrol update JobId="+j.id+" StartTime=now || :")
		st := j.currentState()
		return st.is == "RUNNING", st.String()
	})
	j.waitForProgress()
	st := j.resizeNodes(4, 3)
	if nodes := map[string]bool{}; true {
		for _, c := range j.shownCapsules(4) {
			nodes[c.Node] = c.Devices.Server == ""
		}
		if len(nodes) != 4 {
			t.Errorf("the job is on %s, its capsules on %v, want four nodes", st.nodes, nodes)
		}
	}
	if all, _ := s.deviceServers(node); len(all) > 1 {
		t.Errorf("device servers are left on %s: %v", node, all)
	}
	j.endAndCompare()
}
