//go:build control

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// The node to which a job is being moved fails: the job goes on elsewhere from its checkpoint, whether or not the job
// had started on the failed node.
func nodeFails(s *site) {
	s.configurePolicies("", "patience: {start: 20s}")
	was, err := s.readStatus()
	if err != nil {
		s.Fatal(err)
	}
	s.runOn("ctl", "root", "kill $(pidof preemptd)") // preemptd is started again
	s.waitFor("preemptd is back", func() (bool, string) { now, err := s.readStatus(); return err == nil && now.Term > was.Term, "" })
	j := s.submitTraining("m1", "--qos=basic --gpus-per-node=2 --singularity")
	j.waitForProgress()
	from := j.currentState().nodes
	to := map[string]string{"n1": "n2", "n2": "n3", "n3": "n1"}[from]
	s.runOn("ctl", "alice", "singctl migrate --no-wait --to "+to+" "+j.id)
	j.waitUntil("has left", func(st state) bool { return st.is == "PENDING" && st.restarts == 1 })
	s.runMinicluster("fail", to)
	defer func() {
		s.runMinicluster("heal", to)
		s.waitFor(to+" is back", func() (bool, string) {
			said := s.runOn("ctl", "root", "scontrol update nodename="+to+" state=resume 2>/dev/null || true; sinfo -h -p main -n "+to+" -o %T")
			return said == "idle", said
		})
	}()
	st := j.waitUntil("runs elsewhere", func(st state) bool {
		if st.is == "PENDING" && st.reason == "BeginTime" { // two minutes pass before Slurm runs a job again that Slurm itself requeued
			s.runOn("ctl", "root", "scontrol update jobid="+j.id+" starttime=now || true")
		}
		return st.is == "RUNNING" && st.nodes != to
	})
	s.Logf("from %s, not to %s, but on %s", from, to, st.nodes)
	j.waitForProgress()
	acts, _ := j.readHistory()
	if acts[0].Kind != "migrate" || acts[0].State == "done" && (len(acts) != 2 || acts[1].Who != "preemptd" || acts[1].Kind != "resume") || acts[0].State != "done" && acts[0].Problem == "" {
		s.Errorf("the actions on the job are %+v; want a migrate that failed, or that is done and a resume by preemptd", acts)
	}
	j.endAndCompare()
}

// status has the fields of preemptd in the output of singctl status --json.
type status struct {
	Holder   string
	Term     int64
	Policies []struct {
		Name             string
		Running          bool
		Starts, Failures int
		Problem          string
	}
}

func (s *site) readStatus() (st status, err error) {
	s.Helper()
	out, err := s.cluster.Exec(s.Context(), "ctl", "operator", "singctl", "status", "--json")
	if err != nil {
		return st, err
	}
	return st, json.Unmarshal([]byte(out), &st)
}

// waitForFailures waits until a policy has failed so often, with a problem.
func (s *site) waitForFailures(policy string, times int, problem string) {
	s.Helper()
	s.waitFor("policy "+policy+" has failed", func() (bool, string) {
		st, err := s.readStatus()
		if err != nil {
			return false, err.Error()
		}
		for _, p := range st.Policies {
			if p.Name == policy && p.Failures >= times && strings.Contains(s.preemptdLog(), problem) {
				return true, ""
			}
		}
		return false, s.preemptdLog()[max(0, len(s.preemptdLog())-500):]
	})
}

// A policy is killed, stopped by a signal, and replaced by a policy that floods preemptd with intents: preemptd reports
// the fault and goes on, and the decisions of the other policies are carried out.
func policiesFail(s *site) {
	const folder = "/usr/libexec/singularity-slurm/"
	binary := s.cluster.Shared("bin/sing-policy-bad")
	if out, err := exec.Command("go", "build", "-o", binary, "../../preemptd/policy/testdata/misbehave").CombinedOutput(); err != nil {
		s.Fatalf("%v\n%s", err, out)
	}
	s.runOn("ctl", "root", `printf '#!/bin/sh\nexec /shared/bin/sing-policy-bad flood\n' >`+folder+`sing-policy-flood; chmod 755 `+folder+`sing-policy-flood`)
	s.configurePolicies("flood, tiers", "policy.timeout: 3s")
	s.waitForFailures("flood", 1, "policy=flood")
	basic := s.fillCluster("c", "--singularity=gpus=1-2")
	s.runOn("ctl", "root", "pkill -9 -f ^"+folder+"sing-policy-tiers")
	s.waitForFailures("tiers", 1, "policy=tiers")
	first := s.submitTraining("cp1", "--qos=premium --gpus-per-node=1 --singularity")
	first.waitForState("RUNNING")
	s.runOn("ctl", "root", "pkill -STOP -f ^"+folder+"sing-policy-tiers")
	s.waitForFailures("tiers", 2, "policy=tiers")
	second := s.submitTraining("cp2", "--qos=premium --gpus-per-node=1 --singularity")
	second.waitForState("RUNNING")
	first.endAndCompare()
	second.endAndCompare()
	for _, j := range basic {
		j.endAndCompare()
	}
}

