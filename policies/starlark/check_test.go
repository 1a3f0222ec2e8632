// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package starlark

import (
	"strings"
	"testing"
)

// Code that would fail in a decision is reported with its line and column, though the line is not run.
func TestMistakesThatAreFoundUnrun(t *testing.T) {
	for text, want := range map[string]string{
		`[j for j in c.jobs if j.teir == "basic"]`:                         "policy.star:3:40: a job has no .teir: it has account,",
		`[j for j in c.jobs if j.tier == "premum"]`:                        `policy.star:3:48: a job's .tier is never "premum": basic, standard, premium`,
		`[j for j in c.jobs if j.state in ("ran", "held")]`:                `policy.star:3:50: a job's .state is never "ran"`,
		`[n for n in c.nodes if "drained" == n.state]`:                     `policy.star:3:39: a node's .state is never "drained": up, draining, down`,
		`[j for j in c.jobs if j.runs_for > "60"]`:                         `a job's .runs_for is of type float and is compared with "60"`,
		`[j for j in c.jobs if j.name == 3]`:                               `a job's .name is of type string and is compared with 3`,
		`sorted(c.jobs, key = lambda j: j.age)[0].id`:                      "a job has no .age",
		`sorted(c.jobs, key = lambda j: j.id)[0].nme`:                      "a job has no .nme",
		`max(c.jobs, key = lambda j: j.id).nme`:                            "a job has no .nme",
		`c.jobs.append(1)`:                                                 "policy.star:3:23: nothing that can be here has .append",
		`[j for j in c.jobs].add(1)`:                                       "policy.star:3:36: nothing that can be here has .add",
		`helper(c.jobs)`:                                                   "policy.star:6:34: nothing that can be here has .prioritty",
		`[place(c.jobs[0], "r")]`:                                          "policy.star:3:17: place needs where",
		`[preempt(c.jobs[0], reson = "r")]`:                                "policy.star:3:36: preempt takes no reson: it takes job, reason, park, for_job",
		`[resize(c.jobs[0], "r", 4, [], None, 1, 2)]`:                      "resize takes at most 5 arguments: job, reason, gpus, where, for_job",
		`[x for x in (c.jobs[0] if c.hour > 3 else c.jobs[1:2][0]).nodez]`: "a job has no .nodez",
		`len(c.jobs[len(c.nodes[0].colour):])`:                             "a node has no .colour",
		`[c.nodes[0].cpus, c.nodes[0].b]`:                                  "a node has no .b",
	} {
		file := "def decide(c):\n    if False:\n        return " + text + "\n"
		if strings.Contains(text, "helper") {
			file += "\ndef helper(jobs):\n    return [j for j in jobs if j.prioritty > 3 or j.tier == \"x\"]\n"
		}
		if _, err := loadSite(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("loadSite of %s:\n%v, want %q", text, err, want)
		}
	}
}

// Code of a kind that the checker cannot tell passes, and a name that is given another value has the kind of that
// value.
func TestWhatCannotBeTold(t *testing.T) {
	for _, text := range []string{
		"    jobs = c.jobs\n    jobs = {}\n    jobs.get(1)\n",
		"    j = c.jobs[0]\n    if c.hour > 3:\n        j = \"x\"\n    return [] if j.upper else []\n",
		"    jobs = {j.id: j for j in c.jobs}\n    return [] if jobs[100].tier == \"basic\" else []\n",
		"    hold = lambda x: []\n    return hold(1)\n",
		"    args = [c.jobs[5], \"r\"]\n    return [hold(*args)]\n",
		"    (a, b), n = (c.jobs[0], 1), 2\n    n += 1\n    return [] if a.tier and b and n and a.nodes[0].upper() and \"%d\" % -n and not n else None\n",
		"    total = 0\n    for j in c.jobs + c.jobs:\n        total += j.gpus\n    for k, v in {\"a\": total}.items():\n        print(k, v)\n",
		"    if not c.jobs or c.jobs[0].dump > 1e9 or c.jobs[0].dump > 1000000 or c.jobs[0].tier >= \"basic\":\n        return []\n",
		"    jobs = [j for j in c.jobs if j.tier == \"basic\"]\n    jobs.append(c.jobs[0])\n    return [hold(jobs.pop(), \"r\")]\n",
		"    jobs = sorted(c.jobs, key = lambda j: j.id)\n    jobs.insert(0, c.jobs[1])\n    jobs.extend(list(c.jobs))\n",
		"    return release(c.jobs[8])\n\ndef release(job):\n    return [hold(job, \"r\")]\n",
	} {
		if _, err := loadSite("def decide(c):\n" + text); err != nil {
			t.Errorf("loadSite(%q): %v", text, err)
		}
	}
}

// A file that is wrong has no effect: the file before decides.
func TestTheOldOneStays(t *testing.T) {
	s, err := loadSite("def decide(c):\n    return [hold(c.jobs[0], \"r\")]\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"def decide(c):\n    return [hold(c.jobs[0], \"r\", 1, 2)]\n", "def decide(c):\n    return 1 // (c.hour - 12)\n"} {
		if err := s.loadFile([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
		if got, err := s.Decide(t.Context(), busySnapshot()); err != nil || len(got) != 1 {
			t.Errorf("after %q: %v, %v", text, got, err)
		}
	}
}

func TestSampleIsSane(t *testing.T) {
	if err := sampleSnapshot().Check(); err != nil {
		t.Error(err)
	}
}
