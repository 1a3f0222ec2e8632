// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// tenantSpecs returns the Specs of n tenants of a process with a single device.
func tenantSpecs(t *testing.T, w *soft.World, n int) []Spec {
	t.Helper()
	folder := t.TempDir()
	shared := filepath.Join(t.TempDir(), "shared")
	var all []Spec
	for i := range n {
		spec := specOf(t, w)
		spec.Dir, spec.Shared = filepath.Join(folder, strconv.Itoa(i)), shared
		spec.Count, spec.Order, spec.Self = 1, []int{0}, i
		all = append(all, spec)
	}
	return all
}

// TestShared: programs of two capsules use a device of a single process. A capsule that ends takes only its own
// program's device away; when the last capsule ends, the process and its cgroup end.
func TestShared(t *testing.T) {
	w := makeWorld(t)
	ctx, specs := testDeadline(t), tenantSpecs(t, w, 2)
	g := makeCgroup(t)
	specs[0].Cgroup, specs[1].Cgroup = g, g
	var all []*Server
	var programs []*program
	for _, spec := range specs {
		s := startServer(t, spec)
		all = append(all, s)
		programs = append(programs, inCapsule(t, w, s, "testdata/steps.c"))
	}
	for i, p := range programs {
		p.readLine(t)
		if got := p.nextStep(t); got != "32896" {
			t.Errorf("a tenant's program prints %q, want 32896", got)
		}
		st, err := all[i].Status(ctx)
		if err != nil || len(st.Processes) != 1 || st.Processes[0].PID != p.cmd.Process.Pid {
			t.Errorf("a tenant's status = %+v, %v, want its own program only", st, err)
		}
		if all[i].PID() != all[0].PID() || all[i].Shared() != specs[0].Shared || all[i].Cgroup() != g {
			t.Errorf("tenant %d is in process %d with Cgroup %q", i, all[i].PID(), all[i].Cgroup())
		}
	}
	if st, err := all[0].Status(ctx); err != nil || st.Sharing[0].Spaces != 2 {
		t.Errorf("the programs do not share the device: %+v, %v", st, err)
	}
	if log := logOf(all[0]) + string(mustRead(t, filepath.Join(specs[0].Shared, logName))); strings.Contains(log, "cannot be read") {
		t.Errorf("the server could not read a process's memory; its log:\n%s", log)
	}
	pid := all[0].PID()
	endServer(t, all[0])
	if !isNotThere(specs[0].Dir) {
		t.Error("the folder of a tenant that has ended is left")
	}
	if got := programs[1].nextStep(t); got != "98176" {
		t.Errorf("the other tenant's program: %q", got)
	}
	// Its place can be taken again, by another daemon.
	again, err := Start(ctx, specs[0])
	if err != nil || again.PID() != pid {
		t.Fatalf("Start of a tenant in the place of an ended one = %v, %v, want the same process", again, err)
	}
	found, err := Find(ctx, specs[0].Dir)
	if err != nil || found == nil {
		t.Fatalf("Find of the new tenant = %v, %v", found, err)
	}
	if _, err := found.Status(ctx); err != nil {
		t.Error(err)
	}
	endServer(t, all[1])
	endServer(t, found)
	<-found.Died()
	again.Close()
	if !isNotThere(specs[0].Shared) || g != "" && !isNotThere(g) || len(serversLeft(t, specs[0].Program)) != 0 {
		t.Errorf("the shared server's folder %s, its cgroup %q or a process of it is still there", specs[0].Shared, g)
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSharedMoved: the state of a tenant is restored in a process of its own, and the other way round.
func TestSharedMoved(t *testing.T) {
	w := makeWorld(t)
	ctx, specs := testDeadline(t), tenantSpecs(t, w, 2)
	other := startServer(t, specs[0])
	s := startServer(t, specs[1])
	p := inCapsule(t, w, s, "testdata/steps.c")
	p.readLine(t)
	want := []string{"32896", "98176", "196096"}
	for i, shared := range []string{"", specs[1].Shared} {
		if got := p.nextStep(t); got != want[i] {
			t.Errorf("before the move, the program prints %q", got)
		}
		folder := server.Folder(t.TempDir())
		r, err := s.Save(ctx, folder, server.SaveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		with, err := server.OpenHostMappings(p.cmd.Process.Pid, r.Processes[0])
		if err != nil {
			t.Fatal(err)
		}
		defer with[0].Close()
		endServer(t, s)
		spec := specs[1]
		spec.Shared, spec.Order = shared, nil
		if s, err = Restore(ctx, spec, folder); err != nil {
			t.Fatal(err)
		}
		defer endServer(t, s)
		err = errors.Join(s.Adopt(ctx, r.Processes[0].ID, p.cmd.Process.Pid, with), s.Resume(ctx))
		if err != nil {
			t.Fatal(err)
		}
		if together := s.PID() == other.PID(); together != (shared != "") {
			t.Errorf("with the shared folder %q, both tenants in a process = %v", shared, together)
		}
	}
	if got := p.nextStep(t); got != want[2] {
		t.Errorf("after the last move, the program prints %q", got)
	}
}

// TestSharedAlike: memory that the programs of two capsules hold alike, each on a device of its own, is there once when
// they come to one device, although the process's user may not read the kernel's facts about its pages.
func TestSharedAlike(t *testing.T) {
	w := makeWorld(t)
	ctx, specs := testDeadline(t), tenantSpecs(t, w, 2)
	var programs []*program
	var folders []server.Folder
	var saved []*server.Report
	var rings [][]*os.File
	for _, spec := range specs {
		spec.Shared = ""
		s := startServer(t, spec)
		p := inCapsule(t, w, s, "testdata/steps.c")
		p.readLine(t)
		p.nextStep(t)
		folder := server.Folder(t.TempDir())
		r, err := s.Save(ctx, folder, server.SaveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		with, err := server.OpenHostMappings(p.cmd.Process.Pid, r.Processes[0])
		if err != nil {
			t.Fatal(err)
		}
		defer with[0].Close()
		endServer(t, s)
		programs, folders, saved, rings = append(programs, p), append(folders, folder), append(saved, r), append(rings, with)
	}
	var all []*Server
	for i, spec := range specs {
		spec.Order = nil
		s, err := Restore(ctx, spec, folders[i])
		if err != nil {
			t.Fatal(err)
		}
		defer endServer(t, s)
		if err := s.Adopt(ctx, saved[i].Processes[0].ID, programs[i].cmd.Process.Pid, rings[i]); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	st, err := all[0].Status(ctx)
	if err != nil || st.Sharing[0].Saved == 0 || st.Sharing[0].Common < st.Sharing[0].Saved {
		t.Errorf("no memory of the ranks is held once: %+v, %v", st.Sharing, err)
	}
	for i, s := range all {
		if err := s.Resume(ctx); err != nil {
			t.Fatal(err)
		}
		if got := programs[i].nextStep(t); got != "98176" {
			t.Errorf("on the shared device, the program prints %q, want 98176", got)
		}
	}
}

// TestSharedKilledAtEachStep: at whichever step a daemon is killed, of the first tenant or of a later one, and of the
// process, the tenants' records lead to all that the steps have made.
func TestSharedKilledAtEachStep(t *testing.T) {
	w := makeWorld(t)
	g := makeCgroup(t)
	for _, later := range []bool{false, true} {
		var names []string
		for _, s := range tenantSteps {
			names = append(names, s.name)
		}
		if !later {
			for _, s := range steps {
				names = append(names, s.name)
			}
		}
		for _, step := range names {
			t.Run(step+" later "+strconv.FormatBool(later), func(t *testing.T) {
				ctx, specs := testDeadline(t), tenantSpecs(t, w, 2)
				specs[0].Cgroup, specs[1].Cgroup = g, g
				if later {
					first := startServer(t, specs[0])
					defer func() {
						if _, err := first.Status(ctx); err != nil {
							t.Errorf("the first tenant: %v", err)
						}
						endServer(t, first)
						if !isNotThere(specs[0].Shared) || g != "" && !isNotThere(g) || len(serversLeft(t, specs[0].Program)) != 0 {
							t.Error("after the end of the last tenant, the shared folder, the cgroup or a process is left")
						}
					}()
				}
				spec := specs[1]
				startDaemon(t, spec, step).Wait()
				s, err := Find(ctx, spec.Dir)
				if err != nil || s == nil {
					t.Fatalf("Find after the daemon's death = %v, %v", s, err)
				}
				if err := errors.Join(s.End(ctx), s.End(ctx)); err != nil {
					t.Error(err)
				}
				if !isNotThere(spec.Dir) || !later && (!isNotThere(spec.Shared) || g != "" && !isNotThere(g)) {
					t.Errorf("a folder, %s or %s, or the cgroup %q is still there", spec.Dir, spec.Shared, g)
				}
				if !later {
					for _, pid := range serversLeft(t, spec.Program) { // before it was recorded
						waitFor(t, ctx, pid)
					}
				}
			})
		}
	}
}

// TestSharedDies: the end of the process is the end of all tenants, and no tenant joins it any more.
func TestSharedDies(t *testing.T) {
	w := makeWorld(t)
	ctx, specs := testDeadline(t), tenantSpecs(t, w, 3)
	first, second := startServer(t, specs[0]), startServer(t, specs[1])
	if err := unix.Kill(first.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-first.Died()
	<-second.Died()
	if s, err := Start(ctx, specs[2]); !errors.Is(err, ErrDied) {
		t.Errorf("Start of a tenant of a dead process = %v, %v, want ErrDied", s, err)
	}
	if !isNotThere(specs[2].Dir) {
		t.Errorf("the tenant's folder %s is still there", specs[2].Dir)
	}
	endServer(t, first)
	endServer(t, second)
	third := startServer(t, specs[2]) // of another run
	if _, err := third.Status(ctx); err != nil {
		t.Error(err)
	}
}

// TestSharedStopped: a user that stops the process does not keep a tenant from ending, and the other tenants' Died is
// closed.
func TestSharedStopped(t *testing.T) {
	was := dismissTime
	dismissTime = time.Second
	defer func() { dismissTime = was }()
	w := makeWorld(t)
	specs := tenantSpecs(t, w, 2)
	first, second := startServer(t, specs[0]), startServer(t, specs[1])
	stopProcess(t, first.PID())
	endServer(t, first)
	<-second.Died()
	endServer(t, second)
	if !isNotThere(specs[0].Shared) {
		t.Errorf("the shared server's folder %s is still there", specs[0].Shared)
	}
}

// stopProcess stops a process, and returns when all of its threads stand still.
func stopProcess(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for ctx := testDeadline(t); ; time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		stand := err == nil && len(threads) > 0
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			_, state, _ := strings.Cut(string(stat), ") ")
			stand = stand && err == nil && strings.HasPrefix(state, "T")
		}
		if stand {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("process %d does not stop", pid)
		}
	}
}

// TestSharedTogether: tenants that begin and end at the same time get a process together, and when they have ended no
// process and no folder is left.
func TestSharedTogether(t *testing.T) {
	w := makeWorld(t)
	ctx, specs := testDeadline(t), tenantSpecs(t, w, 6)
	all := make([]*Server, len(specs))
	var wg sync.WaitGroup
	for i, spec := range specs {
		wg.Go(func() {
			var err error
			if all[i], err = Start(ctx, spec); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for _, s := range all {
		if s.PID() != all[0].PID() {
			t.Errorf("tenants are in processes %d and %d, want the same", s.PID(), all[0].PID())
		}
		wg.Go(func() { endServer(t, s) })
	}
	wg.Wait()
	if !isNotThere(specs[0].Shared) || len(serversLeft(t, specs[0].Program)) != 0 {
		t.Errorf("the shared server's folder %s or a process of it is still there", specs[0].Shared)
	}
}

// TestSharedEnter: the process enters the cgroup that comes first, and no tenant takes it to another.
func TestSharedEnter(t *testing.T) {
	w := makeWorld(t)
	g := makeCgroup(t)
	if g == "" {
		t.Skip("SKIP: needs cgroup v2 to write to")
	}
	specs := tenantSpecs(t, w, 2)
	first, second := startServer(t, specs[0]), startServer(t, specs[1])
	if err := errors.Join(first.Enter(g), second.Enter(g+"-other")); err != nil {
		t.Fatal(err)
	}
	if first.Cgroup() != g || second.Cgroup() != g || !isNotThere(g+"-other") {
		t.Errorf("cgroups of the tenants = %q and %q, want the first", first.Cgroup(), second.Cgroup())
	}
	endServer(t, first)
	if isNotThere(g) {
		t.Error("the cgroup was removed while a tenant is left")
	}
	endServer(t, second)
	if !isNotThere(g) {
		t.Error("after the end of the last tenant, the cgroup is left")
	}
}

// TestSharedSpec: for settings that tenants cannot have, Start gives an error that names the setting, and leaves no
// process or folder.
func TestSharedSpec(t *testing.T) {
	w := makeWorld(t)
	for says, bad := range map[string]func(*Spec){
		"--spare 33: it is from 0": func(s *Spec) { s.Spare = 33 },
		"devices on [1] of 1":      func(s *Spec) { s.Order = []int{1} },
		"--soft 0: it is from 1":   func(s *Spec) { s.Count = 0 },
	} {
		spec := tenantSpecs(t, w, 1)[0]
		bad(&spec)
		if s, err := Start(testDeadline(t), spec); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Start = %v, %v, want an error with %q", s, err, says)
		}
		if !isNotThere(spec.Dir) || !isNotThere(spec.Shared) {
			t.Errorf("a folder is still there, %s or %s", spec.Dir, spec.Shared)
		}
	}
}