// An administrator writes a policy of the site's own, and changes the policy: both take effect at once; a mistake does not.
func sitePolicy(s *site) {
	const file = "/etc/singularity-slurm/policies/policy.star"
	s.writeFile(file, "def decide(cluster):\n    return []")
	s.configurePolicies("starlark")
	j := s.submitTraining("st", "--qos=basic --gpus-per-node=2 --singularity")
	j.waitForProgress()
	j.checkActs()
	s.writeFile(file, `def decide(cluster):
    return [preempt(j, reason = "tests run at night", park = True) for j in cluster.jobs if j.name == "st" and j.state == "running" and j.preemptable and j.action == ""]`)
	st := j.waitUntil("is parked", func(st state) bool { return st.is == "PENDING" && st.held && st.restarts == 1 })
	if !strings.Contains(st.comment, "tests run at night") {
		s.Errorf("comment: %s", st.comment)
	}
	j.waitUntil("is let alone", func(state) bool { acts, _ := j.readHistory(); return len(acts) == 1 && acts[0].State == "done" })
	s.writeFile(file, "def decide(cluster:\n    return []")
	s.waitFor("the mistake is said", func() (bool, string) { return strings.Contains(s.preemptdLog(), "policy.star:1"), "" })
	s.writeFile(file, `def decide(cluster):
    return [resume(j, reason = "night") for j in cluster.jobs if j.name == "st" and j.state == "held" and j.held_by == "preemptd" and j.action == ""]`)
	j.waitForProgress()
	j.checkActs("preempt by policy starlark", "resume by policy starlark")
	j.endAndCompare()
}

// A second preemptd is started by mistake: the second waits, and works when the first is killed. That this takes 10 s at most is
// tested in preemptd/mandate, by a clock that the machine's speed does not change.
func twoControllers(s *site) {
	s.configurePolicies("tiers")
	basic := s.fillCluster("t", "--singularity")
	one, err := s.readStatus()
	if err != nil {
		s.Fatal(err)
	}
	s.runOn("ctl", "root", "setsid preemptd >/var/log/slurm/second.log 2>&1 </dev/null & echo $! >/run/second.pid")
	s.waitFor("the second one waits", func() (bool, string) {
		said := s.runOn("ctl", "root", "cat /var/log/slurm/second.log")
		return strings.Contains(said, "another preemptd works"), said
	})
	// The first preemptd, with the process that would start preemptd again.
	s.runOn("ctl", "root", "second=$(cat /run/second.pid); for p in $(pidof preemptd); do [ $p = $second ] || { kill -9 $(ps -o ppid= -p $p) $p; }; done")
	began := time.Now()
	var two status
	s.waitFor("the second one works", func() (bool, string) {
		two, err = s.readStatus()
		return err == nil && two.Term > one.Term, ""
	})
	took := time.Since(began)
	s.Logf("%s, then %s, %.1f s after that was killed", one.Holder, two.Holder, took.Seconds())
	premium := s.submitTraining("tp", "--qos=premium --gpus-per-node=1 --singularity")
	premium.waitForProgress()
	premium.endAndCompare()
	gave := 0
	for _, j := range basic {
		acts, _ := j.readHistory()
		gave += len(acts)
		j.endAndCompare()
	}
	if gave != 1 {
		s.Errorf("%d actions were done", gave)
	}
	s.runOn("ctl", "root", "kill $(cat /run/second.pid)")
	s.runMinicluster("heal", "ctl")
}

