//go:build control

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"strings"
)

// plain submits a job of alice's that preemptd cannot capture, and that does nothing.
func (s *site) plain(name, options string) *job {
	s.Helper()
	return &job{s, s.on("ctl", "alice", "sbatch --parsable --output=/dev/null --job-name="+name+" "+options+" --wrap='sleep 1000'"), name}
}

// rooms are the reservations that keep room for a job.
func (s *site) rooms() string {
	s.Helper()
	return s.on("ctl", "root", "scontrol -o show reservation | grep -o 'ReservationName=preemptd:room:[^ ]*' || true")
}

// noRoom waits until no room is kept, for no job.
func (s *site) noRoom() {
	s.Helper()
	s.until("no room is kept", func() (bool, string) {
		said := s.rooms() + s.on("ctl", "root", "squeue -h -o '%i %v' | grep preemptd: || true")
		return said == "", said
	})
}

// Slurm would give the room that is made for a premium job to a job that is before it in Slurm's queue.
func roomIsKeptFromFirst(s *site) {
	s.configure("tiers")
	basic := s.full("k", "--singularity")
	first := s.plain("kf", "--qos=basic --time=10 --gpus-per-node=2")
	s.on("ctl", "root", "scontrol update jobid="+first.id+" priority=1000000")
	first.is("waits", func(st state) bool { return st.is == "PENDING" && st.reason == "Resources" })
	premium := s.train("kp", "--qos=premium --gpus-per-node=1 --singularity")
	premium.becomes("RUNNING")
	if st := first.now(); st.is != "PENDING" {
		s.Errorf("the room went to job %s: %s", first.name, st)
	}
	s.noRoom()
	s.on("ctl", "root", "scancel "+first.id)
	premium.trains()
	premium.ends()
	s.once(basic)
}

// once checks that one of the jobs gave way, once, and that all come to their ends.
func (s *site) once(jobs []*job) {
	s.Helper()
	gave := 0
	for _, j := range jobs {
		gave += len(j.acts())
		j.trains()
		j.ends()
	}
	if gave != 1 {
		s.Errorf("%d actions were done to make room", gave)
	}
}

// Two jobs leave a node for a premium job, the second a while after the first. Slurm takes it that the premium job can
// start when the second one's time is over, and would fit a short job in until then.
func roomIsKeptFromShort(s *site) {
	s.configure("tiers", "max_actions: 1")
	basic := []*job{
		s.train("ks1", "--qos=basic --nodelist=n1 --gpus-per-node=1 --singularity"), s.train("ks2", "--qos=basic --nodelist=n1 --gpus-per-node=1 --singularity"),
	}
	for _, j := range basic {
		j.trains()
	}
	short := s.plain("ks", "--qos=basic --time=1 --nodelist=n1 --gpus-per-node=1")
	short.is("waits", func(st state) bool { return st.is == "PENDING" })
	premium := s.train("ksp", "--qos=premium --nodelist=n1 --gpus-per-node=2 --singularity")
	premium.becomes("RUNNING")
	if st := short.now(); st.is != "PENDING" {
		s.Errorf("the room went to job %s: %s", short.name, st)
	}
	s.noRoom()
	s.on("ctl", "root", "scancel "+short.id)
	premium.trains()
	premium.ends()
	for _, j := range basic {
		j.did("preempt by policy tiers")
		j.trains()
		if st := j.ends(); st.restarts != 1 {
			s.Errorf("job %s was restarted %d times", j.name, st.restarts)
		}
	}
}

// The premium job is cancelled while room is made for it, and preemptd is killed while it makes room: no node stays kept.
// The jobs that give way have memory to save, so that making room takes longer than to see that it is made.
func roomIsGivenUp(s *site) {
	s.configure("tiers")
	basic := s.full("kg", "--singularity --export=ALL,BALLAST=200")
	first := s.plain("kgf", "--qos=basic --time=10 --gpus-per-node=2")
	s.on("ctl", "root", "scontrol update jobid="+first.id+" priority=1000000")
	premium := s.train("kgp", "--qos=premium --gpus-per-node=1 --singularity")
	was, err := s.status()
	if err != nil {
		s.Fatal(err)
	}
	s.until("room is kept", func() (bool, string) { return s.rooms() != "", fmt.Sprint(premium.now()) })
	s.on("ctl", "root", "kill -9 $(pidof preemptd)") // it is started again
	s.until("preemptd is back", func() (bool, string) { now, err := s.status(); return err == nil && now.Term > was.Term, "" })
	premium.becomes("RUNNING")
	if st := first.now(); st.is != "PENDING" {
		s.Errorf("the room went to job %s: %s", first.name, st)
	}
	s.noRoom()
	premium.trains()
	premium.ends()
	s.on("ctl", "root", "scancel "+first.id)
	s.once(basic)

	basic = s.full("kh", "--singularity --export=ALL,BALLAST=200")
	premium = s.train("khp", "--qos=premium --gpus-per-node=1 --singularity")
	s.until("room is kept", func() (bool, string) { return strings.HasSuffix(s.rooms(), ":"+premium.id), fmt.Sprint(premium.now()) })
	s.on("ctl", "root", "scancel "+premium.id)
	s.noRoom()
	s.once(basic)
}
