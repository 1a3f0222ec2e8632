//go:build control

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"os"
	"strings"
)

// pauseController has preemptd stop itself when an action comes to the step, and returns a function that waits for that,
// runs a command of root's on ctl, and has preemptd go on (preemptd/pausing_journal.go).
func (s *site) pauseController(step string) (runPaused func(command string)) {
	s.Helper()
	paused := func() int { return strings.Count(s.preemptdLog(), "msg=paused at="+step) }
	before := paused()
	s.runOn("ctl", "root", "printf "+step+" >/run/preemptd-pause")
	return func(command string) {
		s.Helper()
		s.waitFor("preemptd stops at "+step, func() (bool, string) { return paused() > before, "" })
		s.runOn("ctl", "root", "rm /run/preemptd-pause; "+command+"; kill -CONT $(pidof preemptd)")
	}
}

// The journal is removed while an action is under way, and the job waits for it: preemptd writes the journal again, with the
// action, and carries the action to its end.
func journalRemoved(s *site) {
	const journal = "/var/lib/singularity-slurm/preemptd.db"
	s.configurePolicies("")
	j := s.submitTraining("jr", "--qos=basic --gpus-per-node=1 --singularity")
	j.waitForProgress()
	runPaused := s.pauseController("leave")
	s.runOn("ctl", "alice", "singctl migrate --no-wait --away "+j.currentState().nodes+" "+j.id)
	runPaused("rm " + journal + "*")
	s.waitFor("preemptd says so", func() (bool, string) {
		return strings.Contains(s.preemptdLog(), "the file was removed while preemptd worked"), ""
	})
	j.waitUntil("runs again", func(st state) bool { return st.is == "RUNNING" && st.restarts == 1 })
	j.waitForProgress()
	if acts := j.listActs(); len(acts) != 1 || acts[0].Kind != "migrate" || acts[0].State != "done" {
		s.Errorf("the actions on the job are %+v; want the migration, which is done", acts)
	}
	s.runOn("ctl", "root", "test -s "+journal)
	j.endAndCompare()
}

// An action is undone after the job was captured for it, because Slurm refuses the requeue: the job runs on at once, and
// does not stand still for as long as proxyd would wait for the requeue.
func undoneAtOnce(s *site) {
	const waited = "the frozen job was not requeued in time and runs on"
	s.configurePolicies("")
	j := s.submitTraining("un", "--qos=basic --gpus-per-node=1 --singularity")
	j.waitForProgress()
	node := j.currentState().nodes
	proxydLog := func() string {
		text, err := os.ReadFile(s.cluster.Log(node, "proxyd"))
		if err != nil {
			s.Fatal(err)
		}
		return string(text)
	}
	before := strings.Count(proxydLog(), waited)
	runPaused := s.pauseController("park")
	s.runOn("ctl", "alice", "singctl migrate --no-wait --away "+node+" "+j.id)
	runPaused("scontrol update JobId=" + j.id + " Requeue=0")
	acts := j.listActs()
	if len(acts) != 1 || acts[0].State != "undone" {
		s.Errorf("the actions on the job are %+v; want one that was undone", acts)
	}
	j.waitForProgress()
	if n := strings.Count(proxydLog(), waited); n > before {
		s.Error("proxyd has kept the job frozen until its time was up")
	}
	if st := j.endAndCompare(); st.restarts != 0 {
		s.Errorf("the job ended with %d restarts", st.restarts)
	}
}