// A second preemptd with a journal of its own knows of the first from Slurm alone.
func twoJournals(s *site) {
	s.configurePolicies("tiers")
	s.waitFor("Slurm shows who works", func() (bool, string) {
		said := s.runOn("ctl", "root", "scontrol -o show reservation")
		return strings.Count(said, "ReservationName=preemptd:works:ctl:") == 1, said
	})
	s.runOn("ctl", "root", "setsid preemptd --journal /var/lib/singularity-slurm/other.db --listen :6841 --web-address '' >/var/log/slurm/third.log 2>&1 </dev/null & echo $! >/run/third.pid")
	said := ""
	says := func(what string) func() (bool, string) {
		return func() (bool, string) {
			said = s.runOn("ctl", "root", "cat /var/log/slurm/third.log")
			return strings.Contains(said, what), said
		}
	}
	s.waitFor("the second one waits", says(`holder="the one on ctl (reservation preemptd:works:ctl:`))
	// For longer than the mandate lives: the first preemptd answers. grep fails where no line matches: the second
	// preemptd logs that it waits before asking.
	asked := func() int {
		n, err := strconv.Atoi(strings.TrimSpace(s.runOn("ctl", "root", "grep -c 'Created reservation=preemptd:waits:ctl:' /var/log/slurm/slurmctld.log || true")))
		if err != nil {
			s.Fatal(err)
		}
		return n
	}
	before := max(1, asked())
	s.waitFor("the second one asks three times more", func() (bool, string) {
		n := asked()
		return n >= before+3, fmt.Sprintf("it asked %d times", n-before)
	})
	if works, said := says("msg=working")(); works {
		s.Fatalf("two work:\n%s", said)
	}
	s.runOn("ctl", "root", "third=$(cat /run/third.pid); for p in $(pidof preemptd); do [ $p = $third ] || { kill -9 $(ps -o ppid= -p $p) $p; }; done")
	began := time.Now()
	s.waitFor("the second one works", says("msg=working"))
	took := time.Since(began)
	s.Logf("the second preemptd worked %.1f s after the first was killed", took.Seconds())
	s.runOn("ctl", "root", "kill $(cat /run/third.pid); while kill -0 $(cat /run/third.pid) 2>/dev/null; do sleep 0.1; done")
	if said := s.runOn("ctl", "root", "scontrol -o show reservation"); strings.Contains(said, "preemptd:") {
		s.Errorf("no preemptd works, and Slurm shows %s", said)
	}
	s.runMinicluster("heal", "ctl")
}

// proxydIs waits until the data of preemptd's web page tell that a node's proxyd answers or is silent, with this
// problem.
func (s *site) proxydIs(node, proxyd, problem string) {
	s.Helper()
	s.waitFor("the page says "+proxyd+" of "+node, func() (bool, string) {
		text := s.runOn("ctl", "root", "curl -sS http://127.0.0.1:6832/api/v1/nodes")
		var said struct {
			Nodes []struct{ Name, Proxyd, Problem, Version string }
		}
		if err := json.Unmarshal([]byte(text), &said); err != nil {
			s.Fatalf("%v: %s", err, text)
		}
		for _, n := range said.Nodes {
			if n.Name == node && n.Proxyd == proxyd && n.Problem == problem && n.Version != "" {
				return true, ""
			}
		}
		return false, text
	})
}

// proxydStops: a proxyd is stopped, and another loses the shared folder: the page and singctl say so, and say when they
// are back.
func proxydStops(s *site) {
	for _, n := range []string{"n1", "n2", "n3"} {
		s.proxydIs(n, "answers", "")
	}
	s.runOn("n2", "root", "pkill -STOP -x proxyd") // a daemon that ended would be started again by itself
	defer s.runOn("n2", "root", "pkill -CONT -x proxyd")
	s.runOn("n3", "root", "mount -t tmpfs -o mode=755 tmpfs /shared/singularity")
	s.proxydIs("n2", "silent", "")
	s.proxydIs("n3", "answers", "the shared folder is not there, or not mounted")
	s.proxydIs("n1", "answers", "")
	said := s.runOn("ctl", "alice", "singctl status")
	for _, want := range []string{"2 of 3 nodes answer, 1 silent, 1 without the right shared folder", "node n2: proxyd does not answer since ", "node n3: the shared folder is not there"} {
		if !strings.Contains(said, want) {
			s.Errorf("no %q in\n%s", want, said)
		}
	}
	said = s.runOn("ctl", "alice", "singctl doctor --controller || true")
	if want := "1 of 3 proxyds do not answer: n2; n3: the shared folder is not there, or not mounted"; !strings.Contains(said, want) {
		s.Errorf("no %q in\n%s", want, said)
	}
	s.runOn("n3", "root", "umount /shared/singularity")
	s.runOn("n2", "root", "pkill -CONT -x proxyd")
	s.proxydIs("n2", "answers", "")
	s.proxydIs("n3", "answers", "")
}
