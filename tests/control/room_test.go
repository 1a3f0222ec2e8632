//go:build control

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"strings"
)

// submitUnprotected submits a job of alice's that preemptd cannot capture, and that only sleeps.
func (s *site) submitUnprotected(name, options string) *job {
	s.Helper()
	return &job{s, s.runOn("ctl", "alice", "sbatch --parsable --output=/dev/null --job-name="+name+" "+options+" --wrap='sleep 1000'"), name}
}

// roomReservations are the reservations that keep room for a job.
func (s *site) roomReservations() string {
	s.Helper()
	return s.runOn("ctl", "root", "scontrol -o show reservation | grep -o 'ReservationName=preemptd:room:[^ ]*' || true")
}

// noRoom waits until no room is kept for any job.
func (s *site) noRoom() {
	s.Helper()
	s.waitFor("no room is kept", func() (bool, string) {
		said := s.roomReservations() + s.runOn("ctl", "root", "squeue -h -o '%i %v' | grep preemptd: || true")
		return said == "", said
	})
}

// Slurm would give the room that is made for a premium job to a job that is earlier in Slurm's queue.
func roomIsKeptFromFirst(s *site) {
	s.configurePolicies("tiers")
	basic := s.fillCluster("k", "--singularity")
	first := s.submitUnprotected("kf", "--qos=basic --time=10 --gpus-per-node=2")
	s.runOn("ctl", "root", "scontrol update jobid="+first.id+" priority=1000000")
	first.waitUntil("waits", func(st state) bool { return st.is == "PENDING" && st.reason == "Resources" })
	premium := s.submitTraining("kp", "--qos=premium --gpus-per-node=1 --singularity")
	premium.waitForState("RUNNING")
	if st := first.currentState(); st.is != "PENDING" {
		s.Errorf("the room went to job %s: %s", first.name, st)
	}
	s.noRoom()
	s.runOn("ctl", "root", "scancel "+first.id)
	premium.waitForProgress()
	premium.endAndCompare()
	s.checkOneGaveWay(basic)
}

// checkOneGaveWay checks that one of the jobs gave way, once, and that all come to their ends.
func (s *site) checkOneGaveWay(jobs []*job) {
	s.Helper()
	gave := 0
	for _, j := range jobs {
		gave += len(j.listActs())
		j.waitForProgress()
		j.endAndCompare()
	}
	if gave != 1 {
		s.Errorf("%d actions were done to make room", gave)
	}
}

// Two jobs leave a node for a premium job, the second a while after the first. Slurm assumes that the premium job can
// start when the second job's time is over, and would fit a short job in until then.
func roomIsKeptFromShort(s *site) {
	s.configurePolicies("tiers", "max_actions: 1")
	basic := []*job{
		s.submitTraining("ks1", "--qos=basic --nodelist=n1 --gpus-per-node=1 --singularity"), s.submitTraining("ks2", "--qos=basic --nodelist=n1 --gpus-per-node=1 --singularity"),
	}
	for _, j := range basic {
		j.waitForProgress()
	}
	short := s.submitUnprotected("ks", "--qos=basic --time=1 --nodelist=n1 --gpus-per-node=1")
	short.waitUntil("waits", func(st state) bool { return st.is == "PENDING" })
	premium := s.submitTraining("ksp", "--qos=premium --nodelist=n1 --gpus-per-node=2 --singularity")
	premium.waitForState("RUNNING")
	if st := short.currentState(); st.is != "PENDING" {
		s.Errorf("the room went to job %s: %s", short.name, st)
	}
	s.noRoom()
	s.runOn("ctl", "root", "scancel "+short.id)
	premium.waitForProgress()
	premium.endAndCompare()
	for _, j := range basic {
		j.checkActs("preempt by policy tiers")
		j.waitForProgress()
		if st := j.endAndCompare(); st.restarts != 1 {
			s.Errorf("job %s was restarted %d times", j.name, st.restarts)
		}
	}
}

// The premium job is cancelled while room is made, and preemptd is killed meanwhile, too: no node stays kept.
// The jobs that give way have memory to save, so that making room takes longer than to notice the beginning.
func roomIsGivenUp(s *site) {
	s.configurePolicies("tiers")
	basic := s.fillCluster("kg", "--singularity --export=ALL,BALLAST=200")
	first := s.submitUnprotected("kgf", "--qos=basic --time=10 --gpus-per-node=2")
	s.runOn("ctl", "root", "scontrol update jobid="+first.id+" priority=1000000")
	premium := s.submitTraining("kgp", "--qos=premium --gpus-per-node=1 --singularity")
	was, err := s.readStatus()
	if err != nil {
		s.Fatal(err)
	}
	s.waitFor("room is kept", func() (bool, string) { return s.roomReservations() != "", fmt.Sprint(premium.currentState()) })
	s.runOn("ctl", "root", "kill -9 $(pidof preemptd)") // preemptd is started again
	s.waitFor("preemptd is back", func() (bool, string) { now, err := s.readStatus(); return err == nil && now.Term > was.Term, "" })
	premium.waitForState("RUNNING")
	if st := first.currentState(); st.is != "PENDING" {
		s.Errorf("the room went to job %s: %s", first.name, st)
	}
	s.noRoom()
	premium.waitForProgress()
	premium.endAndCompare()
	s.runOn("ctl", "root", "scancel "+first.id)
	s.checkOneGaveWay(basic)

	basic = s.fillCluster("kh", "--singularity --export=ALL,BALLAST=200")
	premium = s.submitTraining("khp", "--qos=premium --gpus-per-node=1 --singularity")
	s.waitFor("room is kept", func() (bool, string) {
		return strings.HasSuffix(s.roomReservations(), ":"+premium.id), fmt.Sprint(premium.currentState())
	})
	s.runOn("ctl", "root", "scancel "+premium.id)
	s.noRoom()
	s.checkOneGaveWay(basic)
}
